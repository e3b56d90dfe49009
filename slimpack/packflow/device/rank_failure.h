// Rank failure: the exception that ended a rank, in words for others.
#pragma once

#include <cstdint>
#include <exception>

namespace slimpack {

/// The exception that is being handled, for others to see: an exception of libtorch becomes one
/// line that names the rank, without a backtrace. REQUIRES: called in a handler.
[[nodiscard]] std::exception_ptr failure_of(std::int32_t rank);

}  // namespace slimpack
