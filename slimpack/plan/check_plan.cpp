// Steps, per replica and pass: collect every slice with the pack that holds it; sort by sequence
// and position; walk each sequence once and compare with what the rules allow.
#include <algorithm>
#include <span>
#include <tuple>

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
}

/// By sequence: the replica that owns it.
std::vector<std::size_t> check_ownership(const StepPlan& plan, Findings& findings) {
  constexpr auto kNobody = static_cast<std::size_t>(-1);
  std::vector<std::size_t> owner(plan.lengths.size(), kNobody);
  for (std::size_t r = 0; r < plan.replicas.size(); ++r) {
    const auto& sequences = plan.replicas[r].sequences;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::int32_t id = sequences[i].value();
      if (id < 0 || sequences[i].index() >= owner.size()) {
        findings.add("replica {} lists sequence {}, the step has {} sequences", r, id,
                     owner.size());
        continue;
      }
      if (i > 0 && sequences[i] <= sequences[i - 1])
        findings.add("replica {} lists sequence {} after {}: ids must ascend", r, id,
                     sequences[i - 1].value());
      if (owner[sequences[i].index()] != kNobody)
        findings.add("sequence {} is on replicas {} and {}", id, owner[sequences[i].index()], r);
      owner[sequences[i].index()] = r;
    }
  }
  for (std::size_t i = 0; i < owner.size(); ++i) {
    if (plan.lengths[i] <= Tokens(0))
      findings.add("sequence {} has {} tokens; the least is 1", i, plan.lengths[i].count());
    if (owner[i] == kNobody) findings.add("sequence {} is on no replica", i);
  }
  return owner;
}

struct PassName {
  std::size_t replica;
  const char* pass;
};

/// Slices of one sequence, sorted by position.
void check_sequence(std::span<const Placed> placed, Tokens length, bool backward,
                    const PassName& name, Findings& findings) {
  const std::int32_t id = placed.front().slice.sequence.value();
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

void check_pass(const StepPlan& plan, const std::vector<std::size_t>& owner, std::size_t replica,
                bool backward, Findings& findings) {
  const PackPlan& packs = plan.replicas[replica].packs;
  const PassName name{replica, backward ? "backward" : "forward"};
  std::vector<Placed> placed;
  const auto& list = backward ? packs.backward : packs.forward;
  for (std::size_t p = 0; p < list.size(); ++p) {
    if (list[p].slices.empty())
      findings.add("replica {}: {} MicroPack {} is empty", replica, name.pass, p);
    for (const Slice& slice : list[p].slices) {
      const std::int32_t id = slice.sequence.value();
      if (id < 0 || slice.sequence.index() >= owner.size() ||
          owner[slice.sequence.index()] != replica) {
        findings.add("replica {}: {} MicroPack {} holds sequence {}, which is not on it", replica,
                     name.pass, p, id);
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
  std::vector<bool> seen(owner.size(), false);
  for (std::size_t i = 0; i < placed.size();) {
    std::size_t end = i;
    while (end < placed.size() && placed[end].slice.sequence == placed[i].slice.sequence) ++end;
    const std::size_t sequence = placed[i].slice.sequence.index();
    seen[sequence] = true;
    check_sequence(std::span(placed).subspan(i, end - i), plan.lengths[sequence], backward, name,
                   findings);
    i = end;
  }
  for (std::size_t q = 0; q < owner.size(); ++q)
    if (owner[q] == replica && !seen[q])
      findings.add("replica {}: sequence {} is in no {} MicroPack", replica, q, name.pass);
}

}  // namespace

std::vector<std::string> check_plan(const StepPlan& plan, std::size_t max_errors) {
  Findings findings(max_errors);
  check_layout(plan.layout, findings);
  if (plan.replicas.empty()) findings.add("the plan has no replica");
  const std::vector<std::size_t> owner = check_ownership(plan, findings);
  for (std::size_t r = 0; r < plan.replicas.size() && !findings.full(); ++r) {
    check_pass(plan, owner, r, false, findings);
    check_pass(plan, owner, r, true, findings);
  }
  return findings.take();
}

}  // namespace slimpack
