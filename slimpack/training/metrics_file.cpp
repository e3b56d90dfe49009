#include "slimpack/training/metrics_file.h"

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/output_error.h"
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

void MetricsFile::open(const nlohmann::ordered_json& first_line) {
  std::error_code error;
  std::filesystem::create_directories(file_.parent_path(), error);
  std::ifstream earlier(file_);
  bytes_ = bytes_of_lines_before(first_line, earlier);
  if (bytes_ > 0) std::filesystem::resize_file(file_, bytes_, error);
  metrics_.open(file_, bytes_ > 0 ? std::ios::app : std::ios::trunc);
  if (!metrics_) output_failed("write", file_, errno, kElsewhere);
}

void MetricsFile::write(nlohmann::ordered_json line) {
  if (!metrics_.is_open()) open(line);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  line["unix_ms"] = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::string text = line.dump() + '\n';
  metrics_ << text << std::flush;
  if (!metrics_) {
    const int cause = errno;
    std::error_code ignored;
    std::filesystem::resize_file(file_, bytes_, ignored);  // readers expect whole lines
    output_failed("write", file_, cause, kElsewhere);
  }
  bytes_ += text.size();
}

void MetricsFile::add(const StepFigures& figures) {
  write(to_json(figures));
}

void MetricsFile::add(const EvaluationFigures& figures) {
  write(to_json(figures));
}

}  // namespace slimpack
