#include "apps/slimpack/training_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "apps/slimpack/configured_cost.h"
#include "apps/slimpack/configured_profile.h"
#include "apps/slimpack/configured_request.h"
#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/device.h"
#include "slimpack/packflow/load_checkpoint.h"
#include "slimpack/packflow/memory_tracker.h"

namespace slimpack {
namespace {

constexpr const char* kCostFile = "cost.json";  // of a checkpoint

/// What processes that do not share memory cannot do.
void require_for_processes(const RunConfig& config) {
  if (config.train.clock == ClockKind::kVirtual)
    invalid_input(
        "train.clock is virtual, which needs all ranks in one process; set it to wall or run "
        "'slimpack train'");
  if (config.plan.time_budget > 0)
    invalid_input(
        "plan.time_budget is {} s: every process of a job plans for itself, and what they find in "
        "a given time would differ; set it to 0",
        config.plan.time_budget);
}

const RunConfig& require_trainable(const RunConfig& config, const JobProcess* process) {
  if (config.data.prefix.empty())
    invalid_input("data.prefix is not set; build a dataset with 'slimpack data build' and name it");
  const ParallelConfig& p = config.parallel;
  const std::int64_t ranks = std::int64_t{p.pp} * p.dp * p.tp;
  if (process != nullptr) require_for_processes(config);
  if (config.train.clock == ClockKind::kVirtual && config.train.device != DeviceKind::kCpu)
    invalid_input(
        "train.clock is virtual, which counts the time of processors, but train.device is {}; set "
        "the clock to wall",
        to_string(config.train.device));
  if (process == nullptr && ranks > kMaxTrackedRanks)
    invalid_input(
        "parallel.pp × dp × tp is {} ranks, one process runs at most {}; lower one of them, or "
        "start one process for each rank with torchrun",
        ranks, kMaxTrackedRanks);
  return config;
}

ModelShape checked_shape(const RunConfig& config) {
  ModelShape shape = read_model_shape(config.model.config);
  if (config.data.context > shape.max_positions)
    invalid_input(
        "data.context is {} tokens, {} allows max_position_embeddings = {}; lower "
        "data.context",
        config.data.context.count(), config.model.config.string(), shape.max_positions.count());
  if (config.parallel.pp > shape.num_layers)
    invalid_input(
        "parallel.pp is {}, the model has {} layers; a stage needs at least one: lower "
        "parallel.pp",
        config.parallel.pp, shape.num_layers);
  static_cast<void>(tensor_parallel_part(shape, config.parallel.tp));  // refuses what cannot be cut
  return shape;
}

/// Of several processes the first measures, and all plan with what it found.
CostModel cost_or_profile(const RunConfig& config, const ModelShape& shape, JobProcess* process) {
  if (auto cost = configured_cost(config, shape)) return *std::move(cost);
  if (process == nullptr) return profile_costs(configured_profile(config, shape));
  const bool first = process->ranks().front() == 0;
  const std::string measured =
      first ? cost_to_json(profile_costs(configured_profile(config, shape, true))) : "";
  return cost_from_json(process->all_gather(measured).front(), "profile of the first process");
}

/// The state of the run that `start` goes on from, with the same settings as this one.
std::optional<RunState> saved_state(const TrainingStart& start, const RunSettings& settings) {
  if (!start.checkpoint) return std::nullopt;
  const std::string origin = start.checkpoint->folder.string();
  RunState saved = run_state_from_json(start.checkpoint->state.run, origin);
  require_same_settings(saved.settings, settings, origin);
  return saved;
}

}  // namespace

TrainingRun::TrainingRun(const RunConfig& config, const TrainingStart& start,
                         std::function<bool()> should_stop, JobProcess* process)
    : config_(require_trainable(config, process)),
      process_(process),
      should_stop_(std::move(should_stop)),
      shape_(checked_shape(config)),
      dataset_(IndexedDataset::open(config.data.prefix)),
      settings_(run_settings(config, shape_, dataset_.lengths())),
      saved_(saved_state(start, settings_)),
      sampler_(dataset_.lengths(), {config.data.context, config.data.step_tokens},
               saved_ ? saved_->cursor : SamplerCursor{config.data.seed, 0, 0}),
      first_(draw()),
      step_(start.checkpoint ? start.checkpoint->state.steps : 0),
      ahead_([this] {
        StepBatch batch = first_ ? *std::exchange(first_, std::nullopt) : draw();
        return plan(std::move(batch), config_.plan.planner);
      }) {
  cost_ = choose_cost(start);
  engine_ = std::make_unique<Engine>(
      EngineOptions{.shape = shape_,
                    .dtype = config_.train.dtype,
                    .layout = choose_layout(),
                    .replicas = config_.parallel.dp,
                    .tensor = config_.parallel.tp,
                    .context = config_.data.context,
                    .seed = config_.train.seed,
                    .pin_threads = false,
                    .clock = config_.train.clock,
                    .device = find_device(config_.train.device),
                    .process = process_,
                    .should_stop = process_ == nullptr ? should_stop_ : nullptr});
  if (start.checkpoint)
    load_checkpoint(*engine_, *start.checkpoint);
  else if (!start.model.empty())
    load_hugging_face_model(*engine_, start.model);
  if (step_ < config_.train.steps) ahead_.start();
}

bool TrainingRun::goes_on_alike() const {
  const ParallelConfig& p = config_.parallel;
  return saved_ && saved_->grid == RankGrid{p.pp, p.dp, p.tp};
}

CostModel TrainingRun::choose_cost(const TrainingStart& start) const {
  if (!goes_on_alike()) return cost_or_profile(config_, shape_, process_);
  const std::filesystem::path file = start.checkpoint->folder / kCostFile;
  return cost_from_json(read_file(file, "cost file"), file.string());
}

StageLayout TrainingRun::choose_layout() const {
  return goes_on_alike() ? saved_->layout
                         : balanced_layout(cost_, first_->lengths, config_.parallel.pp);
}

CheckpointContents TrainingRun::checkpoint_after(const CompletedStep& last) const {
  const EngineOptions& options = engine_->options();
  const RunState state{settings_, last.ready.batch.cursor, options.grid(), options.layout};
  return {last.step + 1, to_json(state), {{kCostFile, cost_to_json(cost_)}}};
}

CompletedStep TrainingRun::next() {
  auto [ready, waited] = ahead_.take();
  require_same_step(ready.planned);
  if (step_ + 1 < config_.train.steps) ahead_.start();
  CompletedStep done = run(std::move(ready), Engine::Update{config_.train, step_});
  done.step = step_++;
  done.planning_wait = waited;
  return done;
}

void TrainingRun::require_same_step(const PlannedStep& planned) const {
  if (process_ == nullptr) return;
  std::string text = plan_to_json(planned.plan);
  for (const Schedule& schedule : planned.schedules) text += schedule_to_text(schedule);
  const std::string own = fmt::format("{} {}", should_stop_() ? "stop" : "plan",
                                      checksum_of(std::as_bytes(std::span(text))));
  const std::vector<std::string> all = process_->all_gather(own);
  if (std::ranges::any_of(all, [](const std::string& s) { return s.starts_with("stop"); }))
    throw Interrupted("stopped on request between two steps");
  const auto other = std::ranges::find_if(all, [&](const auto& s) { return s != all.front(); });
  if (other != all.end())
    invalid_input(
        "step {}: ranks 0 and {} have planned differently ({} and {}); all processes need the same "
        "configuration, dataset, cost file and version of SlimPack",
        step_ + 1, other - all.begin(), all.front(), *other);
}

CompletedStep TrainingRun::rerun(const StepBatch& batch, PlannerKind planner) {
  CompletedStep done = run(plan(batch, planner), std::nullopt);
  done.planning_wait = done.ready.planning_time;
  return done;
}

StepBatch TrainingRun::draw() {
  StepBatch batch;
  std::vector<std::vector<std::int64_t>> tokens;
  for (const SampledDocument& document : sampler_.next_step()) {
    batch.lengths.push_back(document.length);
    auto& sequence = tokens.emplace_back(static_cast<std::size_t>(document.length.count()));
    dataset_.copy_tokens(document.document, sequence);
    require_in_vocabulary(document.document, sequence);
  }
  batch.tokens = make_step_tokens(tokens, shape_.vocab_size);
  batch.cursor = sampler_.cursor();
  return batch;
}

void TrainingRun::require_in_vocabulary(std::size_t document,
                                        std::span<const std::int64_t> tokens) const {
  const std::int64_t largest = *std::ranges::max_element(tokens);
  if (largest >= shape_.vocab_size)
    invalid_input(
        "dataset '{}': document {} holds token {}, but vocab_size is {} in {}; build the dataset "
        "with this model's tokenizer or raise vocab_size",
        config_.data.prefix.string(), document, largest, shape_.vocab_size,
        config_.model.config.string());
}

ReadyStep TrainingRun::plan(StepBatch batch, PlannerKind planner) const {
  const Nanos start = monotonic_now();
  PlanRequest request =
      configured_request(config_, cost_, batch.lengths, engine_->options().layout);
  request.planner = planner;
  PlanOutcome outcome = plan_step(request, cost_);
  if (outcome.does_not_fit) throw refused(config_, *outcome.does_not_fit);
  PlannedStep planned = *std::move(outcome.step);
  require_valid_plan(planned.plan, "planner");
  const auto errors = check_step_schedules(planned.plan, planned.schedules);
  SLIMPACK_CHECK(errors.empty(), "{}", errors.front());
  return {std::move(batch), std::move(planned), monotonic_now() - start};
}

CompletedStep TrainingRun::run(ReadyStep ready, const std::optional<Engine::Update>& update) {
  CompletedStep done;
  done.result =
      engine_->run(ready.planned.plan, ready.planned.schedules, ready.batch.tokens, update);
  done.ready = std::move(ready);
  return done;
}

}  // namespace slimpack
