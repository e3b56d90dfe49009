#include "slimpack/packflow/device/work_mark.h"

#include <cmath>

#include "slimpack/packflow/device/device.h"

namespace slimpack {

WorkMark::WorkMark(c10::Device device, Kind kind) {
  if (device.is_cpu()) return;
  event_ = std::make_shared<c10::Event>(device.type(), kind == Kind::kTime
                                                           ? c10::EventFlag::BACKEND_DEFAULT
                                                           : c10::EventFlag::PYTORCH_DEFAULT);
  event_->record(own_queue(device));
}

void WorkMark::order_queue_after() const {
  if (event_) event_->block(own_queue({event_->device_type(), event_->device_index()}));
}

void WorkMark::await() const {
  if (event_ && !event_->query()) event_->synchronize();
}

Nanos WorkMark::since(const WorkMark& earlier) const {
  constexpr double kNanosOfAMilli = 1e6;
  return Nanos(std::llround(earlier.event_->elapsedTime(*event_) * kNanosOfAMilli));
}

}  // namespace slimpack
