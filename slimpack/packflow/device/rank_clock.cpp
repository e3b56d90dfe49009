#include "slimpack/packflow/device/rank_clock.h"

#include <time.h>

#include <algorithm>
#include <cmath>

#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
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

namespace {

Nanos thread_time() {
  timespec spent{};
  SLIMPACK_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent) == 0);
  return Nanos(std::int64_t{spent.tv_sec} * 1'000'000'000 + spent.tv_nsec);
}

}  // namespace

RankClock::RankClock(ClockKind kind, Nanos start, ProcessorTurns* turns, c10::Device device)
    : kind_(kind),
      start_(kind == ClockKind::kWall ? start : thread_time()),
      turns_(kind == ClockKind::kWall ? nullptr : turns),
      device_(device) {
  return_to_processor();
  if (device_.is_cpu() || kind_ == ClockKind::kVirtual) return;
  anchor_ = WorkMark(device_, WorkMark::Kind::kTime);
  anchor_.await();
  anchored_ = now();
}

RankClock::~RankClock() {
  leave_processor();
}

Nanos RankClock::now() const {
  return (kind_ == ClockKind::kWall ? monotonic_now() : thread_time()) - start_;
}

RankClock::Moment RankClock::moment() const {
  if (!device_.is_cpu() && kind_ == ClockKind::kWall)
    return {Nanos(0), WorkMark(device_, WorkMark::Kind::kTime)};
  finish_queue(device_);
  return {now(), {}};
}

Nanos RankClock::time_of(const Moment& moment) const {
  if (device_.is_cpu() || kind_ == ClockKind::kVirtual) return moment.time;
  moment.mark.await();
  return anchored_ + moment.mark.since(anchor_);
}

void RankClock::wait_until(Nanos time) {
  if (kind_ == ClockKind::kVirtual) start_ -= std::max(Nanos(0), time - now());
}

void RankClock::leave_processor() {
  if (turns_ != nullptr) turns_->give_up();
}

void RankClock::return_to_processor() {
  if (turns_ != nullptr) turns_->take();
}

}  // namespace slimpack
