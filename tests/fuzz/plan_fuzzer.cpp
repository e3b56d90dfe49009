// Step plans.
#include "slimpack/plan/plan.h"

#include "slimpack/plan/regroup.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto plan =
      fuzz::accepted([&] { return plan_from_json(fuzz::text_of(data, size), "plan.json"); });
  if (!plan) return 0;
  fuzz::require(plan_from_json(plan_to_json(*plan), "written") == *plan,
                "a plan reads as it is written");
  if (!check_plan(*plan).empty()) return 0;
  for (const ReplicaPlan& replica : plan->replicas) {
    Tokens forward, backward;
    for (const MicroPack& pack : replica.packs.forward) forward += pack.tokens();
    for (const MicroPack& pack : replica.packs.backward) backward += pack.tokens();
    fuzz::require(forward == backward, "both passes of a correct plan run the same tokens");
    (void)forwards_needed(replica.packs);
    (void)regroup(replica.packs);
  }
  return 0;
}
