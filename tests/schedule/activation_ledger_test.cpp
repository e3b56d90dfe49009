#include "slimpack/schedule/activation_ledger.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <set>

#include "tests/support/random_plan.h"

namespace slimpack {
namespace {

/// Bytes recounted from nothing, token by token, after the first f forward and b backward packs.
class Recount {
 public:
  Recount(const StepPlan& plan, const TaskBytes& bytes)
      : plan_(plan), packs_(plan.replicas.front().packs), bytes_(bytes) {}

  [[nodiscard]] Bytes live(std::size_t f, std::size_t b) const {
    Bytes sum;
    for (std::size_t p = 0; p < f; ++p)
      if (!consumed(packs_.forward[p], b)) sum += bytes_.rows[0][p];
    for (std::size_t q = 0; q < plan_.lengths.size(); ++q) {
      const std::size_t done = slices(packs_.backward, q, b);
      const std::size_t all = slices(packs_.backward, q, packs_.backward.size());
      if (slices(packs_.forward, q, f) > 0 && done < all) sum += bytes_.kv[0][q];
      if (done > 0 && done < all) sum += bytes_.dkv[0][q];
    }
    return sum;
  }

 private:
  static std::size_t slices(const std::vector<MicroPack>& packs, std::size_t sequence,
                            std::size_t before) {
    std::size_t count = 0;
    for (std::size_t p = 0; p < before; ++p)
      for (const Slice& slice : packs[p].slices) count += slice.sequence.index() == sequence;
    return count;
  }

  [[nodiscard]] bool consumed(const MicroPack& pack, std::size_t b) const {
    std::set<std::pair<std::size_t, std::int64_t>> rows;
    for (const Slice& slice : pack.slices)
      for (std::int64_t t = slice.begin.count(); t < slice.end.count(); ++t)
        rows.emplace(slice.sequence.index(), t);
    for (std::size_t p = 0; p < b; ++p)
      for (const Slice& slice : packs_.backward[p].slices)
        for (std::int64_t t = slice.begin.count(); t < slice.end.count(); ++t)
          rows.erase({slice.sequence.index(), t});
    return rows.empty();
  }

  const StepPlan& plan_;
  const PackPlan& packs_;
  const TaskBytes& bytes_;
};

RC_GTEST_PROP(ActivationLedger, AgreesWithARecountAfterEveryAction, (std::uint64_t seed)) {
  Rng rng(seed);
  const StepPlan plan = testing::random_plan(rng, 1);
  const PackPlan& packs = plan.replicas.front().packs;
  const TaskBytes bytes = testing::random_bytes(rng, plan, 1);
  const std::vector<std::int32_t> needed = forwards_needed(packs);
  const RowFlow flow = row_flow(packs);
  ActivationLedger ledger(flow, bytes, 0);
  const Recount recount(plan, bytes);
  std::size_t f = 0;
  std::size_t b = 0;
  while (f < packs.forward.size() || b < packs.backward.size()) {
    const bool may_backward =
        b < packs.backward.size() && static_cast<std::int32_t>(f) >= needed[b];
    const Bytes before = recount.live(f, b);
    if (may_backward && (f == packs.forward.size() || rng.below(2) == 0)) {
      RC_ASSERT(ledger.peak_of({StageId(std::int32_t{0}), Pass::kBackward, PackId(b)}) ==
                before + bytes.backward_transient[0][b]);
      ledger.run({StageId(std::int32_t{0}), Pass::kBackward, PackId(b++)});
    } else {
      RC_ASSERT(ledger.peak_of({StageId(std::int32_t{0}), Pass::kForward, PackId(f)}) ==
                recount.live(f + 1, b) + bytes.forward_transient[0][f]);
      ledger.run({StageId(std::int32_t{0}), Pass::kForward, PackId(f++)});
    }
    RC_ASSERT(ledger.live() == recount.live(f, b));
  }
  RC_ASSERT(ledger.live() == Bytes(0));
}

}  // namespace
}  // namespace slimpack
