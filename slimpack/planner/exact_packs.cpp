// Steps: choose the grid; pour the fluid cut on it; solve one program for each pass; order the
// MicroPacks, which the programs leave open.
#include "slimpack/planner/exact_packs.h"

#include <algorithm>
#include <map>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/planner/candidates.h"
#include "slimpack/solver/exact_cut.h"
#include "slimpack/solver/fluid_cut.h"

namespace slimpack {
namespace {

/// The smallest multiple of the granularity that cuts the sequences into no more than so many
/// granules. REQUIRES: no more sequences than that.
Tokens finest_grid(const SequenceLengths& lengths, Tokens granularity, std::int64_t most) {
  const Tokens longest = *std::max_element(lengths.begin(), lengths.end());
  std::int64_t too_fine = 0;
  std::int64_t enough = longest.count() / granularity.count() + 1;
  while (enough - too_fine > 1) {
    const std::int64_t middle = too_fine + (enough - too_fine) / 2;
    (total_granules(lengths, granularity * middle) <= most ? enough : too_fine) = middle;
  }
  return granularity * enough;
}

/// The packs of a pass in another order: always the one with the least rank among those whose
/// sequences have nothing left in packs before them; of equal ones the first.
std::vector<MicroPack> reordered(const std::vector<MicroPack>& packs,
                                 const std::vector<std::int64_t>& rank) {
  // By pack: the packs before it that share a sequence with it.
  std::vector<std::vector<std::size_t>> after(packs.size());
  std::map<SequenceId, std::size_t> last;
  for (std::size_t p = 0; p < packs.size(); ++p)
    for (const Slice& slice : packs[p].slices) {
      const auto [at, first] = last.try_emplace(slice.sequence, p);
      if (!first) after[p].push_back(std::exchange(at->second, p));
    }
  std::vector<bool> done(packs.size(), false);
  std::vector<MicroPack> out;
  while (out.size() < packs.size()) {
    std::size_t next = packs.size();
    for (std::size_t p = 0; p < packs.size(); ++p) {
      const bool ready = !done[p] && std::all_of(after[p].begin(), after[p].end(),
                                                 [&](std::size_t before) { return done[before]; });
      if (ready && (next == packs.size() || rank[p] < rank[next])) next = p;
    }
    done[next] = true;
    out.push_back(packs[next]);
  }
  return out;
}

/// Long sequences first: their slices form the longest chains.
std::vector<MicroPack> longest_first(const std::vector<MicroPack>& packs,
                                     const SequenceLengths& lengths) {
  std::vector<std::int64_t> rank;
  for (const MicroPack& pack : packs) {
    Tokens longest;
    for (const Slice& slice : pack.slices)
      longest = std::max(longest, lengths[slice.sequence.index()]);
    rank.push_back(-longest.count());
  }
  return reordered(packs, rank);
}

/// Puts the backward packs first that need the fewest forwards: they can start earliest.
std::vector<MicroPack> readiest_first(const PackPlan& packs) {
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  return reordered(packs.backward, {needed.begin(), needed.end()});
}

}  // namespace

std::optional<PackPlan> exact_packs(const SearchRequest& request, const Unit& unit, int packs,
                                    const milp::SolveLimits& limits) {
  SLIMPACK_CHECK(packs >= 1);
  if (unit.replicas.size() > 1) return std::nullopt;
  const ReplicaShare& share = unit.replicas.front();
  const std::size_t most =
      std::min(kMaxGranules, request.depth.exact.size / static_cast<std::size_t>(packs));
  if (share.lengths.empty() || share.lengths.size() > most) return std::nullopt;

  const UnitCost cost =
      unit_cost(request.problem, request.problem.pacing[share.replica.index()].rank);
  const Tokens grid = finest_grid(share.lengths, request.problem.choices.granularity,
                                  static_cast<std::int64_t>(most));
  const auto granules = static_cast<int>(total_granules(share.lengths, grid));
  packs = std::min(packs, granules);
  const auto ids = all_sequences(share.lengths);
  const PackPlan fluid =
      fluid_cut(share.lengths, fluid_order(share.lengths, ids, 0), cost.forward.front(),
                cost.backward.front(), {.packs = packs, .granularity = grid});
  const auto solved = [&](Pass pass) {
    return exact_cut({share.lengths, ids, pass, cost.of(pass).front(),
                      request.problem.table.layout().ranks(), grid, packs},
                     fluid.of(pass), limits)
        .packs;
  };
  PackPlan exact;
  exact.forward = longest_first(solved(Pass::kForward), share.lengths);
  if (request.problem.paired())
    exact.backward.assign(exact.forward.rbegin(), exact.forward.rend());
  else
    exact.backward = solved(Pass::kBackward);
  exact.backward = readiest_first(exact);
  return exact;
}

}  // namespace slimpack
