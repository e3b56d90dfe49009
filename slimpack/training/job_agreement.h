// Lets the processes of a job decide together, so that all of them do the same.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "slimpack/packflow/ranks/world.h"
#include "slimpack/training/process_message.h"

namespace slimpack {

/// All processes make the same calls in the same order, and each call returns or throws the same in
/// all. A call waits as long as another process is busy. It fails only if a process does not answer
/// within the job's timeout.
class JobAgreement {
 public:
  /// `process`: this process, one of several; it must outlive this object. null = there are no
  /// others. `should_stop`: whether this process was asked to stop.
  JobAgreement(JobProcess* process, std::function<bool()> should_stop);

  [[nodiscard]] JobProcess* process() const { return process_; }
  [[nodiscard]] bool alone() const { return process_ == nullptr; }
  /// Whether this is the first process, which decides, writes files and tells the listener.
  [[nodiscard]] bool first() const { return speaks_for_job(process_); }
  [[nodiscard]] const std::function<bool()>& should_stop() const { return should_stop_; }

  /// The result of `make`. Only the first process runs it, on another thread if there are several
  /// processes. If it throws, all processes throw: InvalidInput and Interrupted as they are, every
  /// other exception as RunFailed.
  [[nodiscard]] std::string from_first(const std::function<std::string()>& make) const;

  /// Waits at most the given time. Returns whether this process's message is ready.
  using Ready = std::function<bool(std::chrono::milliseconds)>;
  /// Waits until all processes are ready, and returns agreed_content() of their messages about
  /// `what`. `own` makes this process's message. Throws Interrupted if a process was asked to stop.
  /// If `own` throws in one process, all throw as in from_first. REQUIRES: not alone().
  [[nodiscard]] std::optional<std::string> agree(std::string_view what, const Ready& ready,
                                                 const std::function<ProcessMessage()>& own) const;

  /// Throws Interrupted in all processes if one of several was asked to stop.
  void require_no_stop() const;

 private:
  [[nodiscard]] std::optional<std::string> exchange(
      std::string_view what, const Ready& ready, const std::function<ProcessMessage()>& own) const;

  JobProcess* process_;
  std::function<bool()> should_stop_;
};

}  // namespace slimpack
