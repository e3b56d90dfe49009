#include "slimpack/base/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "slimpack/base/columns.h"
#include "slimpack/base/human.h"

namespace slimpack {

namespace {

double rate_of(std::int64_t done, Nanos elapsed) {
  return elapsed > Nanos(0) ? static_cast<double>(done) / to_seconds(elapsed) : 0.0;
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
  write(fmt::format("{}: {} in {}, {}/s", label_, grouped(done_), human_duration(elapsed),
                    human_count(rate_of(done_, elapsed))),
        true);
}

std::string Progress::line(Nanos elapsed) const {
  const double rate = rate_of(done_, elapsed);
  const std::string speed = human_count(rate) + "/s";
  if (total_ <= 0) return fmt::format("{}: {}, {}", label_, grouped(done_), speed);
  const auto left = static_cast<double>(total_ - done_);
  return fmt::format("{}: {} of {} ({:.0f}%), {}, ETA {}", label_, grouped(done_), grouped(total_),
                     100.0 * static_cast<double>(done_) / static_cast<double>(total_), speed,
                     rate > 0 ? human_duration(from_seconds(left / rate)) : "unknown");
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
