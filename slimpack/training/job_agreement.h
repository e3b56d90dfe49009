// How the processes of a job decide together, so that all of them do the same.
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
/// all. They wait for each other however long the work takes: what ends a wait is a process that
/// does not answer within the job's timeout, not one that is busy.
class JobAgreement {
 public:
  /// `process`, one of several, outlives this; null = there are no others. `should_stop`: whether
  /// this process was asked to stop.
  JobAgreement(JobProcess* process, std::function<bool()> should_stop);

  [[nodiscard]] JobProcess* process() const { return process_; }
  [[nodiscard]] bool alone() const { return process_ == nullptr; }
  /// Whether this is the process that decides, writes and tells.
  [[nodiscard]] bool first() const { return speaks_for_job(process_); }
  [[nodiscard]] const std::function<bool()>& should_stop() const { return should_stop_; }

  /// The result of `make`, which runs in the first process alone, on another thread where there are
  /// several. What it throws is thrown in all: InvalidInput and Interrupted again, everything else
  /// as RunFailed.
  [[nodiscard]] std::string from_first(const std::function<std::string()>& make) const;

  /// Waits at most so long; whether the own message can be asked for.
  using Ready = std::function<bool(std::chrono::milliseconds)>;
  /// agreed_content() of what all processes say of `what` once they are ready; Interrupted when one
  /// was asked to stop. What `own` throws in one process is thrown in all, as by from_first.
  /// REQUIRES: not alone.
  [[nodiscard]] std::optional<std::string> agree(std::string_view what, const Ready& ready,
                                                 const std::function<ProcessMessage()>& own) const;

  /// Throws Interrupted in all processes when one of several was asked to stop.
  void require_no_stop() const;

 private:
  [[nodiscard]] std::optional<std::string> exchange(
      std::string_view what, const Ready& ready, const std::function<ProcessMessage()>& own) const;

  JobProcess* process_;
  std::function<bool()> should_stop_;
};

}  // namespace slimpack
