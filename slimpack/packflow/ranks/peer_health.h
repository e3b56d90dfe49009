// Health of a job's processes: each reports that it lives and watches the next one. The first to
// notice a failure reports the cause for all.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "slimpack/base/units.h"

namespace slimpack {

/// Costs each process one thread and a few messages a second to the store, for any number of
/// processes.
class PeerHealth {
 public:
  /// Called on the watching thread, at most once. It gets a cause if this process is the first to
  /// notice that a rank is lost. It gets none if another process reported a failure some time ago
  /// and this one still runs.
  using OnFailure = std::function<void(const std::optional<std::string>& cause)>;

  /// `world`: the name of the process group of all ranks, whose store carries the reports. A rank
  /// without a report for `timeout` has failed.
  PeerHealth(const std::string& world, Nanos timeout, OnFailure on_failure);
  /// Reports that this rank has ended.
  ~PeerHealth();
  PeerHealth(const PeerHealth&) = delete;
  PeerHealth& operator=(const PeerHealth&) = delete;

  /// Waits until some rank has reported, for two beats at most. A rank that waits for another knows
  /// only its neighbour, which may itself wait; the rank that watches the lost one knows more.
  void let_others_report() const;

  /// Reports why this rank fails. True if no rank reported before; then the job failed for this
  /// cause.
  [[nodiscard]] bool report(const std::string& cause);

  /// Whether any rank has reported.
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  /// Between two beats.
  [[nodiscard]] std::chrono::nanoseconds interval() const;
  void watch();
  /// Sends a beat and checks the next rank once. False if there is nothing left to watch.
  [[nodiscard]] bool look();
  [[nodiscard]] std::string alive(std::int32_t rank) const;

  c10::intrusive_ptr<c10d::Store> store_;
  std::int32_t rank_ = 0;
  std::int32_t next_ = 0;
  Nanos timeout_;
  OnFailure on_failure_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;
  // These belong to the watching thread:
  std::int64_t beats_ = 0;  ///< of the next rank
  Nanos last_beat_;
  std::optional<Nanos> failed_since_;
  std::thread thread_;
};

}  // namespace slimpack
