// Cost files, and what a small plan costs by them.
#include "slimpack/cost/cost_model.h"

#include "tests/fuzz/fuzz_input.h"
#include "tests/support/bound_costs.h"

using namespace slimpack;

namespace {

/// Two sequences, the longer one in two slices that run backward in reverse order.
PackPlan small_packs() {
  const SequenceId longer(std::int32_t{0}), shorter(std::int32_t{1});
  const Slice head{longer, Tokens(0), Tokens(1000)}, tail{longer, Tokens(1000), Tokens(1500)};
  const Slice whole{shorter, Tokens(0), Tokens(70)};
  return {{{{head}}, {{tail, whole}}}, {{{tail}}, {{head, whole}}}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cost =
      fuzz::accepted([&] { return cost_from_json(fuzz::text_of(data, size), "cost.json"); });
  if (!cost) return 0;
  fuzz::require(cost_from_json(cost_to_json(*cost), "written") == *cost,
                "a cost model reads as it is written");
  const SequenceLengths lengths{Tokens(1500), Tokens(70)};
  const std::int32_t stages = cost->shape.num_layers() > 1 ? 2 : 1;
  const StageLayout layout = balanced_layout(*cost, lengths, stages);
  const PackPlan packs = small_packs();
  for (const Recompute recompute : all_recomputations()) {
    const RecomputingCosts model = with_recompute(*cost, recompute);
    (void)fuzz::accepted(
        [&] { return task_times(model, layout, packs, {.replicas = 4}).stages(); });
    (void)fuzz::accepted([&] { return task_bytes(model, layout, packs, lengths).rows.size(); });
    (void)model_state_bytes(model, layout, stages - 1, 4);
  }
  return 0;
}
