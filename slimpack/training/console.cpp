#include "slimpack/training/console.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>

#include "slimpack/base/error.h"
#include "slimpack/base/standard_streams.h"
#include "slimpack/base/table.h"
#include "slimpack/run/step_figures.h"

namespace slimpack {
namespace {

// A signal handler can only reach globals.
std::atomic<int> caught{0};

void request_stop(int signal) {
  caught = signal;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
}

int stop_signal() {
  return caught;
}

namespace {

/// Work that takes less writes no last line of progress.
constexpr Nanos kLong(1'000'000'000);

}  // namespace

void MeasuringLine::tell(std::string_view part, std::int64_t done, std::int64_t all) {
  if (done == 1) {
    start_ = monotonic_now();
    line_.emplace(out_, progress_style(out_), fmt::format("measuring the {}", part), all);
  }
  line_->advance();
  if (done < all) return;
  if (monotonic_now() - start_ >= kLong) line_->finish();
  line_.reset();
}

void Console::note(std::string_view topic, const std::string& text) {
  const std::string line = topic.empty() ? text : fmt::format("{}: {}", topic, text);
  // Folded lines are indented to the end of the topic.
  const int indent = topic.empty() ? 0 : static_cast<int>(topic.size()) + 2;
  fmt::print(out_, "{}\n", folded(line, output_columns(out_), indent));
}

void Console::tokens_checked(const std::filesystem::path& prefix, Tokens checked, Tokens all) {
  if (!check_)
    check_.reset(
        new Check{monotonic_now(), Tokens(0),
                  Progress(out_, progress_style(out_),
                           fmt::format("checking tokens of {}", prefix.string()), all.count())});
  if (checked > check_->checked) check_->progress.advance((checked - check_->checked).count());
  check_->checked = checked;
  if (checked < all) return;
  if (monotonic_now() - check_->start >= kLong) check_->progress.finish();
  check_.reset();
}

void Console::step(const StepFigures& figures, const StepPlace& place) {
  fmt::print(out_, "{}\n", step_line(figures, place, output_columns(out_)));
  std::fflush(out_);
}

void Console::evaluation(const EvaluationFigures& f) {
  fmt::print(out_, "{}\n", folded(evaluation_line(f), output_columns(out_)));
  std::fflush(out_);
}

void train_at_console(const TrainRequest& request, JobProcess* process) {
  catch_stop_signals();
  TrainingResult result;
  {
    Console console(stderr);  // destroyed before the last lines: it may have an unfinished line
    result = train(
        request, console, [] { return stop_signal() != 0; }, process);
  }
  if (result.summary) fmt::print("{}", summary_text(*result.summary, output_columns(stdout)));
  // In a process that got no signal itself, a stopped run ends well.
  if (result.end == TrainingResult::End::kStopped && stop_signal() == SIGINT)
    throw Interrupted(result.message);
  if (speaks_for_job(process) && !result.message.empty()) say(result.message);
}

}  // namespace slimpack
