// Steps:
//   1. Cut every sequence into granules; read the start as a pack for each.
//   2. Nothing is lost by using packs without gaps, and sequences of equal length in the order in
//      which their heads come; rename the start such that it does.
//   3. Solve the program of cut_model.cpp from the start, in units of the mean cost of a pack; keep
//      what is better.
#include "slimpack/solver/exact_cut.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/solver/cut_model.h"

namespace slimpack {
namespace {

double pack_time(const MicroPack& pack, const PackCost& cost) {
  double time = cost.per_pack;
  for (const Slice& slice : pack.slices) time += cost(slice);
  return time;
}

void check_problem(const ExactCutProblem& problem) {
  const PackCost& cost = problem.cost;
  for (const double c : {cost.per_pack, cost.per_slice, cost.per_token, cost.per_pair,
                         cost.per_prefix_token, cost.per_window_pair, cost.per_window_prefix}) {
    SLIMPACK_CHECK(c >= 0 && c < milp::kInfinity, "cost {}", c);
  }
  SLIMPACK_CHECK(problem.stages >= 1 && problem.packs >= 1 && problem.grid >= Tokens(1),
                 "{} stages, {} packs, grid {}", problem.stages, problem.packs,
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

Granules make_granules(const ExactCutProblem& problem) {
  Granules granules;
  std::map<Tokens, std::vector<std::size_t>> by_length;
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const SequenceId id = problem.sequences[s];
    const Tokens length = problem.lengths[id.index()];
    by_length[length].push_back(s);
    granules.begin.push_back(granules.count());
    for (Tokens at; at < length; at += problem.grid) {
      SLIMPACK_CHECK(granules.count() < kMaxGranules, "more than {} granules", kMaxGranules);
      granules.pieces.push_back({id, at, std::min(at + problem.grid, length)});
    }
  }
  granules.begin.push_back(granules.count());
  for (auto& [length, places] : by_length) granules.equals.push_back(std::move(places));
  return granules;
}

/// MicroPacks by granule, as an assignment has them; empty ones are dropped.
std::vector<MicroPack> packs_of(const Granules& granules, const PackOfGranule& pack_of) {
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

/// Lower bounds of every cut, in nanoseconds.
struct Least {
  double work = 0;     ///< of all packs: sequences in one slice each, in one pack
  double largest = 0;  ///< of the packs
  double time = 0;     ///< of the pass
};

Least least_time(const ExactCutProblem& problem, const Granules& granules) {
  const PackCost& cost = problem.cost;
  Least least;
  for (const SequenceId id : problem.sequences) {
    least.work += cost({id, Tokens(0), problem.lengths[id.index()]});
  }
  // Each pack costs per_pack, so the mean of however many is at least that of all.
  least.largest = least.work / problem.packs;
  for (const Slice& piece : granules.pieces) {
    least.largest = std::max(least.largest, cost(piece) - cost.prefix(piece));
  }
  least.largest += cost.per_pack;
  least.work += cost.per_pack;
  least.time = least.work + (problem.stages - 1) * least.largest;
  return least;
}

/// By granule, the pack of `start` that holds it. Checks that `start` is what exact_cut requires.
PackOfGranule read_start(const ExactCutProblem& problem, const Granules& granules,
                         const std::vector<MicroPack>& start) {
  constexpr std::int32_t kNoPack = -1;
  SLIMPACK_CHECK(start.size() <= static_cast<std::size_t>(problem.packs), "{} packs", start.size());
  std::map<SequenceId, std::size_t> first;
  for (std::size_t s = 0; s < granules.sequences(); ++s) {
    first[problem.sequences[s]] = granules.begin[s];
  }
  PackOfGranule pack_of(granules.count(), kNoPack);
  for (std::size_t p = 0; p < start.size(); ++p) {
    SLIMPACK_CHECK(!start[p].slices.empty() && start[p].replicas == 1, "pack {}", p);
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
        SLIMPACK_CHECK(pack_of[g] == kNoPack, "granule {} is in two packs", g);
        pack_of[g] = static_cast<std::int32_t>(p);
      }
    }
  }
  for (std::size_t g = 0; g < granules.count(); ++g) {
    SLIMPACK_CHECK(pack_of[g] != kNoPack, "granule {} is in no pack", g);
    if (granules.is_head(g)) continue;
    SLIMPACK_CHECK(problem.pass == Pass::kForward ? pack_of[g - 1] <= pack_of[g]
                                                  : pack_of[g - 1] >= pack_of[g],
                   "sequence {} is out of order", granules.pieces[g].sequence.value());
  }
  return pack_of;
}

/// The packs with sequences of equal length exchanged such that their heads' packs ascend.
PackOfGranule renamed(const Granules& granules, const PackOfGranule& pack_of) {
  PackOfGranule result = pack_of;
  for (const std::vector<std::size_t>& group : granules.equals) {
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

}  // namespace

double pass_time(std::span<const MicroPack> packs, const PackCost& cost, int stages) {
  double sum = 0;
  double largest = 0;
  for (const MicroPack& pack : packs) {
    const double time = pack_time(pack, cost);
    sum += time;
    largest = std::max(largest, time);
  }
  return sum + (stages - 1) * largest;
}

ExactCut exact_cut(const ExactCutProblem& problem, const std::vector<MicroPack>& start,
                   const milp::SolveLimits& limits) {
  check_problem(problem);
  const Granules granules = make_granules(problem);
  const PackOfGranule start_of = renamed(granules, read_start(problem, granules, start));
  ExactCut best;
  best.packs = packs_of(granules, start_of);
  best.time = pass_time(best.packs, problem.cost, problem.stages);
  const Least least = least_time(problem, granules);
  best.bound = std::min(least.time, best.time);
  best.optimal = problem.packs == 1 || best.time * (1 - limits.relative_gap) <= best.bound;
  if (best.optimal) return best;

  const CutModel built(problem, granules, least.work / problem.packs, least.largest, best.time);
  const milp::Outcome outcome = milp::solve(built.model(), limits, built.values(start_of));
  best.optimal = outcome.status == milp::Status::kOptimal;
  if (!outcome.values.empty()) {
    std::vector<MicroPack> packs = packs_of(granules, built.pack_of(outcome.values));
    const double time = pass_time(packs, problem.cost, problem.stages);
    if (time < best.time) {
      best.packs = std::move(packs);
      best.time = time;
    }
  }
  const double bound = built.to_nanoseconds(outcome.bound) * (1 - milp::kSolverTolerance);
  best.bound = std::min(std::max(best.bound, bound), best.time);
  return best;
}

}  // namespace slimpack
