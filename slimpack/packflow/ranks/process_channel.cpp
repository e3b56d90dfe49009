#include "slimpack/packflow/ranks/process_channel.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

void ProcessChannel::expect(ExpectedMessages messages) {
  SLIMPACK_CHECK(incoming_.empty() && next_ == expected_.rows.size());
  expected_ = std::move(messages);
  next_ = 0;
  while (incoming_.size() < kAhead && next_ < expected_.rows.size()) post();
}

void ProcessChannel::post() {
  const at::Tensor rows_TH =
      at::empty({expected_.rows[next_++], expected_.width}, expected_.options);
  incoming_.push_back(peers_.receive(rows_TH, peers_.index() - step_));
}

void ProcessChannel::send(at::Tensor rows_TH) {
  if (outgoing_.size() == slots_) {
    outgoing_.front().wait();
    outgoing_.pop_front();
  }
  outgoing_.push_back(peers_.send(rows_TH.contiguous(), peers_.index() + step_));
}

at::Tensor ProcessChannel::receive() {
  SLIMPACK_CHECK(!incoming_.empty(), "more messages are received than were expected");
  incoming_.front().wait();
  at::Tensor rows_TH = incoming_.front().tensor();
  incoming_.pop_front();
  if (next_ < expected_.rows.size()) post();
  return rows_TH;
}

void ProcessChannel::settle() {
  for (ProcessPeers::Message& message : outgoing_) message.wait();
  outgoing_.clear();
}

}  // namespace slimpack
