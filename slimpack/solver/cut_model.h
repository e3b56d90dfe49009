// The mixed-integer program of the exact cut: variables, rows, and what assignments mean in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "slimpack/milp/model.h"
#include "slimpack/solver/exact_cut.h"

namespace slimpack {

/// The sequences, cut at every multiple of the grid. The granules of a sequence are neighbours, in
/// order.
struct Granules {
  std::vector<Slice> pieces;
  std::vector<std::size_t> begin;  ///< by place of a sequence: its first granule; one more: the end
  std::vector<std::vector<std::size_t>> equals;  ///< places of the sequences of each length

  [[nodiscard]] std::size_t count() const { return pieces.size(); }
  [[nodiscard]] std::size_t sequences() const { return begin.size() - 1; }
  [[nodiscard]] bool is_head(std::size_t g) const { return pieces[g].begin == Tokens(0); }
};

/// By granule, the index of its MicroPack.
using PackOfGranule = std::vector<std::int32_t>;

/// Costs are in units of `unit` nanoseconds. The objective leaves out what every cut costs: the
/// granules by themselves, and a slice for each sequence. Two rules leave one of several cuts that
/// are equal: packs are used without gaps, and sequences of one length have their heads in
/// ascending packs.
class CutModel {
 public:
  /// Cuts that take longer than `start_time` are left out. `largest_least` bounds the largest pack
  /// of every cut from below. Both are nanoseconds. `problem` and `granules` must outlive the
  /// model. REQUIRES: two packs or more.
  CutModel(const ExactCutProblem& problem, const Granules& granules, double unit,
           double largest_least, double start_time);

  [[nodiscard]] const milp::Model& model() const { return model_; }
  /// Nanoseconds of the pass for an objective of the model.
  [[nodiscard]] double to_nanoseconds(double objective) const;
  /// REQUIRES: an assignment that keeps the two rules.
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
