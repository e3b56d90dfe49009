#include "bench/operator_time.h"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>

#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

// libtorch's callbacks are functions without a context of ours.
std::atomic<std::int64_t> counted{0};
thread_local int depth = 0;
thread_local Nanos outermost_began;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction&) {
  if (depth++ == 0) outermost_began = monotonic_now();
  return nullptr;
}

void end(const at::RecordFunction&, at::ObserverContext*) {
  if (--depth == 0) counted += (monotonic_now() - outermost_began).count();
}

}  // namespace

OperatorTime::OperatorTime() {
  counted = 0;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
}

OperatorTime::~OperatorTime() {
  at::removeCallback(handle_);
}

Nanos OperatorTime::total() const {
  return Nanos(counted);
}

}  // namespace slimpack
