// Starting threads, what to say where the system has none left, and calls that do not depend on
// each other, on several threads.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

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

/// Numbers of the processors that the calling thread may run on, ascending: all of the machine's,
/// or what `taskset`, a container or a batch system left of them. Empty where the system does not
/// say.
[[nodiscard]] std::vector<int> usable_processors();

/// How many threads of this process can run at once; at least 1.
[[nodiscard]] int processors();

/// Calls work(0) … work(count − 1), each once, and returns when all have ended. The caller and up
/// to `threads` − 1 threads that live as long as the call take one index after the other. Any
/// thread may take any index, so no call may read what another writes. If calls throw, all others
/// run nevertheless, and the exception of the lowest index is thrown. Where the system has no
/// thread left, those that have started do everything.
void for_each_index(std::size_t count, int threads, const std::function<void(std::size_t)>& work);

/// A function that calls `tell` on the thread that makes it, and does nothing on others. `tell` may
/// be empty.
[[nodiscard]] std::function<void()> on_this_thread(std::function<void()> tell);

}  // namespace slimpack
