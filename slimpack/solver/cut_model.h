// The mixed-integer program of the exact cut: variables, rows, and what assignments mean in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/milp/model.h"
#include "slimpack/solver/exact_cut.h"

namespace slimpack {

/// Sequences cut at every multiple of the grid; those of one next to each other, in their order.
struct Granules {
  std::vector<Slice> pieces;
  std::vector<std::size_t> begin;  ///< by place of the sequence: its first granule; one more entry
  std::vector<std::vector<std::size_t>> equals;  ///< places of the sequences of each length

  [[nodiscard]] std::size_t count() const { return pieces.size(); }
  [[nodiscard]] std::size_t sequences() const { return begin.size() - 1; }
  [[nodiscard]] bool is_head(std::size_t g) const { return pieces[g].begin == Tokens(0); }
};

/// By granule, the index of its MicroPack.
using PackOfGranule = std::vector<std::int32_t>;

/// Costs are in units of `unit` nanoseconds; what every cut costs (granules by themselves, a slice
/// for each sequence) is left out of the objective. The first sequence of equal ones has its head
/// in the earliest pack, and packs are used without gaps: `values` wants an assignment that is so.
class CutModel {
 public:
  /// Leaves out what costs more than `start_time` in all; no cut has a largest pack cheaper than
  /// `largest_least` (nanoseconds). `problem` and `granules` must outlive the model. REQUIRES: two
  /// packs or more.
  CutModel(const ExactCutProblem& problem, const Granules& granules, double unit,
           double largest_least, double start_time);

  [[nodiscard]] const milp::Model& model() const { return model_; }
  /// Nanoseconds of the pass for an objective of the model.
  [[nodiscard]] double to_nanoseconds(double objective) const;
  [[nodiscard]] std::vector<double> values(const PackOfGranule& pack_of) const;
  [[nodiscard]] PackOfGranule pack_of(const std::vector<double>& values) const;

 private:
  [[nodiscard]] double begin_cost(std::size_t granule) const;
  void add_variables();
  void add_order_rows();
  void add_pack_rows(std::size_t pack);
  void add_at_least(milp::Variable greater, milp::Variable less);
  double add_in(std::vector<milp::Term>& terms, std::size_t granule, std::size_t pack,
                double factor) const;

  const ExactCutProblem& problem_;
  const Granules& granules_;
  double unit_;
  std::vector<double> work_;  ///< by granule, without what a begin costs
  milp::Model model_;
  milp::Variable largest_;
  std::vector<milp::Variable> used_;                ///< by pack
  std::vector<std::vector<milp::Variable>> until_;  ///< by granule and pack but the last
  std::vector<std::vector<milp::Variable>> first_;  ///< by granule and pack; empty: costs nothing
};

}  // namespace slimpack
