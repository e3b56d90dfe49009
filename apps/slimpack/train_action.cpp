#include <fmt/format.h>

#include <atomic>
#include <csignal>

#include "apps/slimpack/training_commands.h"
#include "apps/slimpack/training_log.h"
#include "apps/slimpack/training_run.h"
#include "apps/slimpack/training_start.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/packflow/checkpoint_writer.h"
#include "slimpack/trace/timeline.h"

namespace slimpack {
namespace {

// A signal handler can reach nothing but a global. 0 = go on.
std::atomic<int> stop_signal{0};

void request_stop(int signal) {
  stop_signal = signal;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
}

/// The end of a run that was asked to stop. SIGTERM comes from a scheduler, for which a run that
/// has saved what it did has ended well; a process that was not asked itself ends as well as the
/// others.
void end_stopped(const std::string& text, bool tells) {
  if (stop_signal == SIGINT) throw Interrupted(text);
  if (tells) fmt::print(stderr, "slimpack: {}\n", text);
}

void describe(TrainingRun& run, const RunConfig& config) {
  const EngineOptions& options = run.engine().options();
  std::string layers;
  for (std::int32_t s = 0; s < options.layout.stages(); ++s)
    layers += fmt::format("{}{}", s == 0 ? "" : " + ", options.layout.layers(StageId(s)));
  fmt::print(
      stderr,
      "model: {} parameters, {} layers on pp {} × dp {} × tp {} ({} on {}), {}; times by the "
      "{} clock\n",
      human_count(static_cast<double>(options.shape.parameters())), layers, options.layout.stages(),
      options.replicas, options.tensor, options.process == nullptr ? "threads" : "processes",
      options.device.str(), to_string(options.dtype), to_string(options.clock));
  fmt::print(stderr,
             "data: {} documents; {} are longer than the context and lose {} tokens an epoch\n",
             grouped(static_cast<std::int64_t>(run.dataset().documents())),
             grouped(run.truncation().documents),
             human_count(static_cast<double>(run.truncation().tokens.count())));
  fmt::print(stderr, "cost: {}; planner: {}\n", run.cost().source, to_string(config.plan.planner));
}

/// Predicted and measured timeline of a step, side by side in one file.
void write_timeline(const std::filesystem::path& file, const CompletedStep& step,
                    const CostModel& cost) {
  write_file(file,
             to_chrome_trace({predict(step.ready.planned, cost).timeline, step.result.timeline}));
}

/// The next step. Documents that cannot be trained on may come late: then the steps before are
/// saved.
CompletedStep next_step(TrainingRun& run, const RunConfig& config, CheckpointWriter& writer,
                        const std::optional<CompletedStep>& last) {
  try {
    return run.next();
  } catch (const InvalidInput& e) {
    if (!last) throw;
    writer.save(run.checkpoint_after(*last));
    writer.finish();
    invalid_input("{} (after {} of {} steps, saved in {})", e.what(), run.steps_done(),
                  config.train.steps, writer.folder_of(run.steps_done()).string());
  }
}

/// Trains until the last step or a stop request, saving on the way; returns the last completed
/// step, if there is one.
std::optional<CompletedStep> train_steps(TrainingRun& run, const RunConfig& config, bool tells,
                                         CheckpointWriter& writer, RunSummary& summary) {
  TrainingLog log(config.output.dir, run.steps_done(), config.train.steps, stderr);
  const std::int64_t every = config.checkpoint.every;
  std::optional<CompletedStep> last;
  try {
    while (run.steps_done() < config.train.steps) {
      last = next_step(run, config, writer, last);
      if (tells) {
        summary.steps.push_back(figures_of(*last, config.train));
        log.step(summary.steps.back());
      }
      writer.require_sound();
      if (every > 0 && run.steps_done() % every == 0) writer.save(run.checkpoint_after(*last));
    }
  } catch (const Interrupted&) {
    // Weights change only at the end of a step, on all ranks: they are those of the last full one.
  }
  return last;
}

/// Runs the last step's documents again, as planned and packed; unless stopped.
void compare(TrainingRun& run, const RunConfig& config, const StepBatch& batch, bool tells,
             RunSummary& summary) {
  try {
    const CompletedStep sliced = run.rerun(batch, config.plan.planner);
    const CompletedStep packed = run.rerun(batch, PlannerKind::kPacked);
    if (!tells) return;
    summary.sliced = figures_of(sliced, config.train);
    summary.packed = figures_of(packed, config.train);
  } catch (const Interrupted&) {
    summary.sliced.reset();
  }
}

}  // namespace

void train(const TrainArguments& arguments, JobProcess* process) {
  RunConfig config = read_run_config(arguments.config, arguments.overrides);
  if (!arguments.clock.empty())
    config.train.clock = arguments.clock == "virtual" ? ClockKind::kVirtual : ClockKind::kWall;
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const auto& folder = config.output.dir;
  require_writable_folder(checkpoints_folder(config));
  const TrainingStart start = choose_start(arguments, config, process);
  TrainingRun run(
      config, start, [] { return stop_signal != 0; }, process);
  // What is measured comes together in the process of the first rank.
  const bool tells = process == nullptr || process->ranks().front() == 0;
  if (tells) describe(run, config);
  if (run.steps_done() == config.train.steps) return;  // said by choose_start

  CheckpointWriter writer(run.engine(), checkpoints_folder(config), config.checkpoint.keep_last);
  RunSummary summary;
  const auto last = train_steps(run, config, tells, writer, summary);
  if (!last)
    return end_stopped("stopped on request before a step was done; nothing written", tells);
  writer.save(run.checkpoint_after(*last));
  writer.finish();
  const auto checkpoint = writer.folder_of(run.steps_done());
  if (tells) write_timeline(folder / "timeline.json", *last, run.cost());
  summary.written = {checkpoint, folder / "metrics.jsonl", folder / "timeline.json"};
  // Processes have agreed on a stop in front of a step; a request that comes later is too late.
  const auto stopped = [&] {
    return run.steps_done() < config.train.steps || (process == nullptr && stop_signal != 0);
  };
  if (!arguments.against.empty() && !stopped())
    compare(run, config, last->ready.batch, tells, summary);
  if (tells) fmt::print("{}", summary_text(summary));
  if (stopped())
    end_stopped(fmt::format("stopped on request after {} of {} steps; {} has them, --resume auto "
                            "goes on",
                            run.steps_done(), config.train.steps, checkpoint.string()),
                tells);
}

}  // namespace slimpack
