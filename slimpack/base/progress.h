// Progress of a long task: one line that redraws in place on a terminal, or a plain line every few
// seconds where the output is a file or a pipe.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>

#include "slimpack/base/units.h"

namespace slimpack {

enum class ProgressStyle : std::uint8_t {
  kRedraw,  ///< terminal: the same line again, at most ten times a second
  kLines,   ///< log: a new line at most every five seconds
};

/// kRedraw when `out` is a terminal.
[[nodiscard]] ProgressStyle progress_style(std::FILE* out);

/// Time since an arbitrary start, never going back.
[[nodiscard]] Nanos monotonic_now();

/// Not thread-safe: one thread calls it. Writing errors are ignored.
class Progress {
 public:
  using Clock = std::function<Nanos()>;

  /// `total` steps to go, 0 when unknown (then there is no percentage and no ETA). Does not own
  /// `out`, which must outlive this.
  Progress(std::FILE* out, ProgressStyle style, std::string label, std::int64_t total,
           Clock now = monotonic_now);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Leaves the cursor at the start of a line when the task ended early (an exception).
  ~Progress();

  /// `steps` more are done. Cheap: reads the clock, writes only when a line is due.
  void advance(std::int64_t steps = 1);
  /// Work goes on, but no step is done: writes a line when one is due, so that long steps show
  /// signs of life.
  void touch() { advance(0); }
  /// Writes the last line: steps, duration, and the rate where one was seen. Later calls do
  /// nothing.
  void finish();

 private:
  [[nodiscard]] std::string line(Nanos elapsed) const;
  void write(const std::string& line, bool last);

  std::FILE* out_;
  ProgressStyle style_;
  std::string label_;
  std::int64_t total_;
  Clock now_;
  Nanos start_;
  Nanos last_line_;
  std::int64_t done_ = 0;
  bool open_line_ = false;
  bool finished_ = false;
};

/// Wall time in laps.
class Stopwatch {
 public:
  /// Since it was made or last asked.
  Nanos lap() {
    const Nanos now = monotonic_now();
    const Nanos lap = now - last_;
    last_ = now;
    return lap;
  }

 private:
  Nanos last_ = monotonic_now();
};

}  // namespace slimpack
