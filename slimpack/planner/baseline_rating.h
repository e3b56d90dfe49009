// Baseline rating: the time and the memory of a baseline's plan, and the best of the plans so far.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/planner/baseline_search.h"

namespace slimpack {

/// Keeps a reference to the request.
class BaselineRating {
 public:
  explicit BaselineRating(const BaselineRequest& request);

  /// No recomputation costs less.
  [[nodiscard]] const StageTable& cheapest() const { return cheapest_; }
  /// Whether a step that is no shorter than `bound` can be of use: it is not where it is no shorter
  /// than the best so far, or longer than the best that ratings on other threads have found. Of
  /// equally long steps the first baseline's wins, so the result does not depend on the threads.
  [[nodiscard]] bool has_chance(Nanos bound) const {
    return !best_ || (bound < *best_ && (shortest_ == nullptr || bound <= shortest_->load()));
  }
  /// From now on ratings that share this makespan tell each other what they find. Keeps a pointer.
  void share(std::atomic<Nanos>& shortest) { shortest_ = &shortest; }

  /// Whether the orders of these replicas leave a chance, whatever is recomputed (order_bound).
  /// True for cyclic schedules, whose orders are not known before. Speeds are those of the
  /// replicas' indices.
  [[nodiscard]] bool order_has_chance(const BaselinePlan& made) const;
  /// Whether the first of these replicas leaves a chance by its order and by its memory, with any
  /// recomputation. True for cyclic schedules.
  [[nodiscard]] bool replica_has_chance(const Baseline& baseline, const BaselinePlan& made) const;

  /// Keeps the plan's step if it is the best so far.
  void rate(const Baseline& baseline, const Tuning& tuning, const BaselinePlan& made);

  [[nodiscard]] BaselineSearchResult take() { return std::move(result_); }

 private:
  /// A step with a recomputation.
  struct Rated {
    RatedPlan step;
    std::vector<ReplicaPacks> replicas;
    RankNeed need;
  };

  /// The first number from `begin` on, of so many, of which this is true. Asks several at a time in
  /// large steps.
  [[nodiscard]] std::optional<std::size_t> first_of(
      std::size_t begin, std::size_t count, const std::function<bool(std::size_t)>& of) const;
  /// Whether this order of a replica's packs leaves a chance with these costs.
  [[nodiscard]] bool order_has_chance(const Schedule& order, const StepPlan& plan,
                                      std::size_t replica, const StageTable& table) const;
  /// Whether the ranks of a pipeline exchange attention.
  enum class Attention : std::uint8_t { kOwn, kExchanged };
  void rate_fixed(const Baseline& baseline, const Tuning& tuning, const BaselinePlan& made,
                  Attention attention);
  /// Whether a replica by itself says that the step is of no use with these costs: by its order or
  /// by its memory. False as long as no step is known.
  [[nodiscard]] bool hopeless(const RatedPlan& step, const StageTable& table,
                              std::size_t replica) const;
  /// The tables of all recomputations that the baseline may have.
  [[nodiscard]] const std::vector<StageTable>& every_table(const Baseline& baseline) const {
    return baseline.traits.mixes ? every_mixed_ : every_uniform_;
  }
  /// Whether any replica by itself says that the step is of no use with these costs.
  [[nodiscard]] bool hopeless(const RatedPlan& step, const StageTable& table);
  void rate_every_recomputation(const Baseline& baseline, const Tuning& tuning, RatedPlan step,
                                Attention attention);
  /// The step with its replicas in order; absent if hopeless.
  [[nodiscard]] std::optional<RatedPlan> cyclic_step(const BaselinePlan& made,
                                                     const StageTable& table) const;
  void rate_cyclic(const Baseline& baseline, const Tuning& tuning, const BaselinePlan& made);
  [[nodiscard]] Rated simulated(RatedPlan step, Attention attention = Attention::kOwn) const;
  void measure(Rated& rated) const;
  [[nodiscard]] bool fits(const Rated& rated) const;
  void keep(const Baseline& baseline, const Tuning& tuning, Rated rated);

  const BaselineRequest& request_;
  StageTable cheapest_;
  bool quickest_first_ = true;  ///< no recomputation is quicker than the first in any action
  std::vector<StageTable> every_uniform_, every_mixed_;
  std::vector<StageTable> uniform_, mixed_;  ///< longer and longer, keeping less and less
  std::optional<Nanos> best_;                ///< only what is shorter is of use
  std::atomic<Nanos>* shortest_ = nullptr;   ///< of all ratings that share it
  std::size_t asked_first_ = 0;              ///< the replica that said so last
  BaselineSearchResult result_;
};

}  // namespace slimpack
