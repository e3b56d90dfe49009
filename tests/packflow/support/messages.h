// One-number messages between ranks, and whether a call in another thread waits or returns.
#pragma once

#include <ATen/ATen.h>

#include <chrono>
#include <cstdint>
#include <future>

#include "slimpack/packflow/ranks/communicator.h"

namespace slimpack::testing {

inline at::Tensor number(double value) {
  return at::full({1}, value, at::kDouble);
}

inline Inbox forward_to(std::int32_t stage) {
  return {Direction::kForward, StageId(stage)};
}
inline Inbox backward_to(std::int32_t stage) {
  return {Direction::kBackward, StageId(stage)};
}

template <class T>
bool waits(std::future<T>& call) {
  return call.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout;
}
/// False: a hang, on any machine.
template <class T>
bool returns(std::future<T>& call) {
  return call.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

}  // namespace slimpack::testing
