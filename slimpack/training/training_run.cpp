#include "slimpack/training/training_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/job/configured_model.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/planner/speed_tracker.h"
#include "slimpack/training/document_stream.h"

namespace slimpack {
namespace {

const RunConfig& require_trainable(const RunConfig& config, bool alone) {
  if (config.data.datasets().empty())
    invalid_input("data.prefix is not set; build a dataset with 'slimpack data build' and name it");
  const std::int64_t ranks = config.parallel.ranks();
  if (!alone && config.train.clock == ClockKind::kVirtual)
    invalid_input(
        "train.clock is virtual, which needs all ranks in one process; set it to wall or run "
        "'slimpack train'");
  if (config.train.clock == ClockKind::kVirtual && config.train.device != DeviceKind::kCpu)
    invalid_input(
        "train.clock is virtual, which counts the time of processors, but train.device is {}; set "
        "the clock to wall",
        to_string(config.train.device));
  if (config.train.clock != ClockKind::kVirtual && !config.train.links.empty())
    invalid_input(
        "train.links is {}, but by the wall clock messages take as long as they do; leave it out, "
        "or set train.clock to virtual",
        config.train.links.string());
  if (alone && ranks > kMaxTrackedRanks)
    invalid_input(
        "parallel.pp × dp × tp is {} ranks, one process runs at most {}; lower one of them, or "
        "start one process for each rank with torchrun",
        ranks, kMaxTrackedRanks);
  return config;
}

Decoder checked_shape(const RunConfig& config) {
  Decoder shape = trained_model(config);
  const ParallelConfig& p = config.parallel;
  if (p.stages_per_rank > 1 && std::int64_t{p.pp} * p.stages_per_rank > shape.num_layers())
    invalid_input(
        "parallel.pp × stages_per_rank is {} × {} stages, the model has {} layers; a stage needs "
        "at least one: lower one of the two",
        p.pp, p.stages_per_rank, shape.num_layers());
  if (p.pp > shape.num_layers())
    invalid_input(
        "parallel.pp is {}, the model has {} layers; a stage needs at least one: lower "
        "parallel.pp",
        p.pp, shape.num_layers());
  static_cast<void>(tensor_parallel_part(shape, p.tp));  // throws for a bad tp
  return shape;
}

/// A reader of the run's datasets.
DocumentReader reader_of(const RunConfig& config, const Decoder& shape) {
  std::vector<std::filesystem::path> prefixes;
  for (const DataSource& source : config.data.datasets()) prefixes.push_back(source.prefix);
  return {prefixes, shape, config.model.config, config.train.loss};
}

/// The state of the run that `start` resumes; nullopt if it resumes none.
std::optional<RunState> saved_state(const TrainingStart& start) {
  if (!start.checkpoint) return std::nullopt;
  const std::string origin = start.checkpoint->folder.string();
  return run_state_from_json(start.checkpoint->state.run, origin);
}

RunOrigin origin_of(RunSettings settings, const std::optional<RunState>& saved,
                    const TrainingStart& start) {
  std::vector<std::string> changed;
  if (saved)
    changed = changes_between(saved->settings, settings, start.checkpoint->folder.string());
  return {std::move(settings), std::move(changed)};
}

std::optional<LinkUse> configured_links(const RunConfig& config) {
  if (config.train.links.empty()) return std::nullopt;
  return LinkUse{link_map(read_hardware(config.train.links)), config.parallel.cp_route};
}

/// An engine with the weights from which the run starts.
std::unique_ptr<Engine> make_engine(const RunConfig& config, const Decoder& shape,
                                    const StageLayout& layout, const TrainingStart& start,
                                    const JobAgreement& agreement) {
  auto engine = std::make_unique<Engine>(
      EngineOptions{.shape = shape,
                    .dtype = config.train.dtype,
                    .layout = layout,
                    .replicas = config.parallel.dp,
                    .tensor = config.parallel.tp,
                    .exchange_context = config.parallel.exchange_context,
                    .context = config.data.context,
                    .seed = config.train.seed,
                    .pin_threads = false,
                    .clock = config.train.clock,
                    .cp_comm_type = config.parallel.cp_comm_type,
                    .links = configured_links(config),
                    .device = find_device(config.train.device),
                    .deterministic = config.train.same_bits(),
                    .process = agreement.process(),
                    .should_stop = agreement.alone() ? agreement.should_stop() : nullptr});
  if (start.checkpoint) {
    load_checkpoint(*engine, *start.checkpoint);
  } else if (!start.model.empty()) {
    const bool finite = load_hugging_face_model(*engine, start.model);
    static_cast<void>(agreement.from_first([&]() -> std::string {
      if (!finite) require_finite_model(start.model);
      return "";
    }));
  }
  return engine;
}

/// Ends planning when a run of one process was asked to stop. Several agree on a stop.
std::function<void()> interruption(const JobAgreement& agreement) {
  if (!agreement.alone() || !agreement.should_stop()) return nullptr;
  return [&agreement] {
    if (agreement.should_stop()()) throw Interrupted("stopped on request while a step was planned");
  };
}

std::string given_weights(const TrainingStart& start) {
  if (start.model.empty()) return "the random weights of train.seed and initializer_range";
  return fmt::format("the weights in '{}'", start.model.string());
}

/// "1.00 0.67; 1.00 1.00": replicas, and the ranks of their pipelines.
std::string speeds_text(const RankSpeeds& speeds) {
  std::string text;
  for (const std::vector<double>& replica : speeds)
    text += fmt::format("{}{:.2f}", text.empty() ? "" : "; ", fmt::join(replica, " "));
  return text;
}

}  // namespace

TrainingRun::TrainingRun(const RunConfig& config, const TrainingStart& start,
                         const JobAgreement& agreement, TrainingListener& listener,
                         const PlanSettings& settings)
    : config_(require_trainable(config, agreement.alone())),
      agreement_(agreement),
      listener_(listener),
      speeds_(stage_speeds(config_.parallel.speed, config_.parallel)),
      given_weights_(given_weights(start)),
      progress_{.steps = start.checkpoint ? start.checkpoint->state.steps : 0},
      limits_(config_.train, progress_.steps) {
  const Decoder shape = checked_shape(config_);
  DocumentReader reader = reader_of(config_, shape);
  const std::optional<RunState> saved = saved_state(start);
  origin_ = origin_of(run_settings(config_, shape, reader.sources()), saved, start);
  if (saved) {
    progress_.tokens = saved->tokens;
    progress_.evaluated_steps = saved->evaluated_steps;
  }
  DocumentStream stream(std::move(reader), config_.data,
                        saved ? saved->cursor : SamplerCursor{.seed = config_.data.seed});
  const StepBatch& first = stream.peek();  // decides how the layers are divided
  check_tokens(config_, stream.reader(), agreement_, listener);
  PlanBasis basis = choose_plan_basis(config_, shape, start, saved ? &*saved : nullptr, first,
                                      agreement_, listener, settings);
  engine_ = make_engine(config_, shape, basis.layout, start, agreement_);
  if (progress_.steps > config_.train.steps)
    invalid_input("{}: {} steps are done, train.steps is {}; raise it to go on",
                  start.checkpoint->folder.string(), progress_.steps, config_.train.steps);
  progress_.limit = limits_.token_limit_reached(progress_);
  maker_ = std::make_unique<StepMaker>(
      std::move(stream),
      StepPlanner(config_, std::move(basis.cost), std::move(basis.layout), settings.search,
                  interruption(agreement_)),
      config_.plan.planner, agreement_);
  if (!limits_.allow_another(progress_)) return;
  if (config_.evaluation.every > 0)
    evaluation_.emplace(config_, shape, maker_->planner(), agreement_);
  maker_->start();
}

CheckpointContents TrainingRun::checkpoint_after(const CompletedStep& last) const {
  const EngineOptions& options = engine_->options();
  const RunState state{.settings = origin_.settings,
                       .cursor = last.ready.batch.cursor,
                       .tokens = progress_.tokens,
                       .evaluated_steps = std::max<std::int64_t>(progress_.evaluated_steps, 0),
                       .grid = options.grid(),
                       .layout = options.layout};
  return {last.step + 1, to_json(state), {{kCostFile, cost_to_json(cost())}}};
}

std::optional<CompletedStep> TrainingRun::next() {
  if (!limits_.allow_another(progress_)) return std::nullopt;
  std::optional<ReadyStep> ready = maker_->take(fmt::format("step {}", progress_.steps + 1),
                                                [this] { return limits_.out_of_time(progress_); });
  if (!ready) {
    progress_.limit = limits_.time_limit_reached();
    return std::nullopt;
  }
  if (ready->batch.left_out > 0 && agreement_.first())
    listener_.note(
        "", fmt::format("warning: {} sequences before step {} are left out: no token of their "
                        "steps is a target",
                        ready->batch.left_out, progress_.steps + 1));
  RunProgress after = progress_;
  ++after.steps;
  after.tokens += total_tokens(lengths_of(ready->batch.sequences));
  if (limits_.allow_another(after)) maker_->start(followed_speeds());
  CompletedStep done = run(*std::move(ready), OptimizerUpdate{config_.train, progress_.steps});
  done.step = progress_.steps;
  require_sound(done.result, weights_origin(), learning_rate(config_.train, done.step));
  progress_ = after;
  progress_.limit = limits_.token_limit_reached(progress_);
  watch(done);
  return done;
}

WeightsOrigin TrainingRun::weights_origin() const {
  return {given_weights_, progress_.steps > 0};
}

RankSpeeds TrainingRun::followed_speeds() const {
  return config_.parallel.follow_speed ? speeds_.speeds() : RankSpeeds{};
}

void TrainingRun::watch(const CompletedStep& done) {
  if (!agreement_.first()) return;
  const RunnablePlan& planned = done.ready.planned;
  const Timeline& timeline = done.result.timeline;
  const auto measured = [&] { return measured_speeds(planned, cost_of(done.ready), timeline); };
  if (const auto drift = drift_.add(planned.prediction.makespan, metrics_of(timeline).makespan,
                                    planned.speed, measured))
    listener_.note("", "warning: " + *drift);
  if (config_.parallel.follow_speed && speeds_.add(measured()))
    listener_.note("speed", "plans follow the ranks' speeds: " + speeds_text(speeds_.speeds()));
}

bool TrainingRun::evaluation_due() const {
  return evaluation_ && limits_.evaluation_due(progress_, config_.evaluation.every);
}

std::vector<EvaluationResult> TrainingRun::evaluate() {
  auto results = evaluation_->run(*engine_, [this] { agreement_.require_no_stop(); });
  for (const EvaluationResult& result : results)
    require_sound_evaluation(result.loss, weights_origin());
  progress_.evaluated_steps = progress_.steps;
  return results;
}

ReadyStep TrainingRun::planned_again(const StepBatch& batch, PlannerKind planner) const {
  return maker_->again(batch, planner);
}

StepResult TrainingRun::rerun(const ReadyStep& ready, ClockKind clock) {
  return engine_->run(ready.planned.plan, ready.planned.lowered, ready.batch.tokens, std::nullopt,
                      clock);
}

CompletedStep TrainingRun::run(ReadyStep ready, const OptimizerUpdate& update) {
  CompletedStep done;
  done.result = engine_->run(ready.planned.plan, ready.planned.lowered, ready.batch.tokens, update);
  done.ready = std::move(ready);
  return done;
}

}  // namespace slimpack
