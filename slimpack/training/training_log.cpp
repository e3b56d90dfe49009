#include "slimpack/training/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <vector>

#include "slimpack/base/columns.h"
#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/output_error.h"
#include "slimpack/base/progress.h"
#include "slimpack/training/metrics_lines.h"

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
          {"sequences", f.sequences},
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

std::string step_line(const StepFigures& f, std::int64_t done, std::int64_t steps, Nanos elapsed,
                      int columns) {
  const std::string time =
      f.step < steps ? human_duration(elapsed / (f.step - done) * (steps - f.step)) + " left"
                     : "took " + human_duration(elapsed);
  std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}  {}", f.step,
                                 fmt::formatted_size("{}", steps), steps, f.loss, time);
  // The most important first: a narrow terminal leaves out what does not fit any more.
  const std::array<std::string, 6> parts{
      fmt::format("  {} tok/s", human_count(f.tokens_per_second())),
      fmt::format("  bubble {}", human_share(f.bubble)),
      fmt::format(" (predicted {})", human_share(f.predicted_bubble)),
      fmt::format("  peak {}", human_bytes(largest(f.peak_activation))),
      fmt::format("  {} tok in {} docs", human_count(static_cast<double>(f.tokens.count())),
                  f.documents),
      fmt::format("  waited {} for the plan", human_duration(f.planning_wait))};
  for (const std::string& part : parts) {
    if (text_width(line) + text_width(part) > static_cast<std::size_t>(columns)) break;
    line += part;
  }
  return line;
}

TrainingLog::TrainingLog(const std::filesystem::path& folder, std::int64_t done, std::int64_t steps,
                         std::FILE* out)
    : file_(folder / "metrics.jsonl"),
      done_(done),
      steps_(steps),
      out_(out),
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
  fmt::print(out_, "{}\n",
             step_line(figures, done_, steps_, monotonic_now() - start_, output_columns(out_)));
  std::fflush(out_);
}

void TrainingLog::evaluation(const EvaluationFigures& f) {
  write(to_json(f));
  fmt::print(out_, "evaluation after step {}: loss {:.4f} on {} tok in {} docs, took {}\n", f.step,
             f.result.loss, human_count(static_cast<double>(f.result.tokens.count())),
             f.result.documents, human_duration(f.result.time));
  std::fflush(out_);
}

}  // namespace slimpack
