#include "slimpack/planner/step_search.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/threads.h"
#include "slimpack/planner/step_shares.h"
#include "slimpack/planner/step_variant.h"

namespace slimpack {
namespace {

/// An exact assignment this near its bound is not improved further: cutting loses more.
constexpr double kExactBalanceGap = 1e-4;
/// An assignment whose heaviest replica has so many times the load of the lightest one's takes much
/// longer.
constexpr double kMuchHeavier = 4;
/// Such an assignment is still looked at if its replicas together hold no more sequences: up to
/// here the look takes no time that shows. Above, it takes more and more for the same step:
/// planning 100,000 documents of Llama-3-8B on pp 4 × dp 64 took 13 s and 0.2 GB with this limit,
/// 24 s and 1.7 GB with one of a million, 41 s and 4.9 GB without any.
constexpr std::size_t kManyHeld = 200'000;

/// Merging is tried where a sequence is more than this share of a load, or where memory makes the
/// heaviest unit so many times as long.
constexpr double kHeavySequence = 0.5;
constexpr double kMemoryHinders = 1.01;
/// So many merged variants are searched although another one fits, and only where this share of
/// their heaviest unit's time would be an improvement: a search seldom gains more after the first
/// look.
constexpr std::size_t kMergedVariants = 2;
constexpr double kPromising = 0.99;

void keep_best(const SearchRequest& request, Variant& variant, StepSearchResult& result) {
  if (!slowest(variant).best()) {
    if (out_of_time(request.depth) || !request.wants_need) return;
    const RankNeed need = least_need(variant);
    const bool least = result.least_need.bytes == Bytes(0) || need.bytes < result.least_need.bytes;
    if (need.bytes > Bytes(0) && least) result.least_need = need;
    if (need.bytes > Bytes(0)) return;
  }
  const UnitSearch& search = slowest(variant);
  if (result.solution && makespan_of(search) >= result.solution->makespan) return;
  StepSolution solution;
  solution.makespan = makespan_of(search);
  for (const auto& unit : variant.searches) solution.rated.push_back(*unit->best());
  solution.units = variant.units;
  result.solution = std::move(solution);
}

/// Merging pays where a sequence outweighs its replica, where memory makes the step longer, or
/// where a unit does not fit.
bool may_merge(const SearchRequest& request, const Variant& variant) {
  if (!slowest(variant).best()) return true;
  const UnitSearch& unmerged = *variant.searches.front();
  const auto makespan = static_cast<double>(unmerged.best()->makespan.count());
  if (makespan > kMemoryHinders * unmerged.known.free_makespan()) return true;
  const PackCost work = group_costs(request.problem).front();
  const Tokens longest =
      *std::max_element(request.problem.lengths.begin(), request.problem.lengths.end());
  return work(Slice{SequenceId(), Tokens(0), longest}) >
         kHeavySequence * unmerged.problem.unit.load;
}

/// Whether there is no more to expect of the variant than what has been found.
bool hopeless(const Variant& variant, const StepSearchResult& result) {
  if (!result.solution) return false;
  const auto found = static_cast<double>(result.solution->makespan.count());
  const auto heaviest = static_cast<double>(makespan_of(*variant.searches.front()).count());
  return variant.units.front().load >= found || kPromising * heaviest >= found;
}

/// Adds up by group size, k of 2^k, what the unit's sequences cost as they were cut, and uncut.
void add_costs(const UnitCost& cost, const Unit& unit, const RatedUnit& rated,
               std::vector<double>& cut, std::vector<double>& uncut) {
  const auto k_of = [](std::int32_t replicas) {
    return static_cast<std::size_t>(std::bit_width(static_cast<std::uint32_t>(replicas)) - 1);
  };
  for (const Pass pass : kWholePasses) {
    for (const ReplicaShare& share : unit.replicas)
      for (const Segment& segment : share.segments)
        for (const SequenceId q : segment.sequences)
          uncut[k_of(segment.replicas)] +=
              cost.of(pass)[k_of(segment.replicas)](Slice{q, Tokens(0), share.lengths[q.index()]});
    for (const PackPlan& packs : rated.packs)
      for (const MicroPack& pack : packs.of(pass)) {
        const PackCost& own = cost.of(pass)[k_of(pack.replicas)];
        cut[k_of(pack.replicas)] += own.per_pack;
        for (const Slice& slice : pack.slices) cut[k_of(pack.replicas)] += own(slice);
      }
  }
}

/// Costs of groups as group_costs, but with the time that cutting adds where sequences are cut as
/// in the solution. Sizes of groups that the solution lacks are taken to be like the next smaller
/// one.
std::vector<PackCost> cut_group_costs(const SearchRequest& request, const StepSolution& solution) {
  std::vector<PackCost> groups = group_costs(request.problem);
  const UnitCost cost = unit_cost(request.problem, request.problem.pacing.front().rank);
  std::vector<double> cut(groups.size()), uncut(groups.size());
  for (std::size_t u = 0; u < solution.units.size(); ++u)
    add_costs(cost, solution.units[u], solution.rated[u], cut, uncut);
  double more = 1;
  for (std::size_t k = 0; k < groups.size(); ++k) {
    if (uncut[k] > 0) more = cut[k] / uncut[k];
    groups[k] = more * groups[k];
  }
  return groups;
}

/// Compares the ways to share a step out.
class StepSearch {
 public:
  StepSearch(const SearchRequest& request, const StepShares& shares)
      : request_(request),
        problem_(request.problem),
        hinted_(request),
        shares_(shares),
        names_none_(request.candidates.empty()) {
    if (shares.levelled != whole()) merged_.push_back(&shares.levelled);
    for (const Assignment& assignment : std::span(shares.assignments).subspan(1))
      merged_.push_back(&assignment);
  }

  StepSearchResult run() {
    const Assignment& first = lightest();
    if (&first == &whole())
      begin_whole();
    else
      begin_merged(first);
    share_out_anew();
    if (result_.solution) widen();
    return std::move(result_);
  }

  StepSearchResult run_fitted() {
    search_own(*shares_.fitted);
    if (!result_.solution || out_of_time(request_.depth)) return std::move(result_);
    const auto below = static_cast<double>(result_.solution->makespan.count());
    const std::vector<PackCost> groups = cut_group_costs(request_, *result_.solution);
    if (const auto anew = fitted({problem_.lengths, replica_speeds(problem_), groups}, below))
      search_own(*anew);
    widen();
    return std::move(result_);
  }

  /// Without looking for a solution.
  StepSearchResult explore() {
    const Variant variant = begun(request_, lightest());
    explore_heaviest(request_, variant);
    note(variant);
    return std::move(result_);
  }

 private:
  [[nodiscard]] const Assignment& whole() const { return shares_.assignments.front(); }

  /// The assignment whose heaviest replica is lightest; the unmerged one unless another's is
  /// notably lighter.
  [[nodiscard]] const Assignment& lightest() const {
    const auto other = std::ranges::min_element(
        merged_, {}, [](const Assignment* assignment) { return highest_load(*assignment); });
    const bool notably =
        other != merged_.end() && highest_load(**other) < kNotablyLighter * highest_load(whole());
    return notably ? **other : whole();
  }

  /// Merging is compared with whole sequences where it may pay.
  void begin_whole() {
    Variant variant = begun(request_, whole());
    search_variant(request_, variant);
    const bool merge = may_merge(request_, variant);
    note(variant);
    keep_best(request_, variant, result_);
    variant.searches.clear();  // they take much memory
    if (rates_exact(request_)) search_balanced();
    std::vector<const Assignment*> others = merged_;
    if (!merge) std::erase_if(others, [&](const auto* a) { return a != &shares_.levelled; });
    if (result_.solution) leave_out(others, result_.solution->makespan);
    leave_useless_out(others);
    compare(others, {});
  }

  /// Merging pays, so what suits it is what the others begin with.
  void begin_merged(const Assignment& first) {
    std::vector<Variant> variants;
    variants.push_back(begun(request_, first));
    explore_heaviest(request_, variants.front());
    note(variants.front());
    std::vector<const Assignment*> others{&whole()};
    std::ranges::copy_if(merged_, std::back_inserter(others),
                         [&](const auto* assignment) { return assignment != &first; });
    leave_out(others, makespan_of(*variants.front().searches.front()));
    leave_useless_out(others);
    compare(others, std::move(variants));
  }

  /// Drops assignments in which a replica takes longer for its load alone.
  static void leave_out(std::vector<const Assignment*>& assignments, Nanos found) {
    std::erase_if(assignments, [&](const Assignment* assignment) {
      return highest_load(*assignment) >= static_cast<double>(found.count());
    });
  }

  /// Drops assignments that cannot be below the request's limit. Drops those, too, that take much
  /// longer than another one and are costly to search, unless the request asks for them. Where
  /// every sequence is merged, each replica has all of them.
  void leave_useless_out(std::vector<const Assignment*>& assignments) const {
    if (request_.below) leave_out(assignments, *request_.below);
    if (request_.much_heavier) return;
    const double most = kMuchHeavier * highest_load(lightest());
    std::erase_if(assignments, [&](const auto* assignment) {
      return highest_load(*assignment) > most && held(*assignment) > kManyHeld;
    });
  }

  /// How many sequences all replicas together hold.
  static std::size_t held(const Assignment& assignment) {
    std::size_t sum = 0;
    for (const auto& own : assignment.own) sum += own.size();
    for (const MergedSequence& sequence : assignment.merged)
      sum += static_cast<std::size_t>(sequence.replicas);
    return sum;
  }

  /// Keeps the favourites and hints with which other variants begin.
  void note(const Variant& variant) {
    const UnitSearch& heaviest = *variant.searches.front();
    usual_ = heaviest.known.favourite();
    hint_ = hint_of(heaviest);
    result_.favourites = favourites(heaviest.problem, heaviest.known);
    note_unlimited(variant);
  }

  void note_unlimited(const Variant& variant) {
    result_.unlimited =
        std::min(result_.unlimited, variant.searches.front()->known.free_makespan());
  }

  void compare(const std::vector<const Assignment*>& assignments, std::vector<Variant> begun_ones) {
    search_best_of(assignments, hint_, std::move(begun_ones));
    // The refusal of a lower cap looked at what the usual hint leads to, and promised that it fits
    // (search_units has the same case).
    if (!result_.solution && hint_ != usual_) search_best_of(assignments, usual_, {});
  }

  void search_best_of(const std::vector<const Assignment*>& assignments, const Candidate& hint,
                      std::vector<Variant> variants) {
    const std::size_t before = variants.size();
    const bool found =
        result_.solution || (before > 0 && variants.front().searches.front()->best());
    variants.resize(before + assignments.size());
    if (hinted_.candidates.empty()) hinted_.candidates = result_.favourites;
    for_each_index(assignments.size(), request_.threads, [&](std::size_t i) {
      variants[before + i] = begun(hinted_, *assignments[i], {hint});
      glance_at(hinted_, variants[before + i], found);
    });
    for (const Variant& variant : variants) note_unlimited(variant);
    std::ranges::stable_sort(variants, {}, [](const Variant& variant) {
      return makespan_of(*variant.searches.front());
    });
    for (std::size_t v = 0; v < variants.size(); ++v) {
      const bool late =
          v >= kMergedVariants || out_of_time(request_.depth) || hopeless(variants[v], result_);
      if (late && result_.solution) continue;
      search_variant(hinted_, variants[v]);
      keep_best(request_, variants[v], result_);
      if (names_none_ && waits_for_group(variants[v])) searched_.push_back(std::move(variants[v]));
      variants[v].searches.clear();
    }
  }

  /// Groups that the step waits for look further: a group that has one long sequence seldom wants
  /// the cuts that were best for the first assignment's heaviest unit.
  void widen() {
    for (Variant& variant : searched_) {
      const bool heavier =
          variant.units.front().load >= static_cast<double>(result_.solution->makespan.count());
      if (heavier || out_of_time(request_.depth)) continue;
      widen_groups(hinted_, variant);
      keep_best(request_, variant, result_);
    }
  }

  /// Shares that know what cutting adds level loads better.
  void share_out_anew() {
    if (!result_.solution || problem_.choices.most_merged == 1) return;
    const std::vector<Assignment> assignments = slimpack::assignments(
        {problem_.lengths, replica_speeds(problem_), cut_group_costs(request_, *result_.solution)},
        kMergeAbove);
    std::vector<const Assignment*> others;
    for (const Assignment& assignment : assignments) others.push_back(&assignment);
    leave_out(others, result_.solution->makespan);
    leave_useless_out(others);
    search_best_of(others, hint_, {});
  }

  /// The unmerged sequences as an exact balance shares them out, where that differs.
  void search_balanced() {
    const Assignment assignment =
        assign({problem_.lengths, replica_speeds(problem_), group_costs(problem_)},
               kMergeAbove.front(), exact_limits(request_, kExactBalanceGap));
    if (assignment != whole() && !out_of_time(request_.depth)) search_own(assignment);
  }

  /// Without hints.
  void search_own(const Assignment& assignment) {
    Variant variant = begun(request_, assignment);
    search_variant(request_, variant);
    keep_best(request_, variant, result_);
    if (names_none_ && waits_for_group(variant)) searched_.push_back(std::move(variant));
  }

  const SearchRequest& request_;
  const StepProblem& problem_;  ///< of the request
  SearchRequest hinted_;        ///< with what was best for the first assignment as its candidates
  const StepShares& shares_;
  std::vector<const Assignment*> merged_;  ///< with sequences that several replicas run
  Candidate hint_;                         ///< what was best
  Candidate usual_;                        ///< what would be without a memory cap
  bool names_none_;                        ///< whether the request names no candidates
  std::vector<Variant> searched_;          ///< those whose slowest unit is a group
  StepSearchResult result_;
};

}  // namespace

StepSearchResult search_step(const SearchRequest& request, const StepShares& shares) {
  return StepSearch(request, shares).run();
}

StepSearchResult search_fitted(const SearchRequest& request, const StepShares& shares) {
  SLIMPACK_CHECK(shares.fitted.has_value());
  return StepSearch(request, shares).run_fitted();
}

StepSearchResult explore_step(const SearchRequest& request, const StepShares& shares) {
  return StepSearch(request, shares).explore();
}

}  // namespace slimpack
