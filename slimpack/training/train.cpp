#include "slimpack/training/train.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/output_lock.h"
#include "slimpack/base/progress.h"
#include "slimpack/job/configured_sequences.h"
#include "slimpack/packflow/checkpoint/checkpoint_writer.h"
#include "slimpack/packflow/fused/fused.h"
#include "slimpack/packflow/parameters/optimizer.h"
#include "slimpack/run/log_process.h"
#include "slimpack/run/metrics_file.h"
#include "slimpack/run/step_files.h"
#include "slimpack/training/run_summary.h"
#include "slimpack/training/training_run.h"

namespace slimpack {
namespace {

constexpr const char* kOutput = "output.dir";
/// Only the steps after a checkpoint show that training goes on from its weights. Until then the
/// one before stays.
constexpr std::int32_t kKeptWhileTraining = 2;

/// The lock of a run's output folder. In a job of several processes only the first takes it. If it
/// fails, all of them throw the same error.
std::optional<OutputLock> lock_output(const std::filesystem::path& folder,
                                      const JobAgreement& agreement, TrainingListener& listener) {
  std::optional<OutputLock> lock;
  static_cast<void>(agreement.from_first([&]() -> std::string {
    lock.emplace(folder, kOutput, [&](const std::string& line) { listener.note("", line); });
    return "";
  }));
  return lock;
}

/// Sends the metrics of a run on, if the configuration says so. In a job of several processes only
/// the first one does. If it cannot, all of them throw the same error.
std::unique_ptr<LogProcess> start_log(const TrainRequest& request, const JobAgreement& agreement) {
  std::unique_ptr<LogProcess> log;
  const OutputConfig& output = request.config.output;
  if (output.log.empty()) return log;
  static_cast<void>(agreement.from_first([&]() -> std::string {
    log = std::make_unique<LogProcess>(
        LogOrder{request.log_command, output.log, output.dir, run_config_to_toml(request.config)});
    return "";
  }));
  return log;
}

/// The kernel that runs, and whether plans count another one's memory.
std::string attention_text(const KernelChoice& kernel, const Costs& cost) {
  if (!cost.device.gpu || kernel.flash_release == 0 ||
      cost.device.gpu->flash_attention == kernel.flash_release)
    return kernel.text;
  return fmt::format(
      "{}; plans count memory of FlashAttention-{}: set hardware.flash_attention to {}, or measure "
      "again with slimpack profile",
      kernel.text, cost.device.gpu->flash_attention, kernel.flash_release);
}

/// Names the kernels of work that is neither a product nor attention, and says if plans count
/// others.
std::string elementwise_text(bool fused, const Costs& cost) {
  const std::string text =
      fused ? "fused" : "libtorch's: the build found no nvcc (docs/devices.md)";
  if (!cost.device.gpu || cost.device.gpu->fused_kernels == fused) return text;
  return fmt::format(
      "{}; plans count {}: set hardware.fused_kernels to {}, or measure again with slimpack "
      "profile",
      text, fused ? "libtorch's" : "fused ones", fused);
}

void describe(TrainingRun& run, const RunConfig& config, TrainingListener& listener) {
  const EngineOptions& options = run.engine().options();
  std::string layers;
  for (std::int32_t s = 0; s < options.layout.stages(); ++s)
    layers += fmt::format("{}{}", s == 0 ? "" : " + ", options.layout.layers(StageId(s)));
  const std::int32_t per_rank = options.layout.placement.stages_per_rank();
  std::string held = per_rank > 1 ? fmt::format(" with {} stages each", per_rank) : "";
  if (options.layout.spread_vocabulary) held += ", which share the vocabulary,";
  listener.note(
      "model",
      fmt::format("{} parameters, {} layers on pp {}{} × dp {} × tp {} ({} on {}), {}; times by "
                  "the {} clock",
                  human_count(static_cast<double>(options.shape.parameters())), layers,
                  options.layout.ranks(), held, options.replicas, options.tensor,
                  options.process == nullptr ? "threads" : "processes", options.device.str(),
                  to_string(options.dtype), to_string(options.clock)));
  if (!options.device.is_cpu()) {
    listener.note("attention", attention_text(run.engine().attention_kernel(), run.cost()));
    if (options.dtype == Dtype::kBf16)
      listener.note("elementwise",
                    elementwise_text(fused::are_there_on(options.device), run.cost()));
    listener.note("model", options.deterministic
                               ? "runs repeat bit by bit, with a slower attention backward"
                               : "runs repeat up to rounding; train.deterministic = true fixes the "
                                 "order of sums, with a slower attention backward");
  }
  const Mixture mixture = configured_mixture(config.data, run.reader().lengths());
  for (const std::string& line : data_texts(config.data, mixture)) listener.note("data", line);
  for (const std::string& change : run.changed_settings()) listener.note("resume", change);
  listener.note("cost", fmt::format("{}; planner: {}", run.cost().origin.source,
                                    to_string(config.plan.planner)));
}

StepFigures figures_of(const CompletedStep& step, const Costs& cost, const TrainConfig& config) {
  StepFigures f = figures_of(step.ready.batch.sequences, cost, step.ready.planned.prediction,
                             step.result.timeline);
  f.step = step.step + 1;
  f.loss = step.result.loss;
  f.targets = step.ready.batch.tokens.targets;
  f.left_out = step.ready.batch.left_out;
  f.gradient_norm = step.result.gradient_norm;
  f.learning_rate = learning_rate(config, step.step);
  f.clock = config.clock;
  f.reading_time = step.ready.reading_time;
  f.planning_time = step.ready.planning_time;
  f.planning_wait = step.ready.waited;
  return f;
}

/// Runs the steps of a run, saves and reports them, and makes the run's result.
class Training {
 public:
  Training(const TrainRequest& request, TrainingRun& run, ModelFiles model_files,
           const JobAgreement& agreement, TrainingListener& listener)
      : request_(request),
        run_(run),
        writer_(run.engine(), checkpoints_folder(request.config),
                std::max(request.config.checkpoint.keep_last, kKeptWhileTraining),
                std::move(model_files)),
        agreement_(agreement),
        listener_(listener) {}

  [[nodiscard]] TrainingResult result() {
    const bool interrupted = !train_steps();
    if (!last_) return without_step(interrupted);
    save();
    writer_.finish();
    if (run_.steps_done() == config().train.steps) prune(run_.steps_done());
    const std::filesystem::path checkpoint = writer_.folder_of(run_.steps_done());
    const std::filesystem::path& folder = config().output.dir;
    summary_.written = {checkpoint, folder / "metrics.jsonl"};
    if (agreement_.first())
      for (auto& file : write_step_files(folder, plan_of_last(), measured_last()))
        summary_.written.push_back(std::move(file));
    // Several processes agree on a stop only before a step. A request after the last one is
    // ignored.
    const auto stopped = [&] {
      return interrupted || (agreement_.alone() && agreement_.should_stop()());
    };
    const bool limited = !run_.limit_reached().empty();
    if (request_.against_packed && !stopped() && !limited) compare();
    // A scheduler that stops a run waits for no report; 'slimpack report' makes it later.
    if (agreement_.first() && !request_.report.empty() && !stopped())
      summary_.written.push_back(write_report(folder, request_.report));
    const auto ended = [&](std::string_view why, std::string_view where) {
      return fmt::format("{} after {} of {} steps; {} has them, --resume auto goes on{}", why,
                         run_.steps_done(), config().train.steps, checkpoint.string(), where);
    };
    TrainingResult result;
    if (agreement_.first()) result.summary = std::move(summary_);
    if (stopped()) {
      result.end = TrainingResult::End::kStopped;
      result.message = ended("stopped on request", "");
    } else if (limited) {
      result.end = TrainingResult::End::kLimit;
      result.message = ended(run_.limit_reached(), " where limits allow");
    }
    return result;
  }

 private:
  [[nodiscard]] const RunConfig& config() const { return request_.config; }

  /// Trains, evaluates and saves. False if the run was asked to stop.
  [[nodiscard]] bool train_steps() {
    MetricsFile metrics(config().output.dir);
    const std::int64_t done_before = run_.steps_done();
    const std::int64_t every = config().checkpoint.every;
    try {
      evaluate_if_due(metrics);
      const Nanos start = monotonic_now();
      while (auto step = next_step()) {
        last_ = std::move(step);
        if (agreement_.first()) {
          summary_.steps.push_back(figures_of(*last_, run_.cost_of(last_->ready), config().train));
          metrics.add(summary_.steps.back());
          listener_.step(summary_.steps.back(),
                         {done_before, config().train.steps, monotonic_now() - start});
        }
        evaluate_if_due(metrics);
        writer_.require_sound();
        if (every > 0 && run_.steps_done() % every == 0) save();
      }
      evaluate_if_due(metrics);  // time may have ended the run before a step
    } catch (const Interrupted&) {
      // Weights change only at the end of a step, on all ranks. So they are those of the last
      // complete step.
      return false;
    }
    return true;
  }

  /// Saves the weights of the last step, once the save before is complete. Other steps have gone on
  /// from that one, so the checkpoints before it may go.
  void save() {
    writer_.finish();
    if (saved_) prune(*saved_);
    writer_.save(run_.checkpoint_after(*last_));
    saved_ = run_.steps_done();
  }

  /// Leaves as many checkpoints up to `steps` as the configuration says.
  void prune(std::int64_t steps) const {
    if (agreement_.first())
      prune_checkpoints(checkpoints_folder(config()), steps, config().checkpoint.keep_last);
  }

  /// The next step, if there is one. A bad document may be found late; then it saves the steps
  /// before and throws.
  [[nodiscard]] std::optional<CompletedStep> next_step() {
    std::string failure;
    try {
      return run_.next();
    } catch (const Diverged& e) {
      end_diverged(e);
    } catch (const InvalidInput& e) {
      failure = failure_text(e);
    } catch (const RunFailed& e) {
      failure = failure_text(e);
    }
    if (!last_) throw_failure(failure);
    save();
    writer_.finish();
    throw_failure(failure,
                  fmt::format(" (after {} of {} steps, saved in {})", run_.steps_done(),
                              config().train.steps, writer_.folder_of(run_.steps_done()).string()));
  }

  [[nodiscard]] std::vector<EvaluationResult> evaluate() try {
    return run_.evaluate();
  } catch (const Diverged& e) {
    end_diverged(e);
  }

  /// Throws the failure, and says where training can go on. Weights from which no step succeeds are
  /// not saved. If they were already, their checkpoint is set aside, so that --resume auto takes
  /// the one before.
  [[noreturn]] void end_diverged(const Diverged& failure) {
    writer_.finish();
    throw_failure(failure_text(failure), agreement_.from_first([&]() -> std::string {
      const std::filesystem::path folder = checkpoints_folder(config());
      std::string text =
          fmt::format(" (after {} of {} steps", run_.steps_done(), config().train.steps);
      if (!failure.from_sound_weights())
        if (const auto aside = set_aside_checkpoint(folder, run_.steps_done()))
          text += fmt::format("; {} leads nowhere and is {} now",
                              checkpoint_name(run_.steps_done()), aside->filename().string());
      const std::vector<std::int64_t> left = checkpoints_in(folder);
      if (!left.empty())
        text += fmt::format("; --resume auto goes on from {}",
                            (folder / checkpoint_name(left.back())).string());
      else if (run_.steps_done() > 0)
        text += "; no checkpoint was saved before, set checkpoint.every";
      return text + ")";
    }));
  }

  [[nodiscard]] PlanFile plan_of_last() const {
    return {last_->ready.planned, run_.cost_of(last_->ready), run_.plan_limits()};
  }

  [[nodiscard]] MeasuredStep measured_last() const {
    const EngineOptions& options = run_.engine().options();
    return {.step = last_->step + 1,
            .clock = options.clock,
            .device = options.device.str(),
            .planner = std::string(to_string(config().plan.planner)),
            .sequences = last_->ready.batch.sequences,
            .timeline = last_->result.timeline};
  }

  void evaluate_if_due(MetricsFile& metrics) {
    if (!run_.evaluation_due()) return;
    for (EvaluationResult& result : evaluate()) {
      if (!agreement_.first()) continue;
      summary_.evaluations.push_back({run_.steps_done(), std::move(result)});
      metrics.add(summary_.evaluations.back());
      listener_.evaluation(summary_.evaluations.back());
    }
  }

  /// Runs the last step's documents again, as planned and packed, unless it is stopped.
  void compare() {
    try {
      ComparedTurns turns = compare_by_turns(*last_, run_, config(), agreement_, listener_);
      if (!agreement_.first()) return;
      MeasuredStep measured = measured_last();
      measured.compared = turns;
      write_measured(config().output.dir, measured);
      summary_.compared = std::move(turns);
    } catch (const Interrupted&) {  // the run's files are those of a run without a comparison
    }
  }

  [[nodiscard]] TrainingResult without_step(bool interrupted) const {
    if (interrupted)
      return {TrainingResult::End::kStopped,
              "stopped on request before a step was done; nothing saved"};
    return {TrainingResult::End::kLimit, fmt::format("{} already after {} steps; raise it to go on",
                                                     run_.limit_reached(), run_.steps_done())};
  }

  const TrainRequest& request_;
  TrainingRun& run_;
  CheckpointWriter writer_;
  const JobAgreement& agreement_;
  TrainingListener& listener_;
  RunSummary summary_;
  std::optional<CompletedStep> last_;  ///< the last completed step, if any
  std::optional<std::int64_t> saved_;  ///< steps done at the last save of this start
};

}  // namespace

TrainingResult train(const TrainRequest& request, TrainingListener& listener,
                     const std::function<bool()>& should_stop, JobProcess* process) try {
  const RunConfig& config = request.config;
  const JobAgreement agreement(process, should_stop);
  require_writable_folder(checkpoints_folder(config), kOutput);
  const auto lock = lock_output(config.output.dir, agreement, listener);
  const auto log = start_log(request, agreement);
  const TrainingStart start =
      choose_start(request.resume, request.init, config, agreement, listener);
  ModelFiles model_files = files_of(start, config);
  TrainingRun run(config, start, agreement, listener, {.kept_cost = config.output.dir / kCostFile});
  if (agreement.first()) describe(run, config, listener);
  TrainingResult result;
  if (run.steps_done() < config.train.steps)  // else choose_start has told the listener
    result = Training(request, run, std::move(model_files), agreement, listener).result();
  if (log)
    if (const std::string line = log->finish(); !line.empty())
      listener.note(
          "", fmt::format("warning: {}; python -m slimpack.log {} --to {} sends the rest", line,
                          config.output.dir.string(), fmt::join(config.output.log, ",")));
  return result;
} catch (const Interrupted& e) {
  // A stop before the first step. Later stops return a result that says what was saved.
  return {TrainingResult::End::kStopped, e.what()};
}

}  // namespace slimpack
