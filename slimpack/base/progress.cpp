#include "slimpack/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {

namespace {

/// ", 5.0 k/s"; below one a second ", 12.3 s each"; before the first step ", 5.0 s so far". Empty
/// while no time has passed.
std::string speed_text(std::int64_t done, Nanos elapsed) {
  if (elapsed <= Nanos(0)) return "";
  if (done == 0) return fmt::format(", {} so far", human_duration(elapsed));
  const double rate = static_cast<double>(done) / to_seconds(elapsed);
  if (rate < 1) return fmt::format(", {} each", human_duration(elapsed / done));
  return rate < 10 ? fmt::format(", {:.1f}/s", rate) : fmt::format(", {}/s", human_count(rate));
}

/// ", ETA 45.0 s", at least a second. Empty at the end, and before the first step.
std::string eta_text(std::int64_t done, std::int64_t left, Nanos elapsed) {
  if (left <= 0 || done == 0) return "";
  const double seconds =
      to_seconds(elapsed) * static_cast<double>(left) / static_cast<double>(done);
  return fmt::format(", ETA {}", human_duration(from_seconds(std::max(1.0, seconds))));
}

}  // namespace

ProgressStyle progress_style(std::FILE* out) {
  return ::isatty(::fileno(out)) == 1 ? ProgressStyle::kRedraw : ProgressStyle::kLines;
}

Nanos monotonic_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return Nanos(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

Progress::Progress(std::FILE* out, ProgressStyle style, std::string label, std::int64_t total,
                   Clock now)
    : out_(out),
      style_(style),
      label_(std::move(label)),
      total_(total),
      now_(std::move(now)),
      start_(now_()),
      last_line_(start_) {}

Progress::~Progress() {
  if (open_line_) std::fputc('\n', out_);
}

void Progress::advance(std::int64_t steps) {
  done_ += steps;
  const Nanos now = now_();
  const Nanos interval(style_ == ProgressStyle::kRedraw ? 100'000'000 : 5'000'000'000);
  if (now - last_line_ < interval) return;
  last_line_ = now;
  write(line(now - start_), false);
}

void Progress::finish() {
  if (finished_) return;
  finished_ = true;
  const Nanos elapsed = now_() - start_;
  write(fmt::format("{}: {} in {}{}", label_, grouped(done_), human_duration(elapsed),
                    done_ > 0 ? speed_text(done_, elapsed) : ""),
        true);
}

std::string Progress::line(Nanos elapsed) const {
  const std::string speed = speed_text(done_, elapsed);
  if (total_ <= 0) return fmt::format("{}: {}{}", label_, grouped(done_), speed);
  return fmt::format("{}: {} of {} ({:.0f}%){}{}", label_, grouped(done_), grouped(total_),
                     100.0 * static_cast<double>(done_) / static_cast<double>(total_), speed,
                     eta_text(done_, total_ - done_, elapsed));
}

void Progress::write(const std::string& line, bool last) {
  if (style_ == ProgressStyle::kRedraw) {
    // Returns to the start of the line and clears the rest of a longer line before it. A line that
    // wraps could not be redrawn, so it is cut.
    fmt::print(out_, "\r{:.{}}\x1b[K{}", line, output_columns(out_) - 1, last ? "\n" : "");
    open_line_ = !last;
  } else {
    fmt::print(out_, "{}\n", line);
  }
  std::fflush(out_);
}

}  // namespace slimpack
