#include "bench/operator_time.h"

#include <ATen/record_function.h>

#include <memory>
#include <mutex>

#include "slimpack/base/progress.h"
#include "slimpack/packflow/device/device.h"

namespace slimpack {
namespace {

// libtorch's callbacks are functions without a context of ours.
std::mutex mutex;
std::map<std::string, Nanos> times;  // by operator, guarded by mutex
at::Device counted_device(at::kCPU);
thread_local int depth = 0;
thread_local Nanos outermost_began;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& /*function*/) {
  if (depth++ == 0) outermost_began = monotonic_now();
  return nullptr;
}

void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  if (--depth > 0) return;
  finish_queue(counted_device);
  const Nanos took = monotonic_now() - outermost_began;
  const std::lock_guard lock(mutex);
  times[function.name()] += took;
}

}  // namespace

OperatorTime::OperatorTime(at::Device device) {
  times.clear();
  counted_device = device;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(begin, end).scopes({at::RecordScope::FUNCTION}));
}

OperatorTime::~OperatorTime() {
  at::removeCallback(handle_);
}

Nanos OperatorTime::total() const {
  Nanos total;
  for (const auto& [name, time] : by_operator()) total += time;
  return total;
}

std::map<std::string, Nanos> OperatorTime::by_operator() const {
  const std::lock_guard lock(mutex);
  return times;
}

}  // namespace slimpack
