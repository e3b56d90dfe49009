// Steps:
//   1. Cut every sequence into granules; read the start as a pack for each.
//   2. Binaries until[g][p]: granule g is in pack p or an earlier one. in(g, p), granule g in pack
//   p,
//      is until[g][p] − until[g][p−1]; the order within a sequence is until[g] ≥ until[g+1] (from
//      the tail: ≤). first[g][p] ≥ in(g, p) − in(g−1, p): a slice of pack p begins with g, which
//      costs per_slice and the prefix; tokens and pairs of granules add up by themselves.
//   3. Nothing is lost by using packs without gaps, and sequences of equal length in the order in
//      which their first granules come; the start is renamed to obey that.
//   4. Solve from the start, in units of the mean cost of a pack; keep what is better.
#include "slimpack/solver/exact_cut.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

constexpr double kSolverTolerance = 1e-6;

using Pack = std::int32_t;

double pack_cost(const MicroPack& pack, const PassCost& cost) {
  double time = cost.per_pack;
  for (const Slice& slice : pack.slices) time += cost.slice(slice);
  return time;
}

void check_problem(const ExactCutProblem& problem) {
  const SliceCost& slice = problem.cost.slice;
  for (const double c : {slice.per_slice, slice.per_token, slice.per_pair, slice.per_prefix_token,
                         problem.cost.per_pack}) {
    SLIMPACK_CHECK(c >= 0 && c < milp::kInfinity, "cost {}", c);
  }
  SLIMPACK_CHECK(problem.cost.stages >= 1 && problem.packs >= 1 && problem.grid >= Tokens(1),
                 "{} stages, {} packs, grid {}", problem.cost.stages, problem.packs,
                 problem.grid.count());
  SLIMPACK_CHECK(!problem.sequences.empty());
  std::vector<bool> seen(problem.lengths.size(), false);
  for (const SequenceId id : problem.sequences) {
    SLIMPACK_CHECK(id.value() >= 0 && id.index() < seen.size() && !seen[id.index()] &&
                       problem.lengths[id.index()] >= Tokens(1),
                   "sequence {}", id.value());
    seen[id.index()] = true;
  }
}

/// The granules of all sequences, those of one next to each other and in their order.
struct Granules {
  std::vector<Slice> pieces;
  std::vector<std::size_t> begin;  ///< by place of the sequence: its first granule; one more entry

  [[nodiscard]] std::size_t count() const { return pieces.size(); }
  [[nodiscard]] bool is_head(std::size_t g) const { return pieces[g].begin == Tokens(0); }
  [[nodiscard]] std::size_t sequences() const { return begin.size() - 1; }
};

Granules make_granules(const ExactCutProblem& problem) {
  Granules granules;
  for (const SequenceId id : problem.sequences) {
    granules.begin.push_back(granules.count());
    const Tokens length = problem.lengths[id.index()];
    SLIMPACK_CHECK(
        granules.count() + static_cast<std::size_t>(length.count() / problem.grid.count()) <=
            kMaxGranules,
        "more than {} granules of {} tokens", kMaxGranules, problem.grid.count());
    for (Tokens at; at < length; at += problem.grid) {
      granules.pieces.push_back({id, at, std::min(at + problem.grid, length)});
    }
  }
  granules.begin.push_back(granules.count());
  SLIMPACK_CHECK(granules.count() <= kMaxGranules, "{} granules", granules.count());
  return granules;
}

/// MicroPacks by granule, as an assignment has them; empty ones are dropped.
std::vector<MicroPack> packs_of(const Granules& granules, const std::vector<Pack>& pack_of) {
  std::vector<MicroPack> packs(
      static_cast<std::size_t>(*std::max_element(pack_of.begin(), pack_of.end())) + 1);
  for (std::size_t g = 0; g < granules.count(); ++g) {
    std::vector<Slice>& slices = packs[static_cast<std::size_t>(pack_of[g])].slices;
    const Slice& piece = granules.pieces[g];
    if (!granules.is_head(g) && pack_of[g - 1] == pack_of[g]) {
      slices.back().end = piece.end;
    } else {
      slices.push_back(piece);
    }
  }
  std::erase_if(packs, [](const MicroPack& pack) { return pack.slices.empty(); });
  return packs;
}

/// By granule, the pack of `start` that holds it. Checks that `start` is what exact_cut requires.
std::vector<Pack> read_start(const ExactCutProblem& problem, const Granules& granules,
                             const std::vector<MicroPack>& start) {
  constexpr Pack kNone = -1;
  SLIMPACK_CHECK(start.size() <= static_cast<std::size_t>(problem.packs), "{} packs", start.size());
  std::map<SequenceId, std::size_t> first;
  for (std::size_t s = 0; s < granules.sequences(); ++s) {
    first[problem.sequences[s]] = granules.begin[s];
  }
  std::vector<Pack> pack_of(granules.count(), kNone);
  for (std::size_t p = 0; p < start.size(); ++p) {
    SLIMPACK_CHECK(!start[p].slices.empty(), "pack {} is empty", p);
    for (const Slice& slice : start[p].slices) {
      const auto found = first.find(slice.sequence);
      SLIMPACK_CHECK(found != first.end(), "sequence {}", slice.sequence.value());
      SLIMPACK_CHECK(Tokens(0) <= slice.begin && slice.begin < slice.end &&
                     slice.end <= problem.lengths[slice.sequence.index()]);
      std::size_t g =
          found->second + static_cast<std::size_t>(slice.begin.count() / problem.grid.count());
      SLIMPACK_CHECK(granules.pieces[g].begin == slice.begin, "cut at {}", slice.begin.count());
      for (; g < granules.count() && granules.pieces[g].sequence == slice.sequence &&
             granules.pieces[g].begin < slice.end;
           ++g) {
        SLIMPACK_CHECK(granules.pieces[g].end <= slice.end, "cut at {}", slice.end.count());
        SLIMPACK_CHECK(pack_of[g] == kNone, "granule {} is in two packs", g);
        pack_of[g] = static_cast<Pack>(p);
      }
    }
  }
  for (std::size_t g = 0; g < granules.count(); ++g) {
    SLIMPACK_CHECK(pack_of[g] != kNone, "granule {} is in no pack", g);
    if (granules.is_head(g)) continue;
    SLIMPACK_CHECK(problem.from == CutFrom::kHead ? pack_of[g - 1] <= pack_of[g]
                                                  : pack_of[g - 1] >= pack_of[g],
                   "sequence {} is out of order", granules.pieces[g].sequence.value());
  }
  return pack_of;
}

/// Sequences of equal length, by place, in groups.
std::vector<std::vector<std::size_t>> equals(const ExactCutProblem& problem) {
  std::map<Tokens, std::vector<std::size_t>> by_length;
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    by_length[problem.lengths[problem.sequences[s].index()]].push_back(s);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [length, group] : by_length) groups.push_back(std::move(group));
  return groups;
}

/// The same packs with sequences of equal length exchanged such that their heads' packs ascend.
std::vector<Pack> renamed(const ExactCutProblem& problem, const Granules& granules,
                          const std::vector<Pack>& pack_of) {
  std::vector<Pack> result = pack_of;
  for (const std::vector<std::size_t>& group : equals(problem)) {
    std::vector<std::size_t> from = group;
    std::stable_sort(from.begin(), from.end(), [&](std::size_t a, std::size_t b) {
      return pack_of[granules.begin[a]] < pack_of[granules.begin[b]];
    });
    for (std::size_t i = 0; i < group.size(); ++i) {
      std::copy(pack_of.begin() + static_cast<std::ptrdiff_t>(granules.begin[from[i]]),
                pack_of.begin() + static_cast<std::ptrdiff_t>(granules.begin[from[i] + 1]),
                result.begin() + static_cast<std::ptrdiff_t>(granules.begin[group[i]]));
    }
  }
  return result;
}

/// The mixed-integer program. Costs are in units of `unit` nanoseconds.
class CutModel {
 public:
  CutModel(const ExactCutProblem& problem, const Granules& granules, double unit, double start_time)
      : problem_(problem), granules_(granules), unit_(unit) {
    for (std::size_t g = 0; g < granules.count(); ++g) {
      // A sequence's head always begins a slice: no decision, so no variable.
      const double begins = granules.is_head(g) ? 0 : begin_cost(g);
      work_.push_back(problem.cost.slice(granules.pieces[g]) / unit - begins);
    }
    const double work = std::accumulate(work_.begin(), work_.end(), 0.0);
    constant_ = work;
    // Of what the start takes, the largest pack gets what the work itself leaves.
    const int more = problem.cost.stages - 1;
    add_variables(more == 0 ? start_time / unit : (start_time / unit - work) / more);
    add_order_rows();
    for (int p = 0; p < problem.packs; ++p) add_pack_rows(p);
  }

  [[nodiscard]] const milp::Model& model() const { return model_; }

  /// The objective of the model lacks what every cut costs.
  [[nodiscard]] double to_nanoseconds(double objective) const {
    return (objective + constant_) * unit_;
  }

  [[nodiscard]] std::vector<double> values(const std::vector<Pack>& pack_of) const {
    std::vector<double> result(model_.variables(), 0.0);
    std::vector<double> time(static_cast<std::size_t>(problem_.packs), 0.0);
    for (std::size_t g = 0; g < granules_.count(); ++g) {
      const auto p = static_cast<std::size_t>(pack_of[g]);
      for (std::size_t q = p; q < until_[g].size(); ++q) result[until_[g][q].index()] = 1;
      time[p] += work_[g];
      result[used_[p].index()] = 1;
      if (!first_[g].empty() && pack_of[g - 1] != pack_of[g]) {
        result[first_[g][p].index()] = 1;
        time[p] += begin_cost(g);
      }
    }
    for (std::size_t p = 0; p < time.size(); ++p) {
      time[p] += result[used_[p].index()] * problem_.cost.per_pack / unit_;
    }
    result[largest_->index()] = *std::max_element(time.begin(), time.end());
    return result;
  }

  [[nodiscard]] std::vector<Pack> pack_of(const std::vector<double>& values) const {
    std::vector<Pack> result;
    for (const std::vector<milp::Variable>& until : until_) {
      result.push_back(static_cast<Pack>(std::count_if(
          until.begin(), until.end(), [&](milp::Variable v) { return values[v.index()] == 0; })));
    }
    return result;
  }

 private:
  /// What granule g adds when a slice begins with it.
  [[nodiscard]] double begin_cost(std::size_t g) const {
    const SliceCost& slice = problem_.cost.slice;
    return (slice.per_slice +
            slice.per_prefix_token * static_cast<double>(granules_.pieces[g].prefix().count())) /
           unit_;
  }

  void add_variables(double largest_bound) {
    const auto packs = static_cast<std::size_t>(problem_.packs);
    largest_ =
        model_.add_continuous(0, largest_bound * (1 + kSolverTolerance), problem_.cost.stages - 1);
    for (std::size_t p = 0; p < packs; ++p) {
      used_.push_back(model_.add_continuous(0, 1, problem_.cost.per_pack / unit_));
    }
    until_.resize(granules_.count());
    first_.resize(granules_.count());
    for (std::size_t g = 0; g < granules_.count(); ++g) {
      for (std::size_t p = 0; p + 1 < packs; ++p) until_[g].push_back(model_.add_binary());
      if (granules_.is_head(g) || begin_cost(g) == 0) continue;
      for (std::size_t p = 0; p < packs; ++p) {
        first_[g].push_back(model_.add_continuous(0, 1, begin_cost(g)));
      }
    }
  }

  /// 0 ≤ greater − less.
  void at_least(milp::Variable greater, milp::Variable less) {
    const milp::Term terms[] = {{greater, 1}, {less, -1}};
    model_.add_row(0, terms, milp::kInfinity);
  }

  void add_order_rows() {
    const auto all_until = static_cast<std::size_t>(problem_.packs - 1);
    for (std::size_t g = 0; g < granules_.count(); ++g) {
      for (std::size_t p = 0; p + 1 < all_until; ++p) at_least(until_[g][p + 1], until_[g][p]);
      if (granules_.is_head(g)) continue;
      const bool head = problem_.from == CutFrom::kHead;
      for (std::size_t p = 0; p < all_until; ++p) {
        at_least(until_[head ? g - 1 : g][p], until_[head ? g : g - 1][p]);
      }
    }
    for (const std::vector<std::size_t>& group : equals(problem_)) {
      for (std::size_t i = 1; i < group.size(); ++i) {
        for (std::size_t p = 0; p < all_until; ++p) {
          at_least(until_[granules_.begin[group[i - 1]]][p], until_[granules_.begin[group[i]]][p]);
        }
      }
    }
    for (std::size_t p = 1; p < used_.size(); ++p) at_least(used_[p - 1], used_[p]);
  }

  /// Appends factor · in(g, p); what cannot be said with variables (the last pack: all that is not
  /// in an earlier one) is returned as a constant.
  double add_in(std::vector<milp::Term>& terms, std::size_t g, std::size_t p, double factor) const {
    if (p > 0) terms.push_back({until_[g][p - 1], -factor});
    if (p < until_[g].size()) {
      terms.push_back({until_[g][p], factor});
      return 0;
    }
    return factor;
  }

  void add_pack_rows(int pack) {
    const auto p = static_cast<std::size_t>(pack);
    std::vector<milp::Term> time{{used_[p], problem_.cost.per_pack / unit_}, {*largest_, -1}};
    std::vector<milp::Term> members{{used_[p], -1}};
    double time_constant = 0;
    double members_constant = 0;
    for (std::size_t g = 0; g < granules_.count(); ++g) {
      time_constant += add_in(time, g, p, work_[g]);
      members_constant += add_in(members, g, p, 1);
      std::vector<milp::Term> in_use{{used_[p], -1}};
      const double constant = add_in(in_use, g, p, 1);
      model_.add_row(-milp::kInfinity, in_use, -constant);
      if (first_[g].empty()) continue;
      time.push_back({first_[g][p], begin_cost(g)});
      std::vector<milp::Term> begins{{first_[g][p], -1}};
      double begins_constant = add_in(begins, g, p, 1);
      begins_constant += add_in(begins, g - 1, p, -1);
      model_.add_row(-milp::kInfinity, begins, -begins_constant);
    }
    model_.add_row(-milp::kInfinity, time, -time_constant);
    model_.add_row(-members_constant, members, milp::kInfinity);
  }

  const ExactCutProblem& problem_;
  const Granules& granules_;
  double unit_;
  double constant_ = 0;
  std::vector<double> work_;  ///< by granule, without what a begin costs
  milp::Model model_;
  std::optional<milp::Variable> largest_;
  std::vector<milp::Variable> used_;                ///< by pack
  std::vector<std::vector<milp::Variable>> until_;  ///< by granule and pack but the last
  std::vector<std::vector<milp::Variable>> first_;  ///< by granule and pack; empty: costs nothing
};

}  // namespace

double pass_time(std::span<const MicroPack> packs, const PassCost& cost) {
  double sum = 0;
  double largest = 0;
  for (const MicroPack& pack : packs) {
    const double time = pack_cost(pack, cost);
    sum += time;
    largest = std::max(largest, time);
  }
  return sum + (cost.stages - 1) * largest;
}

ExactCut exact_cut(const ExactCutProblem& problem, const std::vector<MicroPack>& start,
                   const milp::SolveLimits& limits) {
  check_problem(problem);
  const Granules granules = make_granules(problem);
  const std::vector<Pack> start_of =
      renamed(problem, granules, read_start(problem, granules, start));
  ExactCut best;
  best.packs = packs_of(granules, start_of);
  best.time = pass_time(best.packs, problem.cost);
  if (best.time == 0 || problem.packs == 1) {
    best.bound = best.time;
    best.optimal = true;
    return best;
  }
  const PassCost one_stage{problem.cost.slice, problem.cost.per_pack, 1};
  const double unit = pass_time(best.packs, one_stage) / problem.packs;
  const CutModel built(problem, granules, unit, best.time);
  const milp::Outcome outcome = milp::solve(built.model(), limits, built.values(start_of));
  best.optimal = outcome.status == milp::Status::kOptimal;
  if (!outcome.values.empty()) {
    std::vector<MicroPack> packs = packs_of(granules, built.pack_of(outcome.values));
    const double time = pass_time(packs, problem.cost);
    if (time < best.time) {
      best.packs = std::move(packs);
      best.time = time;
    }
  }
  const double bound = built.to_nanoseconds(outcome.bound) * (1 - kSolverTolerance);
  best.bound = std::clamp(bound, 0.0, best.time);
  return best;
}

}  // namespace slimpack
