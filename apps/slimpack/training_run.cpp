#include "apps/slimpack/training_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/checked_plan.h"
#include "apps/slimpack/configured_cost.h"
#include "apps/slimpack/configured_model.h"
#include "apps/slimpack/configured_profile.h"
#include "apps/slimpack/configured_request.h"
#include "apps/slimpack/configured_sequences.h"
#include "apps/slimpack/token_check.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"
#include "slimpack/packflow/checkpoint/load_checkpoint.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"

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
  ModelShape shape = trained_model(config);
  if (config.parallel.pp > shape.num_layers)
    invalid_input(
        "parallel.pp is {}, the model has {} layers; a stage needs at least one: lower "
        "parallel.pp",
        config.parallel.pp, shape.num_layers);
  static_cast<void>(tensor_parallel_part(shape, config.parallel.tp));  // refuses what cannot be cut
  return shape;
}

/// What a process says before the cause when it has no next step.
constexpr std::string_view kFailed = "fail ";

/// Processes of the job that run where this one does, which has one of its ranks.
std::int32_t processes_here(JobProcess& process) {
  std::array<char, 256> name{};
  SLIMPACK_CHECK(::gethostname(name.data(), name.size() - 1) == 0);
  const std::string own(name.data());
  return static_cast<std::int32_t>(std::ranges::count(process.all_gather(own), own));
}

/// Of several processes the first measures, and all plan with what it found.
Costs cost_or_profile(const RunConfig& config, const ModelShape& shape, JobProcess* process) {
  if (auto cost = configured_cost(config, shape)) return *std::move(cost);
  if (process == nullptr) return measured_costs(configured_profile(config, shape));
  const bool first = process->ranks().front() == 0;
  const std::int32_t neighbours = processes_here(*process);
  const std::string measured = first ? cost_to_json(measured_costs(configured_profile(
                                           config, shape, /*gpu_each=*/true, neighbours)))
                                     : "";
  return cost_from_json(process->all_gather(measured).front(), "profile of the first process");
}

/// The state of the run that `start` goes on from.
std::optional<RunState> saved_state(const TrainingStart& start) {
  if (!start.checkpoint) return std::nullopt;
  const std::string origin = start.checkpoint->folder.string();
  return run_state_from_json(start.checkpoint->state.run, origin);
}

}  // namespace

TrainingRun::TrainingRun(const RunConfig& config, const TrainingStart& start,
                         std::function<bool()> should_stop, JobProcess* process)
    : start_(monotonic_now()),
      config_(require_trainable(config, process)),
      process_(process),
      should_stop_(std::move(should_stop)),
      shape_(checked_shape(config)),
      reader_(config.data.prefix, shape_, config.model.config),
      settings_(run_settings(config, shape_, dataset().lengths())),
      saved_(saved_state(start)),
      changed_(saved_
                   ? changes_between(saved_->settings, settings_, start.checkpoint->folder.string())
                   : std::vector<std::string>{}),
      sampler_(dataset().lengths(), {configured_sequences(config.data), config.data.step_tokens},
               saved_ ? saved_->cursor : SamplerCursor{config.data.seed, 0, 0}),
      first_(draw()),
      step_(start.checkpoint ? start.checkpoint->state.steps : 0),
      first_step_(step_),
      tokens_(saved_ ? saved_->tokens : Tokens(0)),
      evaluated_steps_(saved_ ? saved_->evaluated_steps : -1),
      ahead_([this] {
        StepBatch batch = first_ ? *std::exchange(first_, std::nullopt) : draw();
        return plan(std::move(batch), config_.plan.planner);
      }) {
  check_tokens(config_, reader_, process_, should_stop_);
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
  if (step_ > config_.train.steps)
    invalid_input("{}: {} steps are done, train.steps is {}; raise it to go on",
                  start.checkpoint->folder.string(), step_, config_.train.steps);
  note_token_limit();
  if (!goes_on(step_, tokens_)) return;
  if (config_.evaluation.every > 0)
    evaluation_.emplace(config_, shape_, cost_, engine_->options().layout);
  ahead_.start();
}

bool TrainingRun::goes_on_alike() const {
  const ParallelConfig& p = config_.parallel;
  return saved_ && saved_->grid == RankGrid{p.pp, p.dp, p.tp};
}

Costs TrainingRun::choose_cost(const TrainingStart& start) const {
  if (!goes_on_alike()) return cost_or_profile(config_, shape_, process_);
  const std::filesystem::path file = start.checkpoint->folder / kCostFile;
  return on_device(cost_from_json(read_file(file, "cost file"), file.string()),
                   config_.train.device);
}

StageLayout TrainingRun::choose_layout() const {
  return goes_on_alike()
             ? saved_->layout
             : balanced_layout(cost_, lengths_of(first_->sequences), config_.parallel.pp);
}

CheckpointContents TrainingRun::checkpoint_after(const CompletedStep& last) const {
  const EngineOptions& options = engine_->options();
  const RunState state{.settings = settings_,
                       .cursor = last.ready.batch.cursor,
                       .tokens = tokens_,
                       .evaluated_steps = std::max<std::int64_t>(evaluated_steps_, 0),
                       .grid = options.grid(),
                       .layout = options.layout};
  return {last.step + 1, to_json(state), {{kCostFile, cost_to_json(cost_)}}};
}

bool TrainingRun::goes_on(std::int64_t steps, Tokens tokens) const {
  const Tokens limit = config_.train.max_tokens;
  return steps < config_.train.steps && (limit == Tokens(0) || tokens < limit);
}

bool TrainingRun::out_of_time() const {
  const double limit = config_.train.max_seconds;
  return limit > 0 && step_ > first_step_ && to_seconds(monotonic_now() - start_) >= limit;
}

void TrainingRun::note_token_limit() {
  if (step_ < config_.train.steps && !goes_on(step_, tokens_))
    limit_ = fmt::format("train.max_tokens = {} is reached", config_.train.max_tokens.count());
}

PlanAhead<ReadyStep>::Taken TrainingRun::take_ahead() {
  try {
    return ahead_.take();
  } catch (const InvalidInput& e) {
    // The others may have their step, and wait to hear whether this process goes on.
    if (process_ != nullptr) static_cast<void>(agreed(fmt::format("{}{}", kFailed, e.what())));
    throw;
  }
}

std::optional<CompletedStep> TrainingRun::next() {
  if (!goes_on(step_, tokens_)) return std::nullopt;
  auto [ready, waited] = take_ahead();
  if (!all_go_on(ready.planned, out_of_time())) {
    limit_ = fmt::format("train.max_seconds = {} is reached", config_.train.max_seconds);
    return std::nullopt;
  }
  const Tokens tokens = tokens_ + total_tokens(lengths_of(ready.batch.sequences));
  if (goes_on(step_ + 1, tokens)) ahead_.start();
  CompletedStep done = run(std::move(ready), OptimizerUpdate{config_.train, step_});
  done.step = step_++;
  done.planning_wait = waited;
  tokens_ = tokens;
  note_token_limit();
  return done;
}

bool TrainingRun::evaluation_due() const {
  if (!evaluation_ || evaluated_steps_ == step_) return false;
  const bool ended = step_ == config_.train.steps || !limit_.empty();
  return ended || step_ % config_.evaluation.every == 0;
}

EvaluationResult TrainingRun::evaluate() {
  EvaluationResult result = evaluation_->run(*engine_, [this](const RatedPlan& batch) {
    static_cast<void>(all_go_on(batch, /*out_of_time=*/false));
  });
  evaluated_steps_ = step_;
  return result;
}

bool TrainingRun::all_go_on(const RatedPlan& planned, bool out_of_time) const {
  if (process_ == nullptr) return !out_of_time;
  const char* const word = should_stop_() ? "stop" : out_of_time ? "time" : "plan";
  return agreed(fmt::format("{} {}", word, checksum_of_plan(planned)));
}

bool TrainingRun::agreed(const std::string& own) const {
  const std::vector<std::string> all = process_->all_gather(own);
  const auto any_says = [&](std::string_view said) {
    return std::ranges::any_of(all, [&](const auto& s) { return s.starts_with(said); });
  };
  for (const std::string& said : all)
    if (said.starts_with(kFailed)) invalid_input("{}", said.substr(kFailed.size()));
  if (any_says("stop")) throw Interrupted("stopped on request between two steps");
  if (any_says("time")) return false;
  const auto other = std::ranges::find_if(all, [&](const auto& s) { return s != all.front(); });
  if (other != all.end())
    invalid_input(
        "step {}: ranks 0 and {} have planned differently ({} and {}); all processes need the same "
        "configuration, dataset, cost file and version of SlimPack",
        step_ + 1, other - all.begin(), all.front(), *other);
  return true;
}

CompletedStep TrainingRun::rerun(const StepBatch& batch, PlannerKind planner) {
  CompletedStep done = run(plan(batch, planner), std::nullopt);
  done.planning_wait = done.ready.planning_time;
  return done;
}

StepBatch TrainingRun::draw() {
  std::vector<DocumentSequence> sequences = sampler_.next_step();
  StepTokens tokens = reader_.read(sequences);
  return {std::move(sequences), std::move(tokens), sampler_.cursor()};
}

ReadyStep TrainingRun::plan(StepBatch batch, PlannerKind planner) const {
  const Nanos start = monotonic_now();
  Choices choices = configured_choices(config_, cost_);
  choices.planner = planner;
  RatedPlan planned =
      checked_plan(config_, configured_job(config_, cost_, engine_->options().layout),
                   lengths_of(batch.sequences), choices, cost_);
  return {std::move(batch), std::move(planned), monotonic_now() - start};
}

CompletedStep TrainingRun::run(ReadyStep ready, const std::optional<OptimizerUpdate>& update) {
  CompletedStep done;
  done.result =
      engine_->run(ready.planned.plan, ready.planned.schedules, ready.batch.tokens, update);
  done.ready = std::move(ready);
  return done;
}

}  // namespace slimpack
