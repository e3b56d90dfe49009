// A child process that sends the lines of metrics.jsonl to other programs, such as Weights &
// Biases, while a run goes on. The Python package has it: python/slimpack/log.py.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "slimpack/base/destination.h"
#include "slimpack/base/units.h"

namespace slimpack {

/// Says what a LogProcess is to do.
struct LogOrder {
  std::vector<std::string> command;  ///< starts it, such as {"python3", "-m", "slimpack.log"}
  std::vector<std::string> names;    ///< of the logs, as output.log has them
  std::filesystem::path folder;      ///< with metrics.jsonl
  std::string settings = {};         ///< the run's, as TOML, for logs that show them
};

/// Once it has begun, it neither ends a run nor holds it up for longer than `patience`. It ends by
/// itself when this process does, even by a kill.
class LogProcess {
 public:
  static constexpr Nanos kPatience{60'000'000'000};

  /// Returns when the child has found the libraries that it needs, or after `patience`. Throws
  /// InvalidInput with the child's last line if it ends before, and if it cannot be started.
  explicit LogProcess(const LogOrder& order, Nanos patience = kPatience);
  /// Ends it as after a run that failed.
  ~LogProcess();
  LogProcess(const LogProcess&) = delete;
  LogProcess& operator=(const LogProcess&) = delete;

  /// Says that the run has ended, `well` or not, and waits until the child has sent the rest. After
  /// `patience` the child is killed. Returns one line on what went wrong, or nothing. A child that
  /// meets trouble with a log tells it on stderr itself.
  [[nodiscard]] std::string finish(bool well = true);

 private:
  void start(const LogOrder& order);
  void await_ready();
  /// The child's exit code, or the negative number of the signal that ended it; nullopt: it ran on
  /// after `patience` and was killed.
  [[nodiscard]] std::optional<int> awaited();

  Nanos patience_;
  Descriptor socket_;  ///< the child's standard input, and its output until it is ready
  ::pid_t child_ = -1;
};

}  // namespace slimpack
