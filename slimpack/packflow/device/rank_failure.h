// Rank failure: how the exception that ended a rank is told.
#pragma once

#include <cstdint>
#include <exception>

namespace slimpack {

/// The exception that is being handled, as others are told it: what libtorch threw becomes one line
/// that names the rank, without a backtrace. REQUIRES: called in a handler.
[[nodiscard]] std::exception_ptr failure_of(std::int32_t rank);

}  // namespace slimpack
