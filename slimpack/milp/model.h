// Mixed-integer linear programs: minimise a sum of costs over variables, subject to bounds and
// rows. A model is data; slimpack/milp/solve.h finds its best values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

namespace slimpack::milp {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Names one variable of one model; passed by value. index() is its place in every list of values.
class Variable {
 public:
  [[nodiscard]] std::size_t index() const { return index_; }

 private:
  friend class Model;
  Variable(std::size_t index, const void* model) : index_(index), model_(model) {}

  std::size_t index_;
  const void* model_;  ///< compared, never followed
};

/// coefficient · variable, an addend of a row.
struct Term {
  Variable variable;
  double coefficient;
};

/// A model's data: variables by index, rows one after another.
struct ModelData {
  std::vector<double> cost;
  std::vector<double> lower;
  std::vector<double> upper;
  std::vector<bool> integer;
  std::vector<double> row_lower;
  std::vector<double> row_upper;
  std::vector<std::int32_t> row_begin{0};  ///< rows + 1 places in `column` and `coefficient`
  std::vector<std::int32_t> column;
  std::vector<double> coefficient;
};

/// Builds a model. Wrong use (crossing bounds, NaN, a variable of another model, a variable twice
/// in a row) fails a SLIMPACK_CHECK. A model can be moved but not copied; its variables stay valid.
class Model {
 public:
  /// A variable that is 0 or 1 and costs `cost` when it is 1.
  Variable add_binary(double cost = 0);
  /// A variable in [lower, upper] that costs `cost` per unit. Bounds may be infinite.
  Variable add_continuous(double lower, double upper, double cost = 0);
  /// lower ≤ Σ terms ≤ upper. Cost: O(terms log terms).
  void add_row(double lower, std::span<const Term> terms, double upper);
  /// Sets the bounds of `variable` to value.
  void fix(Variable variable, double value);

  [[nodiscard]] std::size_t variables() const { return data_->cost.size(); }
  [[nodiscard]] const ModelData& data() const { return *data_; }

 private:
  Variable add(double lower, double upper, double cost, bool integer);
  void check_own(Variable variable) const;

  std::unique_ptr<ModelData> data_ =
      std::make_unique<ModelData>();  ///< its address is the identity
};

}  // namespace slimpack::milp
