// What the processes of a job tell each other where they decide together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace slimpack {

/// The message of one process.
struct ProcessMessage {
  enum class Kind : std::uint8_t {
    kReady,      ///< this process can go on
    kOutOfTime,  ///< so it can, but the run's time is over
    kStopped,    ///< it was asked to stop
    kFailed,     ///< it cannot go on
  };
  Kind kind = Kind::kReady;
  /// kReady: the checksum of the documents that it is about to run, which must be those of the
  /// others; empty where there are none.
  std::string documents = {};
  /// kReady: what the first process hands over. kStopped: the text of Interrupted. kFailed: the
  /// failure_text.
  std::string content = {};

  bool operator==(const ProcessMessage&) const = default;
};

/// REQUIRES: `documents` has at most 255 bytes.
[[nodiscard]] std::string to_bytes(const ProcessMessage& message);
/// Throws InvalidInput naming `origin` for anything but what to_bytes() makes.
[[nodiscard]] ProcessMessage process_message_from_bytes(std::string_view bytes,
                                                        std::string_view origin);

/// What follows from the messages of all processes, and so the same in each: what the first one
/// hands over, or nullopt when time is over in one. Throws the failure of the first process that
/// has one; else Interrupted when one was asked to stop; else InvalidInput naming `what` and two
/// ranks whose documents differ. REQUIRES: `all` by process, not empty.
[[nodiscard]] std::optional<std::string> agreed_content(std::span<const ProcessMessage> all,
                                                        std::string_view what);

}  // namespace slimpack
