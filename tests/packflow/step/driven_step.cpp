#include "tests/packflow/step/driven_step.h"

#include <ATen/ops/full.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/step/engine.h"
#include "slimpack/planner/planner.h"
#include "slimpack/schedule/list_scheduler.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"
#include "slimpack/schedule/spread_vocabulary.h"
#include "slimpack/schedule/ticks.h"
#include "slimpack/solver/fluid_cut.h"
#include "tests/support/bound_costs.h"
#include "tests/support/packed_plan.h"
#include "tests/support/random_split.h"
#include "tests/support/random_step.h"

namespace slimpack::testing {
namespace {

/// The step's layers on its pipeline ranks, which have a stage each unless the step says more. The
/// stages go around the ranks, or there and back where the step "turns_back".
StageLayout layout_of(const JsonFields& step, const Costs& cost, const SequenceLengths& lengths) {
  const auto stages_per_rank =
      step.has("stages_per_rank") ? static_cast<std::int32_t>(step.integer("stages_per_rank")) : 1;
  return balanced_layout(
      cost, lengths, static_cast<std::int32_t>(step.integer("pp")), stages_per_rank,
      step.has("spread_vocabulary") && step.boolean("spread_vocabulary"), LastStage::kBothPasses,
      step.has("turns_back") && step.boolean("turns_back") ? PlacementStyle::kV
                                                           : PlacementStyle::kLoop);
}

std::vector<std::vector<std::int64_t>> sequences_of(const JsonFields& step) {
  return step.array("sequences").get<std::vector<std::vector<std::int64_t>>>();
}

SequenceLengths lengths_of(const std::vector<std::vector<std::int64_t>>& sequences) {
  SequenceLengths lengths;
  for (const auto& tokens : sequences)
    lengths.emplace_back(static_cast<std::int64_t>(tokens.size()));
  return lengths;
}

/// All tokens are targets, or those that the step's masks say, with the step's weights.
StepTokens tokens_of(const JsonFields& step,
                     const std::vector<std::vector<std::int64_t>>& sequences,
                     std::int64_t vocab_size) {
  if (!step.has("masks")) return make_step_tokens(sequences, vocab_size);
  const auto masks = step.array("masks").get<std::vector<TargetMask>>();
  std::vector<std::vector<double>> weights(sequences.size());
  if (step.has("target_weights"))
    weights = step.array("target_weights").get<std::vector<std::vector<double>>>();
  std::vector<SequenceTokens> masked;
  for (std::size_t s = 0; s < sequences.size(); ++s)
    masked.push_back({sequences[s], masks.at(s), weights.at(s)});
  const bool by_document = step.has("loss") && step.text("loss") == "document";
  return make_step_tokens(masked, vocab_size, by_document ? LossKind::kDocument : LossKind::kToken);
}

StepPlan make_plan(const JsonFields& step, const Costs& cost, const SequenceLengths& lengths) {
  StepPlan plan;
  plan.lengths = lengths;
  plan.layout = layout_of(step, cost, lengths);
  ReplicaPlan& replica = plan.replicas.emplace_back();
  replica.sequences = all_sequences(lengths);
  for (const auto& name : step.array("recompute"))
    plan.recompute.push_back(*recompute_from(name.get<std::string>()));
  if (step.text("planner") == "packed") {
    replica.packs = packed_plan(lengths, replica.sequences, Tokens(step.integer("capacity")));
    return plan;
  }
  const auto time = [&](Pass pass) {
    return stage_cost(RecomputingCosts{cost}, plan.layout, StageId(0), pass);
  };
  replica.packs = fluid_cut(
      lengths,
      fluid_order(lengths, replica.sequences, static_cast<int>(step.integer("short_first"))),
      time(Pass::kForward), time(Pass::kBackward),
      {.packs = static_cast<int>(step.integer("packs")),
       .granularity = Tokens(step.integer("granularity")),
       .taper_front = static_cast<int>(step.integer("taper_packs")),
       .taper_back = static_cast<int>(step.integer("taper_packs")),
       .taper = 0.25,
       .asymmetric = step.boolean("asymmetric")});
  return plan;
}

struct ScheduledPlan {
  StepPlan plan;
  std::vector<Schedule> schedules;
};

testing::Zoning zoning_of(const JsonFields& step) {
  const auto is = [&](const char* key) { return step.has(key) && step.boolean(key); };
  return is("remapped") ? testing::Zoning::kRemapped
         : is("zoned")  ? testing::Zoning::kZones
                        : testing::Zoning::kWhole;
}

CpCommType comm_type_of(const JsonFields& step) {
  const std::string name = step.has("cp_comm_type") ? step.text("cp_comm_type") : "direct";
  const auto* const type =
      std::ranges::find(kCpCommTypes, name, [](CpCommType known) { return to_string(known); });
  SLIMPACK_CHECK(type != kCpCommTypes.end(), "cp_comm_type {}", name);
  return *type;
}

/// Several replicas, merged sequences, split backwards and tensor-parallel ranks, all at random.
ScheduledPlan random_step(const JsonFields& step, const Costs& cost,
                          const SequenceLengths& lengths) {
  Rng rng(static_cast<std::uint64_t>(step.integer("random")));
  const StageLayout layout = layout_of(step, cost, lengths);
  ScheduledPlan out;
  out.plan = testing::random_step(rng, lengths, static_cast<std::size_t>(step.integer("dp")),
                                  layout.stages(), testing::MergedAt::kAnywhere, zoning_of(step));
  out.plan.layout = layout;
  for (const auto& name : step.array("recompute"))
    out.plan.recompute.push_back(*recompute_from(name.get<std::string>()));
  out.schedules = testing::RandomOrders(rng, out.plan, kChannelSlots).draw();
  if (step.has("split_from")) testing::split_some(rng, out.plan, out.schedules);
  out.schedules = with_vocabulary(out.plan, std::move(out.schedules));
  return out;
}

Schedule make_schedule(const JsonFields& step, const StepPlan& plan, const Costs& cost) {
  const PackPlan& packs = plan.replicas.front().packs;
  const bool split = step.has("split_from");
  if (step.text("planner") == "packed" && !split) return one_f_one_b(packs, plan.layout.stages());
  const TaskTimes times = task_times(RecomputingCosts{cost}, plan.layout, packs);
  const TaskBytes bytes = task_bytes(RecomputingCosts{cost}, plan.layout, packs, plan.lengths);
  const ReplicaPacks replica{packs, times, bytes};
  ListPolicy policy;
  if (split) policy.split_from = static_cast<std::int32_t>(step.integer("split_from"));
  return ListScheduler(std::span(&replica, 1)).run({}, policy)->schedule;
}

/// A plan as `slimpack plan` writes it, with its schedules.
ScheduledPlan read_step(const std::filesystem::path& file) {
  const PlanFile read = plan_file_from_json(read_file(file, "plan"), file.string());
  return {read.step.plan, read.step.schedules};
}

bool exchanges_context(const JsonFields& step) {
  return step.has("exchange_context") && step.boolean("exchange_context");
}

/// From a file, at random, or planned.
ScheduledPlan made_step(const JsonFields& step, const Costs& cost, const SequenceLengths& lengths) {
  if (step.has("plan_file")) return read_step(step.text("plan_file"));
  if (step.has("random")) return random_step(step, cost, lengths);
  ScheduledPlan made{make_plan(step, cost, lengths), {}};
  made.schedules.push_back(make_schedule(step, made.plan, cost));
  return made;
}

/// Result: the number of exchanges.
std::int64_t put_exchanges_in(ScheduledPlan& made) {
  const auto all = context_exchanges(made.plan, made.schedules);
  std::int64_t count = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    made.schedules[r].exchanges = all[r];
    count += std::ssize(all[r]);
  }
  return count;
}

/// Makes every rank post all its receives before its first action, which PackFlow once did.
void post_ahead(std::vector<LoweredSchedule>& lowered) {
  for (LoweredSchedule& replica : lowered)
    for (std::vector<Instruction>& instructions : replica.ranks)
      std::ranges::stable_partition(
          instructions, [](const Instruction& i) { return i.operation == Operation::kReceive; });
}

/// Throws for what the check refuses, unless the step is run unchecked.
std::vector<LoweredSchedule> lowered_step(const JsonFields& step, const ScheduledPlan& made) {
  std::vector<LoweredSchedule> lowered = lower(made.plan, made.schedules);
  if (step.has("post_ahead")) post_ahead(lowered);
  const auto errors = check_lowered(made.plan, lowered);
  SLIMPACK_CHECK(errors.empty() || step.has("unchecked"), "{}", errors.front());
  return lowered;
}

Dtype dtype_of(const std::string& name) {
  return name == "fp64" ? Dtype::kFp64 : name == "bf16" ? Dtype::kBf16 : Dtype::kFp32;
}

/// The CPU, if the step does not say.
DeviceKind device_of(const JsonFields& step) {
  return step.has("device") && step.text("device") == "cuda" ? DeviceKind::kCuda : DeviceKind::kCpu;
}

}  // namespace

void run_driven_step(const std::filesystem::path& file, JobProcess* process) {
  const auto json = parse_json(read_file(file, "step"), file.string());
  const JsonFields step(json, file.string());
  const auto sequences = sequences_of(step);
  const SequenceLengths lengths = lengths_of(sequences);

  const Decoder shape = read_decoder(step.text("config"));
  const Dtype dtype = dtype_of(step.text("dtype"));
  const Costs cost = cost_from_hardware(shape, dtype, HardwareSpec{});
  const bool random = step.has("random");
  ScheduledPlan made = made_step(step, cost, lengths);
  const StepPlan& plan = made.plan;
  require_valid_plan(plan, "plan");
  const std::int64_t exchanges = exchanges_context(step) ? put_exchanges_in(made) : 0;
  const std::vector<LoweredSchedule> lowered = lowered_step(step, made);

  Engine engine({.shape = shape,
                 .dtype = dtype,
                 .layout = plan.layout,
                 .replicas = static_cast<std::int32_t>(plan.replicas.size()),
                 .tensor = random ? static_cast<std::int32_t>(step.integer("tp")) : 1,
                 .exchange_context = exchanges_context(step),
                 .context = shape.max_positions,
                 .cp_comm_type = comm_type_of(step),
                 .device = find_device(device_of(step)),
                 .process = process});
  load_parameters(engine, read_safetensors(step.text("weights")), "weights");
  TrainConfig train;
  train.learning_rate = train.min_learning_rate = 1e-3;
  train.epsilon = 1e-4;
  train.warmup_steps = 0;
  train.weight_decay = 0.1;
  train.steps = step.integer("steps");
  const StepTokens tokens = tokens_of(step, sequences, shape.vocab_size);
  StepResult result = engine.run(plan, lowered, tokens, std::nullopt);
  // Leaves the gradients, weights and moments that are compared below as they are.
  const double evaluated = engine.evaluate(plan, lowered, tokens);
  NamedTensors out;
  out["evaluated_loss"] =
      at::full({}, tokens.targets > 0 ? evaluated / tokens.weight : 0, at::kDouble);
  for (auto& [name, tensor] : named_gradients(engine)) out["gradient/" + name] = tensor;
  out["exchanges"] = at::full({}, exchanges, at::kLong);
  out["loss"] = at::full({}, result.loss, at::kDouble);
  out["gradient_norm"] = at::full({}, result.gradient_norm, at::kDouble);
  for (std::int64_t s = 0; s < train.steps; ++s) {
    result = engine.run(plan, lowered, tokens, OptimizerUpdate{train, s});
    static_cast<void>(engine.evaluate(plan, lowered, tokens));
  }
  if (train.steps > 0)
    for (auto& [name, tensor] : named_parameters(engine)) out["parameter/" + name] = tensor;
  if (engine.ranks().front() == 0) write_safetensors(step.text("out"), out);
}

}  // namespace slimpack::testing
