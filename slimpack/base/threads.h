// Starting threads, and what to say where the system has none left.
#pragma once

#include <string>
#include <string_view>
#include <system_error>

#include "slimpack/base/error.h"

namespace slimpack {

/// How many threads this process may come to have, and what to do: part of a line for people.
[[nodiscard]] std::string thread_limits();

/// Whether the system has no thread left.
[[nodiscard]] inline bool out_of_threads(const std::system_error& failure) {
  return failure.code() == std::errc::resource_unavailable_try_again;
}

/// Calls `start`, which starts a thread (std::thread, std::async), and returns its result. Throws
/// RunFailed that names what the thread was for where the system has no thread left.
template <class Start>
[[nodiscard]] auto started(std::string_view what, const Start& start) {
  try {
    return start();
  } catch (const std::system_error& e) {
    if (!out_of_threads(e)) throw;
    run_failed("cannot start a thread for {}; {}", what, thread_limits());
  }
}

/// Throws RunFailed unless this process can have so many threads at the same time, this one
/// included. For libraries that end the process where they cannot start theirs. Takes some
/// microseconds a thread.
void require_threads(int count);

}  // namespace slimpack
