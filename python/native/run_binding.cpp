// The rules of a training run that `slimpack train` follows, too.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/native/bindings.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/table.h"
#include "slimpack/report/training_curve.h"
#include "slimpack/run/log_process.h"
#include "slimpack/run/metrics_file.h"
#include "slimpack/run/run_limits.h"
#include "slimpack/run/step_figures.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

void make_limits(RunLimits* limits, std::int64_t first_step, std::int64_t steps,
                 std::optional<std::int64_t> max_tokens, std::optional<double> max_seconds) {
  TrainConfig train;
  train.steps = steps;
  train.max_tokens = Tokens(max_tokens.value_or(0));
  train.max_seconds = max_seconds.value_or(0);
  new (limits) RunLimits(train, first_step, monotonic_now, "");
}

RunProgress progress_of(std::int64_t steps, std::int64_t tokens) {
  return {.steps = steps, .tokens = Tokens(tokens)};
}

/// A figure in a line of metrics.jsonl.
template <class T>
T figure(const nb::dict& line, const char* name) {
  return nb::cast<T>(line[name]);
}

std::string line_of_step(const nb::dict& line, std::int64_t done_before, std::int64_t steps,
                         std::int64_t elapsed_ns, std::optional<int> columns) {
  StepFigures f;
  f.step = figure<std::int64_t>(line, "step");
  f.loss = figure<double>(line, "loss");
  f.documents = figure<std::int64_t>(line, "documents");
  f.sequences = figure<std::int64_t>(line, "sequences");
  f.tokens = Tokens(figure<std::int64_t>(line, "tokens"));
  f.targets = figure<std::int64_t>(line, "targets");
  if (line.contains("mfu")) f.mfu = figure<double>(line, "mfu");
  f.step_time = Nanos(figure<std::int64_t>(line, "step_ns"));
  f.bubble = figure<double>(line, "bubble");
  f.predicted_bubble = figure<double>(line, "predicted_bubble");
  for (const auto bytes : figure<std::vector<std::int64_t>>(line, "peak_activation_bytes"))
    f.peak_activation.emplace_back(bytes);
  f.planning_wait = Nanos(figure<std::int64_t>(line, "planning_wait_ns"));
  return step_line(f, {done_before, steps, Nanos(elapsed_ns)}, columns.value_or(kAnyColumns));
}

std::string figures_of_evaluation(std::int64_t step, double loss, std::int64_t documents,
                                  std::int64_t tokens, std::int64_t nanoseconds, std::string name) {
  return json_text(to_json(EvaluationFigures{step,
                                             {.loss = loss,
                                              .documents = documents,
                                              .tokens = Tokens(tokens),
                                              .time = Nanos(nanoseconds),
                                              .name = std::move(name)}}));
}

void make_log(LogProcess* log, std::vector<std::string> command, std::vector<std::string> names,
              std::filesystem::path folder, std::string settings) {
  new (log)
      LogProcess({std::move(command), std::move(names), std::move(folder), std::move(settings)});
}

std::string line_of_evaluation(const nb::dict& line) {
  return evaluation_line(
      {figure<std::int64_t>(line, "step"),
       {.loss = figure<double>(line, kEvaluationLoss),
        .documents = figure<std::int64_t>(line, "evaluation_documents"),
        .tokens = Tokens(figure<std::int64_t>(line, "evaluation_tokens")),
        .time = Nanos(figure<std::int64_t>(line, "evaluation_ns")),
        .name = line.contains(kEvaluationName) ? figure<std::string>(line, kEvaluationName) : ""}});
}

void bind_metrics(nb::module_& m) {
  nb::class_<MetricsFile>(
      m, "MetricsFile",
      "metrics.jsonl in a folder. The first line that is added replaces those of "
      "its place and of later ones.")
      .def(nb::init<const std::filesystem::path&, std::string>(), "folder"_a, "elsewhere"_a,
           "elsewhere: the remedy where nothing can be written.")
      .def(
          "add",
          [](MetricsFile& file, std::string line, std::int64_t step, bool evaluation) {
            file.add_line({step, evaluation}, std::move(line));
          },
          "line"_a, "step"_a, "evaluation"_a,
          "Writes a JSON object. Raises InvalidInput or RuntimeError where that fails; the file "
          "then ends with the line before.");
  nb::class_<LogProcess>(m, "LogProcess",
                         "A child process that sends a run's metrics on while it goes on.")
      .def("__init__", &make_log, "command"_a, "names"_a, "folder"_a, "settings"_a,
           nb::call_guard<nb::gil_scoped_release>(),
           "command: starts the module slimpack.log. names: of the logs. settings: of the run, as "
           "TOML. Waits until the child has its libraries. Raises InvalidInput where one is "
           "missing.")
      .def("finish", &LogProcess::finish, "well"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Waits a minute at most until the child has sent the rest. Returns what went wrong, or "
           "nothing. well: whether training has ended well.");
  m.def("step_line", &line_of_step, "line"_a, "done_before"_a, "steps"_a, "elapsed_ns"_a,
        "columns"_a.none(),
        "A line of a step in metrics.jsonl for people, with as many figures as fit. done_before: "
        "steps before this start; steps: of the run; elapsed_ns: of this start.");
  m.def(
      "evaluation_figures", &figures_of_evaluation, "step"_a, "loss"_a, "documents"_a, "tokens"_a,
      "nanoseconds"_a, "name"_a = "",
      "A line of an evaluation in metrics.jsonl, without the time at which it is written. name: of "
      "the held-out set, if there are several.");
  m.def("evaluation_line", &line_of_evaluation, "line"_a,
        "A line of an evaluation in metrics.jsonl for people.");
}

}  // namespace

void bind_run(nb::module_& m) {
  bind_metrics(m);
  nb::class_<RunLimits>(m, "RunLimits", "The limits of one start of a run, whose time begins now.")
      .def("__init__", &make_limits, "first_step"_a, "steps"_a, "max_tokens"_a.none(),
           "max_seconds"_a.none(), "None = no limit.")
      .def(
          "allow_another",
          [](const RunLimits& limits, std::int64_t steps, std::int64_t tokens) {
            return limits.allow_another(progress_of(steps, tokens));
          },
          "steps"_a, "tokens"_a, "Whether steps and tokens done allow another step.")
      .def(
          "out_of_time",
          [](const RunLimits& limits, std::int64_t steps) {
            return limits.out_of_time(progress_of(steps, 0));
          },
          "steps"_a, "Whether time is over; never before the first step of a start.")
      .def(
          "token_limit_reached",
          [](const RunLimits& limits, std::int64_t steps, std::int64_t tokens) {
            return limits.token_limit_reached(progress_of(steps, tokens));
          },
          "steps"_a, "tokens"_a, "What ends the run; empty where that does not.")
      .def("time_limit_reached", &RunLimits::time_limit_reached)
      .def(
          "evaluation_due",
          [](const RunLimits& limits, std::int64_t steps, std::optional<std::int64_t> evaluated,
             std::optional<std::string> limit, std::int64_t every) {
            return limits.evaluation_due({.steps = steps,
                                          .evaluated_steps = evaluated.value_or(-1),
                                          .limit = limit.value_or("")},
                                         every);
          },
          "steps"_a, "evaluated"_a.none(), "limit"_a.none(), "every"_a,
          "Whether to evaluate now. evaluated: steps done at the last evaluation. limit: what has "
          "ended the run. every: steps; 0 = at both ends alone.");
}

}  // namespace slimpack
