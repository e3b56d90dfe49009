#include <fmt/format.h>

#include <atomic>
#include <csignal>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/slimpack/configured_sequences.h"
#include "apps/slimpack/output_lock.h"
#include "apps/slimpack/run_summary.h"
#include "apps/slimpack/step_figures.h"
#include "apps/slimpack/training_commands.h"
#include "apps/slimpack/training_log.h"
#include "apps/slimpack/training_run.h"
#include "apps/slimpack/training_start.h"
#include "slimpack/base/columns.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/human.h"
#include "slimpack/packflow/checkpoint/checkpoint_writer.h"
#include "slimpack/plan/pack_texts.h"
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

/// "model: …" on stderr; on a terminal its words keep right of the topic.
void tell(std::string_view topic, const std::string& text) {
  fmt::print(stderr, "{}\n",
             folded(fmt::format("{}: {}", topic, text), output_columns(stderr),
                    static_cast<int>(topic.size()) + 2));
}

void describe(TrainingRun& run, const RunConfig& config) {
  const EngineOptions& options = run.engine().options();
  std::string layers;
  for (std::int32_t s = 0; s < options.layout.stages(); ++s)
    layers += fmt::format("{}{}", s == 0 ? "" : " + ", options.layout.layers(StageId(s)));
  tell("model",
       fmt::format("{} parameters, {} layers on pp {} × dp {} × tp {} ({} on {}), {}; times by the "
                   "{} clock",
                   human_count(static_cast<double>(options.shape.parameters())), layers,
                   options.layout.stages(), options.replicas, options.tensor,
                   options.process == nullptr ? "threads" : "processes", options.device.str(),
                   to_string(options.dtype), to_string(options.clock)));
  const std::vector<Tokens> documents = run.dataset().lengths();
  tell("data", long_documents_text(documents, configured_sequences(config.data)));
  for (const std::string& change : run.changed_settings()) tell("resume", change);
  tell("cost", fmt::format("{}; planner: {}", run.cost().source, to_string(config.plan.planner)));
}

/// Predicted and measured timeline of a step, side by side in one file.
void write_timeline(const std::filesystem::path& file, const CompletedStep& step,
                    const Costs& cost) {
  const std::vector<DocumentSequence>& sequences = step.ready.batch.sequences;
  const auto text = [&](SequenceId sequence, Tokens begin, Tokens end) {
    const DocumentSequence& s = sequences[sequence.index()];
    return fmt::format("document {} [{}, {})", s.document, (s.begin + begin).count(),
                       (s.begin + end).count());
  };
  write_file(
      file, to_chrome_trace({with_tensor_ranks(predict(step.ready.planned, cost).timeline, cost.tp),
                             step.result.timeline},
                            pack_texts(step.ready.planned.plan, text)));
}

/// The next step, if one comes. Documents that cannot be trained on may come late, and training may
/// diverge: then the steps before are saved.
std::optional<CompletedStep> next_step(TrainingRun& run, const RunConfig& config,
                                       CheckpointWriter& writer,
                                       const std::optional<CompletedStep>& last) {
  std::string failure;
  try {
    return run.next();
  } catch (const InvalidInput& e) {
    failure = failure_text(e);
  } catch (const RunFailed& e) {
    failure = failure_text(e);
  }
  if (!last) throw_failure(failure);
  writer.save(run.checkpoint_after(*last));
  writer.finish();
  throw_failure(failure,
                fmt::format(" (after {} of {} steps, saved in {})", run.steps_done(),
                            config.train.steps, writer.folder_of(run.steps_done()).string()));
}

void evaluate_if_due(TrainingRun& run, bool tells, TrainingLog& log, RunSummary& summary) {
  if (!run.evaluation_due()) return;
  const EvaluationResult result = run.evaluate();
  if (!tells) return;
  summary.evaluations.push_back({run.steps_done(), result});
  log.evaluation(summary.evaluations.back());
}

struct TrainingEnd {
  std::optional<CompletedStep> last;  ///< completed, if any
  bool interrupted = false;           ///< by a stop request
};

/// Trains and evaluates until the last step, a limit or a stop request, saving on the way.
TrainingEnd train_steps(TrainingRun& run, const RunConfig& config, bool tells,
                        CheckpointWriter& writer, RunSummary& summary) {
  TrainingLog log(config.output.dir, run.steps_done(), config.train.steps, stderr);
  const std::int64_t every = config.checkpoint.every;
  TrainingEnd end;
  try {
    evaluate_if_due(run, tells, log, summary);
    while (auto step = next_step(run, config, writer, end.last)) {
      end.last = std::move(step);
      if (tells) {
        summary.steps.push_back(figures_of(*end.last, config.train));
        log.step(summary.steps.back());
      }
      evaluate_if_due(run, tells, log, summary);
      writer.require_sound();
      if (every > 0 && run.steps_done() % every == 0) writer.save(run.checkpoint_after(*end.last));
    }
    evaluate_if_due(run, tells, log, summary);  // time may end the run in front of a step
  } catch (const Interrupted&) {
    // Weights change only at the end of a step, on all ranks: they are those of the last full one.
    end.interrupted = true;
  }
  return end;
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

void end_without_step(const TrainingRun& run, const TrainingEnd& end, bool tells) {
  if (end.interrupted)
    return end_stopped("stopped on request before a step was done; nothing saved", tells);
  if (tells)
    fmt::print(stderr, "slimpack: {} already after {} steps; raise it to go on\n",
               run.limit_reached(), run.steps_done());
}

}  // namespace

void train(const TrainArguments& arguments, JobProcess* process) try {
  RunConfig config = read_run_config(arguments.config, arguments.overrides);
  if (!arguments.clock.empty())
    config.train.clock = arguments.clock == "virtual" ? ClockKind::kVirtual : ClockKind::kWall;
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
  const auto& folder = config.output.dir;
  require_writable_folder(checkpoints_folder(config));
  const auto lock = lock_output(folder, process);
  const TrainingStart start = choose_start(arguments, config, process);
  ModelFiles model_files = files_of(start, config);
  TrainingRun run(
      config, start, [] { return stop_signal != 0; }, process);
  // What is measured comes together in the process of the first rank.
  const bool tells = process == nullptr || process->ranks().front() == 0;
  if (tells) describe(run, config);
  if (run.steps_done() == config.train.steps) return;  // said by choose_start

  CheckpointWriter writer(run.engine(), checkpoints_folder(config), config.checkpoint.keep_last,
                          std::move(model_files));
  RunSummary summary;
  const TrainingEnd end = train_steps(run, config, tells, writer, summary);
  if (!end.last) return end_without_step(run, end, tells);
  writer.save(run.checkpoint_after(*end.last));
  writer.finish();
  const auto checkpoint = writer.folder_of(run.steps_done());
  if (tells) write_timeline(folder / "timeline.json", *end.last, run.cost());
  summary.written = {checkpoint, folder / "metrics.jsonl", folder / "timeline.json"};
  // Processes agree on a stop in front of steps; a request that comes later is too late.
  const auto stopped = [&] { return end.interrupted || (process == nullptr && stop_signal != 0); };
  if (!arguments.against.empty() && !stopped() && run.limit_reached().empty())
    compare(run, config, end.last->ready.batch, tells, summary);
  if (tells) fmt::print("{}", summary_text(summary, output_columns(stdout)));
  const auto ended = [&](std::string_view why, std::string_view where) {
    return fmt::format("{} after {} of {} steps; {} has them, --resume auto goes on{}", why,
                       run.steps_done(), config.train.steps, checkpoint.string(), where);
  };
  if (stopped())
    end_stopped(ended("stopped on request", ""), tells);
  else if (!run.limit_reached().empty() && tells)
    fmt::print(stderr, "slimpack: {}\n", ended(run.limit_reached(), " where limits allow"));
} catch (const Interrupted& e) {
  // By SIGTERM only before the first step: later ones are told with what they have saved.
  end_stopped(e.what(), process == nullptr || process->ranks().front() == 0);
}

}  // namespace slimpack
