#include "slimpack/packflow/ranks/process_exchange.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <chrono>
#include <limits>
#include <optional>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

/// The number of the next message. It is the message's tag, by which Gloo finds the receiver's
/// memory.
int next_tag(std::int32_t& count) {
  count = count == std::numeric_limits<std::int32_t>::max() ? 0 : count + 1;
  return count;
}

/// Several operations that PyTorch begins at once. An open group would hold up all that the thread
/// begins later, so one that fails half-way is closed, too.
class Coalescing {
 public:
  Coalescing(c10d::ProcessGroup& group, at::DeviceType device) : group_(group), device_(device) {
    group_.startCoalescing(device_);
  }
  ~Coalescing() {
    if (!open_) return;
    try {
      static_cast<void>(group_.endCoalescing(device_));
    } catch (const std::exception&) {
      // The cause is already on its way.
    }
  }
  Coalescing(const Coalescing&) = delete;
  Coalescing& operator=(const Coalescing&) = delete;

  [[nodiscard]] c10::intrusive_ptr<c10d::Work> end() {
    open_ = false;
    return group_.endCoalescing(device_);
  }

 private:
  c10d::ProcessGroup& group_;
  at::DeviceType device_;
  bool open_ = true;
};

}  // namespace

struct ProcessPeers::Travel {
  c10::intrusive_ptr<c10d::Work> work;
};

struct ProcessPeers::Backend {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
};

ProcessPeers::ProcessPeers(RankGroup group, const std::string& name)
    : group_(group),
      sent_(static_cast<std::size_t>(group.size)),
      received_(static_cast<std::size_t>(group.size)) {
  if (group.size == 1) return;
  backend_ = std::make_unique<Backend>(c10d::resolve_process_group(name));
  index_ = backend_->group->getRank();
  const int members = backend_->group->getSize();
  SLIMPACK_CHECK(members == group.size, "{}: the process group has {} members", group.name(),
                 members);
}

ProcessPeers::~ProcessPeers() = default;

void ProcessPeers::set_timeout(Nanos timeout) {
  backend_->group->setTimeout(std::chrono::milliseconds(timeout.count() / 1'000'000));
}

PeerLost ProcessPeers::lost(std::int32_t member, const std::exception& cause) const {
  // Keeps the first line, without the place in a source file with which libraries begin it.
  std::string reason = cause.what();
  reason = reason.substr(0, reason.find('\n'));
  if (const auto place = reason.find("] "); reason.starts_with('[') && place != std::string::npos)
    reason = reason.substr(place + 2);
  const std::string who =
      member == kAnyMember ? "a rank" : fmt::format("rank {}", group_.rank(member));
  return PeerLost(fmt::format("{} does not answer ({}): {}", who, group_.name(), reason));
}

ProcessPeers::Message ProcessPeers::begin_one(Transfer transfer) {
  const std::int32_t member = transfer.member;
  SLIMPACK_CHECK(member >= 0 && member < group_.size && transfer.tensor.is_contiguous());
  const bool sends = transfer.kind == Transfer::Kind::kSend;
  Message message;
  message.peers_ = this;
  message.member_ = member;
  message.tensor_ = std::move(transfer.tensor);
  if (message.tensor_.numel() == 0) return message;  // both sides know, so nothing is sent
  std::vector<at::Tensor> tensors{message.tensor_};
  const int tag = next_tag((sends ? sent_ : received_)[static_cast<std::size_t>(member)]);
  try {
    c10d::ProcessGroup& group = *backend_->group;
    message.travel_ = std::make_shared<Travel>(sends ? group.send(tensors, member, tag)
                                                     : group.recv(tensors, member, tag));
  } catch (const std::exception& e) {
    throw lost(member, e);
  }
  return message;
}

ProcessPeers::Message ProcessPeers::send(at::Tensor tensor, std::int32_t member) {
  return begin_one({Transfer::Kind::kSend, std::move(tensor), member});
}

ProcessPeers::Message ProcessPeers::receive(at::Tensor tensor, std::int32_t member) {
  return begin_one({Transfer::Kind::kReceive, std::move(tensor), member});
}

std::vector<ProcessPeers::Message> ProcessPeers::begin(std::vector<Transfer> transfers) {
  if (transfers.empty()) return {};
  const at::DeviceType device = transfers.front().tensor.device().type();
  const bool coalesced = backend_->group->getBackend(device)->supportsCoalescing();
  std::optional<Coalescing> batch;
  if (coalesced) batch.emplace(*backend_->group, device);
  std::vector<Message> messages;
  for (Transfer& transfer : transfers) messages.push_back(begin_one(std::move(transfer)));
  if (!batch) return messages;
  const auto all = std::make_shared<Travel>(batch->end());
  for (Message& message : messages)
    if (message.travel_) message.travel_ = all;
  return messages;
}

template <class Start>
ProcessPeers::Message ProcessPeers::begin_collective(at::Tensor tensor, const Start& start) {
  SLIMPACK_CHECK(tensor.is_contiguous());
  Message message;
  message.peers_ = this;
  message.member_ = kAnyMember;
  message.tensor_ = std::move(tensor);
  if (group_.size == 1 || message.tensor_.numel() == 0) return message;
  try {
    c10d::Backend& backend = *backend_->group->getBackend(message.tensor_.device().type());
    message.travel_ = std::make_shared<Travel>(start(backend, message.tensor_));
  } catch (const std::exception& e) {
    throw lost(kAnyMember, e);
  }
  return message;
}

ProcessPeers::Message ProcessPeers::reduce_scatter(at::Tensor rows_MS) {
  return begin_collective(std::move(rows_MS), [&](c10d::Backend& backend, at::Tensor& all_MS) {
    // NCCL and Gloo may write into what they read, and take members' parts end to end.
    at::Tensor own_S = all_MS.select(0, index_), flat_N = all_MS.view(-1);
    return backend._reduce_scatter_base(own_S, flat_N);
  });
}

ProcessPeers::Message ProcessPeers::all_gather(at::Tensor rows_MS) {
  return begin_collective(std::move(rows_MS), [&](c10d::Backend& backend, at::Tensor& all_MS) {
    at::Tensor own_S = all_MS.select(0, index_), flat_N = all_MS.view(-1);
    return backend._allgather_base(flat_N, own_S);
  });
}

ProcessPeers::Message ProcessPeers::all_reduce(at::Tensor tensor) {
  return begin_collective(std::move(tensor), [](c10d::Backend& backend, at::Tensor& all) {
    std::vector<at::Tensor> tensors{all};
    return backend.allreduce(tensors);
  });
}

bool ProcessPeers::Message::done() const {
  return !travel_ || travel_->work->isCompleted();
}

void ProcessPeers::Message::wait() {
  if (!travel_) return;
  try {
    std::exchange(travel_, nullptr)->work->wait();
  } catch (const std::exception& e) {
    throw peers_->lost(member_, e);
  }
}

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
