#include "slimpack/packflow/device/rank_failure.h"

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <stdexcept>

namespace slimpack {

std::exception_ptr failure_of(std::int32_t rank) {
  try {
    throw;
  } catch (const c10::Error& e) {
    return std::make_exception_ptr(
        std::runtime_error(fmt::format("rank {}: {}", rank, e.what_without_backtrace())));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace slimpack
