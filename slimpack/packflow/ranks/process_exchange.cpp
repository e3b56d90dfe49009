#include "slimpack/packflow/ranks/process_exchange.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// The number of the next message is its tag, by which Gloo finds the receiver's memory.
int next_tag(std::int32_t& count) {
  count = count == std::numeric_limits<std::int32_t>::max() ? 0 : count + 1;
  return count;
}

}  // namespace

ProcessPeers::ProcessPeers(RankGroup group, c10::intrusive_ptr<c10d::ProcessGroup> backend)
    : group_(group),
      backend_(std::move(backend)),
      sent_(static_cast<std::size_t>(group.size)),
      received_(static_cast<std::size_t>(group.size)) {
  const int members = backend_ ? backend_->getSize() : 1;
  SLIMPACK_CHECK(members == group.size, "{}: the process group has {} members", group.name(),
                 members);
}

PeerLost ProcessPeers::lost(std::int32_t member, const std::exception& cause) const {
  // The first line, without the place in a source file that libraries put before it.
  std::string reason = cause.what();
  reason = reason.substr(0, reason.find('\n'));
  if (const auto place = reason.find("] "); reason.starts_with('[') && place != std::string::npos)
    reason = reason.substr(place + 2);
  return PeerLost(
      fmt::format("rank {} does not answer ({}): {}", group_.rank(member), group_.name(), reason));
}

ProcessPeers::Message ProcessPeers::begin_one(at::Tensor tensor, std::int32_t member,
                                              Counts& counts, Operation operation) {
  SLIMPACK_CHECK(member >= 0 && member < group_.size && tensor.is_contiguous());
  Message message;
  message.peers_ = this;
  message.member_ = member;
  message.tensor_ = std::move(tensor);
  if (message.tensor_.numel() == 0) return message;  // not sent: both sides know
  std::vector<at::Tensor> tensors{message.tensor_};
  try {
    message.work_ = ((*backend_).*operation)(tensors, member,
                                             next_tag(counts[static_cast<std::size_t>(member)]));
  } catch (const std::exception& e) {
    throw lost(member, e);
  }
  return message;
}

ProcessPeers::Message ProcessPeers::send(at::Tensor tensor, std::int32_t member) {
  return begin_one(std::move(tensor), member, sent_, &c10d::ProcessGroup::send);
}

ProcessPeers::Message ProcessPeers::receive(at::Tensor tensor, std::int32_t member) {
  return begin_one(std::move(tensor), member, received_, &c10d::ProcessGroup::recv);
}

std::vector<ProcessPeers::Message> ProcessPeers::begin(std::vector<Transfer> transfers) {
  const bool coalesced = !transfers.empty() && transfers.front().tensor.is_cuda();
  if (coalesced) backend_->startCoalescing(at::kCUDA);
  std::vector<Message> messages;
  for (Transfer& t : transfers)
    messages.push_back(t.kind == Transfer::Kind::kSend ? send(std::move(t.tensor), t.member)
                                                       : receive(std::move(t.tensor), t.member));
  if (!coalesced) return messages;
  const c10::intrusive_ptr<c10d::Work> all = backend_->endCoalescing(at::kCUDA);
  for (Message& message : messages) message.work_ = message.tensor_.numel() > 0 ? all : nullptr;
  return messages;
}

void ProcessPeers::Message::wait() {
  if (!work_) return;
  try {
    work_->wait();
  } catch (const std::exception& e) {
    throw peers_->lost(member_, e);
  }
  work_.reset();
}

}  // namespace slimpack
