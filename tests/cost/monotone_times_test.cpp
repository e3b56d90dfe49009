// Slower hardware never makes a task shorter, whatever model, grid and MicroPacks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <variant>

#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/stage_table.h"
#include "tests/cost/shapes.h"

namespace slimpack {
namespace {

using testing::llama2_70b;
using testing::llama2_7b;

/// Every second layer attends within 1,024 tokens and has eight experts, of which a token has two.
Decoder windows_and_experts() {
  Decoder shape = llama2_70b();
  LayerShape other = shape.kinds.front();
  other.window = 1024;
  other.dense_width = 0;
  other.experts = 8;
  other.experts_per_token = 2;
  other.expert_width = 14336;
  shape.kinds.push_back(other);
  for (std::size_t l = 1; l < shape.kind_of_layer.size(); l += 2) shape.kind_of_layer[l] = 1;
  return shape;
}

/// A state in three of four layers, as Qwen3-Next has.
Decoder states() {
  Decoder shape = llama2_7b();
  LayerShape other = shape.kinds.front();
  other.num_heads = other.num_kv_heads = other.head_dim = other.value_dim = 0;
  other.state = {.weights = 40'000'000,
                 .recurrent = 524'288,
                 .convolved = 24'576,
                 .multiplied = 2'097'152,
                 .rows = 12'288};
  shape.kinds.push_back(other);
  for (std::size_t l = 0; l < shape.kind_of_layer.size(); ++l)
    shape.kind_of_layer[l] = l % 4 == 3 ? 0 : 1;
  return shape;
}

/// Figures that are no speed: a machine with more of them is neither faster nor slower.
bool is_no_speed(std::string_view figure) {
  return figure == "peak_flops" || figure == "ranks_per_node" || figure == "nics_per_node";
}

bool more_is_faster(std::string_view figure) {
  return figure.ends_with("_flops") || figure.ends_with("bandwidth") ||
         figure.ends_with("per_second");
}

/// Machines of any balance, not only today's.
HardwareSpec random_machine() {
  HardwareSpec machine;
  machine.ranks_per_node = *rc::gen::element(1, 4, 8);
  machine.nics_per_node = *rc::gen::element(1, 4, 8);
  for (const HardwareField& field : hardware_fields())
    if (const auto* figure = std::get_if<double HardwareSpec::*>(&field.figure))
      machine.** figure *= std::exp(*rc::gen::inRange(-60, 61) / 20.0);
  return machine;
}

/// Some figures 1.05 to 141 times as slow. `changed` gets their names.
HardwareSpec slower_machine(HardwareSpec machine, std::string& changed) {
  for (const HardwareField& field : hardware_fields()) {
    const auto* figure = std::get_if<double HardwareSpec::*>(&field.figure);
    if (figure == nullptr || is_no_speed(field.name) || *rc::gen::inRange(0, 4) != 0) continue;
    const double factor = std::exp(*rc::gen::inRange(1, 100) / 20.0);
    machine.** figure *= more_is_faster(field.name) ? 1 / factor : factor;
    changed += fmt::format(" {} by {:.3g}", field.name, factor);
  }
  return machine;
}

struct RandomJob {
  Decoder shape = *rc::gen::element(llama2_7b(), llama2_70b(), windows_and_experts(), states());
  bool with_states = shape.kinds.back().has_state();
  std::int32_t tp = with_states ? 1 : *rc::gen::element(1, 2, 8);
  std::int32_t replicas = *rc::gen::element(1, 2, 8, 32);
  StageLayout layout;
  RecomputeByLayer recompute;
  ContextParallel context = {
      .type = *rc::gen::element(CpCommType::kDirect, CpCommType::kP2P, CpCommType::kAllGather),
      .route = *rc::gen::arbitrary<bool>()};
  std::int32_t zero = *rc::gen::element(1, 2, 3);
  bool on_gpus = *rc::gen::arbitrary<bool>();

  RandomJob() {
    const auto layers = static_cast<std::int32_t>(shape.num_layers());
    const std::int32_t stages = *rc::gen::element(1, 2, 4);
    for (std::int32_t s = 0; s <= stages; ++s) layout.layer_begin.push_back(layers * s / stages);
    layout.spread_vocabulary = !with_states && stages > 1 && *rc::gen::arbitrary<bool>();
    for (std::int32_t l = 0; l < layers; ++l)
      recompute.push_back(all_recomputations()[*rc::gen::inRange<std::size_t>(0, 6)]);
  }

  [[nodiscard]] StageTable on(const HardwareSpec& machine) const {
    Costs costs =
        cost_from_hardware(shape, Dtype::kBf16, machine, tp, replicas, layout.stages(), context);
    costs.zero = zero;
    if (on_gpus) costs = with_gpu(std::move(costs), machine);
    return stage_table(costs, layout, recompute, {replicas, {}});
  }
};

/// Slices at any place of their sequences, on a group of any size that the job has.
MicroPack random_pack(const RandomJob& job) {
  MicroPack pack;
  while (!job.with_states && pack.replicas < job.replicas && *rc::gen::arbitrary<bool>())
    pack.replicas *= 2;
  for (std::int32_t s = 0; s < *rc::gen::inRange(1, 4); ++s) {
    const auto begin = *rc::gen::inRange<std::int64_t>(0, 100'000);
    const auto length = *rc::gen::inRange<std::int64_t>(1, 20'000);
    pack.slices.push_back({SequenceId(s), Tokens(begin), Tokens(begin + length)});
  }
  return pack;
}

std::map<std::string, Nanos> times_of(const StageTable& table, const PackPlan& packs) {
  const TaskTimes times = table.times(packs);
  std::map<std::string, Nanos> all;
  const auto add = [&](std::string_view name, const auto& by_stage) {
    for (std::size_t s = 0; s < by_stage.size(); ++s)
      for (std::size_t p = 0; p < by_stage[s].size(); ++p)
        all[fmt::format("{} [{}][{}]", name, s, p)] = by_stage[s][p];
  };
  add("forward", times.forward);
  add("backward", times.backward);
  add("input gradient", times.input_gradient);
  add("joint", times.joint);
  add("transfers", std::array{times.forward_transfer, times.backward_transfer});
  add("step end", std::array{times.step_end});
  // A faster last action hides less of the reduction: both together end no later.
  for (std::size_t r = 0; r < times.ranks(); ++r) {
    all[fmt::format("backward and reduction {}", r)] = times.backward[r].back() + times.reduce[r];
    if (!times.weight_gradient.empty())
      all[fmt::format("split backward and reduction {}", r)] =
          times.backward[r].back() + times.reduce_after_weights[r];
  }
  return all;
}

RC_GTEST_PROP(MonotoneTimes, NoTaskIsShorterOnSlowerHardware, ()) {
  const RandomJob job;
  const PackPlan packs{{random_pack(job), random_pack(job)}, {random_pack(job), random_pack(job)}};
  const HardwareSpec fast = random_machine();
  std::string changed;
  const HardwareSpec slow = slower_machine(fast, changed);
  const auto before = times_of(job.on(fast), packs);
  for (const auto& [task, time] : times_of(job.on(slow), packs))
    // A nanosecond for each rounding.
    if (time < before.at(task) - Nanos(2) - before.at(task) / 1'000'000'000)
      RC_FAIL(fmt::format("{} takes {} where{} are slower, {} before", task, time.count(), changed,
                          before.at(task).count()));
}

}  // namespace
}  // namespace slimpack
