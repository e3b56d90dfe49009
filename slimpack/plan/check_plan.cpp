// Steps:
//  1. Find the replicas of each sequence.
//  2. Per replica and pass, collect every slice with its pack; sort by sequence and position; walk
//     each sequence once and check the rules.
//  3. Check zones, one sequence after the other.
//  4. Compare the merged packs of the replicas of every group.
#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/plan/plan.h"

namespace slimpack {
namespace {

class Findings {
 public:
  explicit Findings(std::size_t limit) : limit_(limit) {}

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    if (!full()) lines_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  [[nodiscard]] bool full() const { return lines_.size() >= limit_; }
  [[nodiscard]] std::vector<std::string> take() { return std::move(lines_); }

 private:
  std::size_t limit_;
  std::vector<std::string> lines_;
};

struct Placed {
  Slice slice;
  std::size_t pack;
};

void check_layout(const StageLayout& layout, Findings& findings) {
  const auto& begin = layout.layer_begin;
  if (begin.size() < 2) {
    findings.add("layer_begin has {} entries; one stage needs two", begin.size());
    return;
  }
  if (begin.front() != 0) findings.add("layer_begin starts at {}, must start at 0", begin.front());
  for (std::size_t s = 0; s + 1 < begin.size(); ++s)
    if (begin[s] >= begin[s + 1])
      findings.add("stage {} has layers [{}, {}): every stage needs at least one", s, begin[s],
                   begin[s + 1]);
  const std::size_t placed = layout.placement.rank_of_stage().size();
  if (placed > 0 && placed + 1 != begin.size())
    findings.add("the placement is of {} stages, layer_begin of {}", placed, layout.stages());
  else if (layout.stages() > 1 && layout.ranks() == 1)
    findings.add("one rank has {} stages; several stages a rank need two ranks or more",
                 layout.stages());
  else if (layout.spread_vocabulary && layout.ranks() == 1)
    findings.add("the vocabulary is spread over one rank; that needs two ranks or more");
}

void check_recompute(const StepPlan& plan, Findings& findings) {
  if (plan.recompute.empty() || plan.layout.layer_begin.empty()) return;
  const std::int32_t layers = plan.layout.layer_begin.back();
  if (std::ssize(plan.recompute) != layers)
    findings.add("recompute has {} entries for {} layers", plan.recompute.size(), layers);
}

/// Replicas [first, first + count).
struct Group {
  std::size_t first = 0;
  std::size_t count = 0;

  [[nodiscard]] bool has(std::size_t replica) const {
    return replica >= first && replica < first + count;
  }
};

/// Whether these replicas may form a group.
bool is_group(const Group& group) {
  return group.first % group.count == 0;
}

/// By sequence: the replicas that have it.
std::vector<Group> check_ownership(const StepPlan& plan, Findings& findings) {
  std::vector<Group> groups(plan.lengths.size());
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    const auto& sequences = plan.replicas[r].sequences;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::int32_t id = sequences[i].value();
      if (id < 0 || sequences[i].index() >= groups.size()) {
        findings.add("replica {} lists sequence {}, the step has {} sequences", r, id,
                     groups.size());
        continue;
      }
      if (i > 0 && sequences[i] <= sequences[i - 1])
        findings.add("replica {} lists sequence {} after {}: ids must ascend", r, id,
                     sequences[i - 1].value());
      Group& group = groups[sequences[i].index()];
      if (group.count == 0) group.first = r;
      if (r > group.first + group.count)
        findings.add("sequence {} is on replicas {} and {}", id, group.first + group.count - 1, r);
      group.count = r + 1 - group.first;
    }
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (plan.lengths[i] <= Tokens(0))
      findings.add("sequence {} has {} tokens; the least is 1", i, plan.lengths[i].count());
    if (groups[i].count == 0)
      findings.add("sequence {} is on no replica", i);
    else if (!is_group(groups[i]))
      findings.add("sequence {} is on replicas {} to {}: a group of n begins at a multiple of n", i,
                   groups[i].first, groups[i].first + groups[i].count - 1);
  }
  return groups;
}

struct PassName {
  std::size_t replica;
  const char* pass;
};

/// Slices of one sequence, sorted by position.
void check_sequence(std::span<const Placed> placed, Tokens length, Pass pass, const PassName& name,
                    Findings& findings) {
  const std::int32_t id = placed.front().slice.sequence.value();
  const bool backward = pass == Pass::kBackward;
  Tokens reached;
  for (std::size_t i = 0; i < placed.size() && !findings.full(); ++i) {
    const Slice& slice = placed[i].slice;
    if (slice.begin > reached)
      findings.add("replica {}: tokens [{}, {}) of sequence {} are in no {} MicroPack",
                   name.replica, reached.count(), slice.begin.count(), id, name.pass);
    if (slice.begin < reached)
      findings.add("replica {}: tokens [{}, {}) of sequence {} are in two {} MicroPacks",
                   name.replica, slice.begin.count(), std::min(reached, slice.end).count(), id,
                   name.pass);
    reached = std::max(reached, slice.end);
    if (i == 0) continue;
    const std::size_t before = placed[i - 1].pack;
    if (before == placed[i].pack)
      findings.add("replica {}: {} MicroPack {} holds two slices of sequence {}: merge them",
                   name.replica, name.pass, before, id);
    else if ((before > placed[i].pack) != backward)
      findings.add("replica {}: slices of sequence {} must {} over the {} MicroPacks: {} and {}",
                   name.replica, id, backward ? "descend" : "ascend", name.pass, before,
                   placed[i].pack);
  }
  if (reached < length)
    findings.add("replica {}: tokens [{}, {}) of sequence {} are in no {} MicroPack", name.replica,
                 reached.count(), length.count(), id, name.pass);
}

void check_pass(const StepPlan& plan, const std::vector<Group>& groups, std::size_t replica,
                Pass pass, Findings& findings) {
  const PassName name{replica, pass == Pass::kBackward ? "backward" : "forward"};
  std::vector<Placed> placed;
  const auto& list = plan.replicas[replica].packs.of(pass);
  for (std::size_t p = 0; p < list.size(); ++p) {
    if (list[p].slices.empty())
      findings.add("replica {}: {} MicroPack {} is empty", replica, name.pass, p);
    for (const Slice& slice : list[p].slices) {
      const std::int32_t id = slice.sequence.value();
      if (id < 0 || slice.sequence.index() >= groups.size() ||
          !groups[slice.sequence.index()].has(replica)) {
        findings.add("replica {}: {} MicroPack {} holds sequence {}, which is not on it", replica,
                     name.pass, p, id);
      } else if (groups[slice.sequence.index()].count !=
                 static_cast<std::size_t>(list[p].replicas)) {
        findings.add("replica {}: {} MicroPack {} is of {} replicas, its sequence {} is on {}",
                     replica, name.pass, p, list[p].replicas, id,
                     groups[slice.sequence.index()].count);
      } else if (slice.begin < Tokens(0) || slice.begin >= slice.end ||
                 slice.end > plan.lengths[slice.sequence.index()]) {
        findings.add(
            "replica {}: {} MicroPack {} holds tokens [{}, {}) of sequence {}, which has {}",
            replica, name.pass, p, slice.begin.count(), slice.end.count(), id,
            plan.lengths[slice.sequence.index()].count());
      } else {
        placed.push_back({slice, p});
      }
    }
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    return std::tie(a.slice.sequence, a.slice.begin, a.slice.end, a.pack) <
           std::tie(b.slice.sequence, b.slice.begin, b.slice.end, b.pack);
  });
  std::vector<bool> seen(groups.size(), false);
  for (std::size_t i = 0; i < placed.size();) {
    std::size_t end = i;
    while (end < placed.size() && placed[end].slice.sequence == placed[i].slice.sequence) ++end;
    const std::size_t sequence = placed[i].slice.sequence.index();
    seen[sequence] = true;
    check_sequence(std::span(placed).subspan(i, end - i), plan.lengths[sequence], pass, name,
                   findings);
    i = end;
  }
  for (std::size_t q = 0; q < groups.size(); ++q)
    if (groups[q].has(replica) && !seen[q])
      findings.add("replica {}: sequence {} is in no {} MicroPack", replica, q, name.pass);
}

/// The next pack, from `p` on, that `count` or more replicas run together.
std::size_t next_merged(const std::vector<MicroPack>& packs, std::size_t p, std::size_t count) {
  while (p < packs.size() && static_cast<std::size_t>(packs[p].replicas) < count) ++p;
  return p;
}

/// Checks that two replicas of one group have the same packs of `count` or more replicas, in the
/// same order.
void check_merged_order(const std::vector<MicroPack>& a, const std::vector<MicroPack>& b,
                        std::size_t count, std::string_view where, Findings& findings) {
  std::size_t i = next_merged(a, 0, count);
  std::size_t k = next_merged(b, 0, count);
  for (; i < a.size() && k < b.size() && a[i] == b[k];
       i = next_merged(a, i + 1, count), k = next_merged(b, k + 1, count)) {
  }
  if (i < a.size() || k < b.size())
    findings.add("{}: merged MicroPacks must be the same in the same order, {} and {} differ",
                 where, i, k);
}

/// By sequence: its zone in the packs that were checked so far.
using ZoneOfSequence = std::vector<std::optional<Zone>>;

/// One kind of zones: those of attention, or those of rows.
struct ZoneKind {
  std::string_view name;
  std::vector<Zone> MicroPack::*zones;
  Zone (MicroPack::*of)(std::size_t slice) const;
  bool side_by_side;  ///< whether the slices of one zone must stand so
};
constexpr std::array kZoneKinds{
    ZoneKind{"zone", &MicroPack::zones, &MicroPack::zone, true},
    ZoneKind{"row zone", &MicroPack::row_zones, &MicroPack::row_zone, false}};

void check_zones(const MicroPack& pack, const ZoneKind& kind, const PassName& name, std::size_t p,
                 ZoneOfSequence& known, Findings& findings) {
  const std::vector<Zone>& zones = pack.*kind.zones;
  if (!zones.empty() && pack.replicas == 1) {
    findings.add("replica {}: {} MicroPack {} has {}s, but one replica runs it", name.replica,
                 name.pass, p, kind.name);
    return;
  }
  if (!zones.empty() && zones.size() != pack.slices.size()) {
    findings.add("replica {}: {} MicroPack {} has {} {}s for {} slices", name.replica, name.pass, p,
                 zones.size(), kind.name, pack.slices.size());
    return;
  }
  std::set<Zone> before;
  for (std::size_t s = 0; s < pack.slices.size(); ++s) {
    const Zone zone = (pack.*kind.of)(s);
    const SequenceId sequence = pack.slices[s].sequence;
    if (zone.first < 0 || zone.size < 1 || zone.end() > pack.replicas)
      findings.add("replica {}: {} MicroPack {} has the {} [{}, {}), its group has {} members",
                   name.replica, name.pass, p, kind.name, zone.first, zone.end(), pack.replicas);
    if (!before.insert(zone).second && kind.side_by_side && pack.zone(s - 1) != zone)
      findings.add("replica {}: {} MicroPack {} has slices of the zone [{}, {}) apart from others",
                   name.replica, name.pass, p, zone.first, zone.end());
    if (sequence.value() < 0 || sequence.index() >= known.size()) continue;  // found elsewhere
    std::optional<Zone>& other = known[sequence.index()];
    if (other && *other != zone)
      findings.add("replica {}: sequence {} has the {}s [{}, {}) and [{}, {})", name.replica,
                   sequence.value(), kind.name, other->first, other->end(), zone.first, zone.end());
    other = zone;
  }
}

void check_zones(const StepPlan& plan, std::size_t replica, Findings& findings) {
  const PackPlan& packs = plan.replicas[replica].packs;
  for (const ZoneKind& kind : kZoneKinds) {
    const auto zoned = [&](const MicroPack& pack) { return !(pack.*kind.zones).empty(); };
    if (std::ranges::none_of(packs.forward, zoned) && std::ranges::none_of(packs.backward, zoned))
      continue;
    ZoneOfSequence known(plan.lengths.size());
    for (const Pass pass : kWholePasses) {
      const PassName name{replica, pass == Pass::kBackward ? "backward" : "forward"};
      for (std::size_t p = 0; p < packs.of(pass).size(); ++p)
        check_zones(packs.of(pass)[p], kind, name, p, known, findings);
    }
  }
}

/// The sizes of groups. Any two must nest, so that a group lies inside every larger one.
std::set<std::size_t> check_group_sizes(const StepPlan& plan, Findings& findings) {
  std::set<std::size_t> sizes;
  for (const ReplicaPlan& replica : plan.replicas)
    for (const Pass pass : kWholePasses)
      for (const MicroPack& pack : replica.packs.of(pass))
        if (pack.replicas > 1) sizes.insert(static_cast<std::size_t>(pack.replicas));
  for (auto size = sizes.begin(); size != sizes.end(); ++size)
    if (const auto next = std::next(size); next != sizes.end() && *next % *size != 0)
      findings.add("groups have {} and {} replicas: the smaller number must divide the larger one",
                   *size, *next);
  return sizes;
}

void check_merged(const StepPlan& plan, Findings& findings) {
  for (const std::size_t count : check_group_sizes(plan, findings))
    for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
      const std::size_t first = r - r % count;
      if (r == first) continue;
      const PackPlan& a = plan.replicas[first].packs;
      const PackPlan& b = plan.replicas[r].packs;
      check_merged_order(a.forward, b.forward, count,
                         fmt::format("replicas {} and {}, forward", first, r), findings);
      check_merged_order(a.backward, b.backward, count,
                         fmt::format("replicas {} and {}, backward", first, r), findings);
    }
}

}  // namespace

std::vector<std::string> check_plan(const StepPlan& plan, std::size_t max_errors) {
  Findings findings(max_errors);
  check_layout(plan.layout, findings);
  check_recompute(plan, findings);
  if (plan.replicas.empty()) findings.add("the plan has no replica");
  const std::vector<Group> groups = check_ownership(plan, findings);
  for (std::size_t r = 0; r < plan.replicas.size() && !findings.full(); ++r) {
    for (const Pass pass : kWholePasses) check_pass(plan, groups, r, pass, findings);
    check_zones(plan, r, findings);
  }
  if (!findings.full()) check_merged(plan, findings);
  return findings.take();
}

}  // namespace slimpack
