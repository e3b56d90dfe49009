// Step log: the actions and messages of a simulated step, and the order in which they end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/schedule/lowered_schedule.h"

namespace slimpack {

/// When a rank has run an action or has sent its output.
struct LoggedEvent {
  std::int64_t time = 0;
  std::size_t replica = 0;
  Instruction instruction;  ///< kCompute or kSend
};

/// The lists of each replica's ranks: the events by time, and each receive where its message is
/// sent. `log`: whatever an event depends on comes before it, and the actions of a merged pack on a
/// stage stand side by side.
[[nodiscard]] std::vector<LoweredSchedule> lowered_by(std::vector<LoggedEvent> log,
                                                      std::span<const Schedule> schedules);

}  // namespace slimpack
