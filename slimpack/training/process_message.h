// The messages with which the processes of a job decide together, and with which one of them hands
// a step's plan over to the others.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/plan/plan.h"
#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

/// The message of one process.
struct ProcessMessage {
  enum class Kind : std::uint8_t {
    kReady,      ///< the process can go on
    kOutOfTime,  ///< the process can go on, but the run's time is over
    kStopped,    ///< the process was asked to stop
    kFailed,     ///< the process cannot go on
  };
  Kind kind = Kind::kReady;
  /// kReady: the checksum of the documents that the process is about to run; empty if there are
  /// none. It must be the same in all processes.
  std::string documents = {};
  /// kReady: the content that the first process hands over. kStopped: the message of Interrupted.
  /// kFailed: the failure_text.
  std::string content = {};

  bool operator==(const ProcessMessage&) const = default;
};

/// REQUIRES: `documents` has at most 255 bytes.
[[nodiscard]] std::string to_bytes(const ProcessMessage& message);
/// Throws InvalidInput naming `origin` for bytes that to_bytes() does not make.
[[nodiscard]] ProcessMessage process_message_from_bytes(std::string_view bytes,
                                                        std::string_view origin);

/// The decision that follows from the messages of all processes. It is the same in each: the
/// content of the first process, or nullopt if any process is out of time. Throws the failure of
/// the first process that failed; else Interrupted if one was asked to stop. If none is out of
/// time, throws InvalidInput naming `what` and two ranks whose documents differ. REQUIRES: `all` is
/// by process and not empty.
[[nodiscard]] std::optional<std::string> agreed_content(std::span<const ProcessMessage> all,
                                                        std::string_view what);

/// A plan and what its ranks do: everything that they need to run a step together.
struct HandedPlan {
  StepPlan plan;
  std::vector<LoweredSchedule> lowered;  ///< by replica

  bool operator==(const HandedPlan&) const = default;
};

/// All fields of both, compressed, with a checksum.
[[nodiscard]] std::string plan_message(const StepPlan& plan,
                                       std::span<const LoweredSchedule> lowered);

/// The plan of a message. Throws InvalidInput naming `origin` if the message is damaged, or if
/// check_plan or check_lowered finds an error. Does not check that the plan suits a job.
[[nodiscard]] HandedPlan plan_from_message(std::string_view message, std::string_view origin);

}  // namespace slimpack
