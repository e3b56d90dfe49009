// Operations that this process has posted on the stand-in for NCCL, and calls that wait until all
// of them have ended.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <exception>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

namespace slimpack::testing {

using Patience = std::chrono::milliseconds;

/// An operation that is queued or under way.
class Operation final : public c10d::Work {
 public:
  /// `what`: of messages, such as "recv from 1 on communicator 0:1".
  Operation(std::string what, Patience patience) : what_(std::move(what)), patience_(patience) {}

  /// Waits for its end. After its patience the operation fails, with a cause that names all that
  /// this process has posted. Throws the cause of one that failed.
  bool wait(Patience given = kNoTimeout) override;
  /// Waits for the operation's end, for `caller`; does not throw.
  void await(const std::string& caller);
  /// The first call ends the operation, with a cause if it failed.
  void end(std::exception_ptr cause = nullptr);

  [[nodiscard]] const std::string& what() const { return what_; }

 private:
  std::string what_;
  Patience patience_;
};

using OperationPtr = c10::intrusive_ptr<Operation>;

/// Notes an operation until it has ended.
void note_posted(const OperationPtr& operation);

/// Why something does not end, in one line.
[[nodiscard]] std::exception_ptr hang(const std::string& waiting, Patience patience);

/// Waits for all that this process has posted so far, as a device does that synchronises.
/// Operations that do not end fail.
void synchronize(const std::string& caller);

/// The calls of an operator that wait for posted operations.
enum class Synchronising {
  kNone,
  kFirst,  ///< the first call of each operator: it loads a kernel
  kEvery   ///< every call: it may allocate, and an allocator that retries frees first
};
/// Says which calls of operators synchronise, on threads that have posted.
void set_synchronising(Synchronising calls);
/// Notes that this thread posts. Threads of backends do not, and may compute while others wait for
/// them.
void note_posting_thread();

}  // namespace slimpack::testing
