#include "slimpack/packflow/ranks/process_channel.h"

#include <ATen/ops/empty.h>

#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {

void ProcessChannel::post_receive(std::int32_t local_stage, const MessageForm& form) {
  SLIMPACK_CHECK(source_ != nullptr);
  incoming_[local_stage].push_back(
      source_->receive(at::empty({form.rows, form.width}, form.options), 1 - source_->index()));
}

void ProcessChannel::send(at::Tensor rows_TH) {
  SLIMPACK_CHECK(target_ != nullptr);
  // Messages that have left give their memory back.
  while (!outgoing_.empty() && (outgoing_.size() == held_ || outgoing_.front().done())) {
    outgoing_.front().wait();
    outgoing_.pop_front();
  }
  outgoing_.push_back(target_->send(rows_TH.contiguous(), 1 - target_->index()));
}

at::Tensor ProcessChannel::receive(std::int32_t local_stage) {
  std::deque<ProcessPeers::Message>& posted = incoming_[local_stage];
  SLIMPACK_CHECK(!posted.empty(), "a message is awaited whose receive was not posted");
  posted.front().wait();
  at::Tensor rows_TH = posted.front().tensor();
  posted.pop_front();
  return rows_TH;
}

void ProcessChannel::settle() {
  for (ProcessPeers::Message& message : outgoing_) message.wait();
  outgoing_.clear();
}

}  // namespace slimpack
