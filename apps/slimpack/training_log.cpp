#include "apps/slimpack/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "apps/slimpack/metrics_lines.h"
#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/output_error.h"
#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

constexpr std::string_view kElsewhere = "set output.dir to another folder";

std::vector<std::int64_t> counts(const std::vector<Bytes>& bytes) {
  std::vector<std::int64_t> result;
  for (const Bytes b : bytes) result.push_back(b.count());
  return result;
}

nlohmann::ordered_json to_json(const StepFigures& f) {
  return {{"step", f.step},
          {"loss", f.loss},
          {"gradient_norm", f.gradient_norm},
          {"learning_rate", f.learning_rate},
          {"documents", f.documents},
          {"tokens", f.tokens.count()},
          {"longest", f.longest.count()},
          {"clock", to_string(f.clock)},
          {"step_ns", f.step_time.count()},
          {"predicted_step_ns", f.predicted_time.count()},
          {"tokens_per_second", f.tokens_per_second()},
          {"bubble", f.bubble},
          {"predicted_bubble", f.predicted_bubble},
          {"peak_activation_bytes", counts(f.peak_activation)},
          {"predicted_peak_activation_bytes", counts(f.predicted_peak_activation)},
          {"planning_ns", f.planning_time.count()},
          {"planning_wait_ns", f.planning_wait.count()}};
}

nlohmann::ordered_json to_json(const EvaluationFigures& f) {
  return {{"step", f.step},
          {kEvaluationLoss, f.result.loss},
          {"evaluation_documents", f.result.documents},
          {"evaluation_tokens", f.result.tokens.count()},
          {"evaluation_ns", f.result.time.count()}};
}

}  // namespace

void require_writable_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::path existing = std::filesystem::absolute(folder);
  while (!std::filesystem::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  const char* const cause = !std::filesystem::is_directory(existing, error) ? "is not a folder"
                            : ::access(existing.c_str(), W_OK | X_OK) != 0  ? "cannot be written"
                                                                            : nullptr;
  if (cause != nullptr)
    invalid_input("cannot write into '{}': '{}' {}; set output.dir to another folder",
                  folder.string(), existing.string(), cause);
}

TrainingLog::TrainingLog(const std::filesystem::path& folder, std::int64_t first,
                         std::int64_t steps, std::FILE* out)
    : file_(folder / "metrics.jsonl"),
      first_(first),
      steps_(steps),
      out_(out),
      redraw_(progress_style(out) == ProgressStyle::kRedraw),
      start_(monotonic_now()) {}

void TrainingLog::open_metrics(const nlohmann::ordered_json& first_line) {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  std::ifstream earlier(file_);
  metrics_bytes_ = bytes_of_lines_before(first_line, earlier);
  if (metrics_bytes_ > 0) std::filesystem::resize_file(file_, metrics_bytes_, error);
  metrics_.open(file_, metrics_bytes_ > 0 ? std::ios::app : std::ios::trunc);
  if (!metrics_) output_failed("write", file_, errno, kElsewhere);
}

void TrainingLog::write(nlohmann::ordered_json line) {
  if (!metrics_.is_open()) open_metrics(line);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  line["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string text = line.dump() + '\n';
  metrics_ << text << std::flush;
  if (!metrics_) {
    const int cause = errno;
    std::error_code ignored;
    std::filesystem::resize_file(file_, metrics_bytes_, ignored);  // readers expect whole lines
    output_failed("write", file_, cause, kElsewhere);
  }
  metrics_bytes_ += text.size();
}

void TrainingLog::step(const StepFigures& figures) {
  write(to_json(figures));
  if (redraw_)
    // A line that wraps could not be redrawn.
    fmt::print(out_, "\r\033[K{:.{}}", line(figures), terminal_columns(out_) - 1);
  else
    fmt::print(out_, "{}\n", line(figures));
  std::fflush(out_);
  line_open_ = redraw_;
}

void TrainingLog::evaluation(const EvaluationFigures& f) {
  write(to_json(f));
  finish();
  fmt::print(out_, "evaluation after step {}: loss {:.4f} on {} tok in {} docs, took {}\n",
             f.step + 1, f.result.loss, human_count(static_cast<double>(f.result.tokens.count())),
             f.result.documents, human_duration(f.result.time));
  std::fflush(out_);
}

void TrainingLog::finish() {
  if (line_open_) fmt::print(out_, "\n");
  line_open_ = false;
}

std::string TrainingLog::line(const StepFigures& f) const {
  const Nanos elapsed = monotonic_now() - start_;
  const std::int64_t done = f.step + 1;
  const std::string time =
      done < steps_ ? human_duration(elapsed / (done - first_) * (steps_ - done)) + " left"
                    : "took " + human_duration(elapsed);
  // On a narrow terminal the end is cut off.
  return fmt::format(
      "step {:>{}}/{}  loss {:.4f}  {}  {} tok/s  {} tok in {} docs  bubble {} (predicted {})  "
      "peak {}  waited {} for the plan",
      done, fmt::formatted_size("{}", steps_), steps_, f.loss, time,
      human_count(f.tokens_per_second()), human_count(static_cast<double>(f.tokens.count())),
      f.documents, human_share(f.bubble), human_share(f.predicted_bubble),
      human_bytes(largest(f.peak_activation)), human_duration(f.planning_wait));
}

}  // namespace slimpack
