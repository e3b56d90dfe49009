// The signals that ask a program to stop.
#pragma once

namespace slimpack {

/// From now on SIGINT and SIGTERM only ask for a stop. A second SIGINT ends the process at once.
void catch_stop_signals();

/// The signal that asked for a stop; 0 = none. Any thread may call it.
[[nodiscard]] int stop_signal();

}  // namespace slimpack
