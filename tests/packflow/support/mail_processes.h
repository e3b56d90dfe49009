// Ranks as processes, for which threads of one program stand: their process groups of c10d pass
// tensors of the CPU and of the pretended device through the program's memory. As with NCCL, the
// host waits for another process where a message is awaited, and never for the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "slimpack/packflow/ranks/process_job.h"

namespace slimpack::testing {

/// The timeout of the process groups.
inline constexpr Nanos kMailTimeout{40'000'000'000};

/// Messages of a group that are under way. Thread-safe.
class Mail {
 public:
  using Address = std::tuple<int, int, int>;  ///< from, to, tag

  /// How long a message is under way.
  explicit Mail(std::int64_t nanos_per_byte = 0) : nanos_per_byte_(nanos_per_byte) {}

  void put(const Address& address, at::Tensor tensor);
  [[nodiscard]] at::Tensor take(const Address& address);
  [[nodiscard]] int messages() const { return sent_; }
  /// The longest timeout that a member was given since its group was made.
  void note_timeout(std::chrono::milliseconds timeout) {
    if (timeout.count() > timeout_ms_) timeout_ms_ = timeout.count();
  }
  [[nodiscard]] std::chrono::milliseconds timeout() const {
    return std::chrono::milliseconds(timeout_ms_);
  }
  /// With how many others a member has exchanged messages.
  [[nodiscard]] std::size_t partners(int member);
  [[nodiscard]] bool empty();
  /// A send was awaited by another thread than its own, so another queue than its own waited for
  /// it.
  void note_foreign_wait() { ++foreign_waits_; }
  [[nodiscard]] int foreign_waits() const { return foreign_waits_; }

 private:
  struct Message {
    at::Tensor tensor;
    std::chrono::steady_clock::time_point arrives;
  };

  std::int64_t nanos_per_byte_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Address, Message> messages_;
  std::map<int, std::set<int>> partners_;
  std::atomic<std::int64_t> timeout_ms_ = 0;
  std::atomic<int> sent_ = 0, foreign_waits_ = 0;
};

/// A member's process group, known to c10d by its name while this lives.
class MailGroup {
 public:
  MailGroup(std::string name, int member, int size, Mail& mail);
  ~MailGroup();
  MailGroup(const MailGroup&) = delete;
  MailGroup& operator=(const MailGroup&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Group;
  std::string name_;
  std::unique_ptr<Group> group_;  // c10d does not own it
};

/// A job of processes. Their messages take `nanos_per_byte`, besides the time to hand them over.
class MailJob {
 public:
  explicit MailJob(const RankGrid& grid, std::int64_t nanos_per_byte = 0,
                   Nanos timeout = kMailTimeout);
  ~MailJob();

  [[nodiscard]] const RankGrid& grid() const { return grid_; }
  /// REQUIRES: used by one thread at a time. Lives as long as the job.
  [[nodiscard]] JobProcess& process(std::int32_t rank);
  /// Messages so far between the members of a group.
  [[nodiscard]] int messages(const RankGroup& group) const;
  [[nodiscard]] std::chrono::milliseconds timeout(const RankGroup& group) const;
  /// Mail::foreign_waits of all groups.
  [[nodiscard]] int foreign_waits() const;

 private:
  RankGrid grid_;
  std::map<RankGroup, std::unique_ptr<Mail>> mail_;
  std::vector<std::unique_ptr<MailGroup>> groups_;
  std::vector<std::unique_ptr<ProcessJob>> processes_;  ///< by rank
};

}  // namespace slimpack::testing
