#include "tests/support/blocking/blocking_backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <utility>

namespace slimpack::testing {
namespace {

constexpr int kTag = 0;  // NCCL has none: a communicator's order says which send a receive meets
constexpr std::chrono::milliseconds kPause(1);  // between two looks at the store

}  // namespace

BlockingBackend::BlockingBackend(BackendPtr gloo, StorePtr store, std::string name,
                                 std::vector<std::int64_t> ranks, Patience patience, Way way)
    : Backend(gloo->getRank(), gloo->getSize()),
      gloo_(std::move(gloo)),
      store_(std::move(store)),
      name_(std::move(name)),
      ranks_(std::move(ranks)),
      patience_(patience),
      way_(way) {
  if (way != Way::kLazy) eagerConnectSingleDevice(at::kCPU);
}

void BlockingBackend::eagerConnectSingleDevice(at::Device /*device*/) {
  eager_ = true;
  queue_of(of_all(), ranks_.size(), "the group's making");
}

void BlockingBackend::startCoalescing() {
  batch_.emplace();
}

WorkPtr BlockingBackend::endCoalescing() {
  const Batch batch = std::move(*std::exchange(batch_, std::nullopt));
  if (batch.begins.empty()) return {};
  return post(of_all(), ranks_.size(), fmt::format("batch of {}", batch.what), batch.connections,
              [begins = batch.begins] {
                Works all;
                for (const Begin& begin : begins)
                  std::ranges::copy(begin(), std::back_inserter(all));
                return all;
              });
}

WorkPtr BlockingBackend::send(Tensors& tensors, int to, int /*tag*/) {
  return between(fmt::format("send to {}", rank_of(to)), {getRank(), to}, tensors,
                 [tensors, to](Backend& gloo) mutable { return gloo.send(tensors, to, kTag); });
}

WorkPtr BlockingBackend::recv(Tensors& tensors, int from, int /*tag*/) {
  return between(fmt::format("recv from {}", rank_of(from)), {from, getRank()}, tensors,
                 [tensors, from](Backend& gloo) mutable { return gloo.recv(tensors, from, kTag); });
}

WorkPtr BlockingBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  return collective("broadcast", [tensors, options](Backend& gloo) mutable {
    return gloo.broadcast(tensors, options);
  });
}

WorkPtr BlockingBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  return collective("all_reduce", [tensors, options](Backend& gloo) mutable {
    return gloo.allreduce(tensors, options);
  });
}

WorkPtr BlockingBackend::allgather(TensorLists& out, Tensors& in,
                                   const c10d::AllgatherOptions& options) {
  return collective("all_gather", [out, in, options](Backend& gloo) mutable {
    return gloo.allgather(out, in, options);
  });
}

WorkPtr BlockingBackend::_allgather_base(at::Tensor& out, at::Tensor& in,
                                         const c10d::AllgatherOptions& options) {
  return collective("all_gather", [out, in, options](Backend& gloo) mutable {
    return gloo._allgather_base(out, in, options);
  });
}

WorkPtr BlockingBackend::_reduce_scatter_base(at::Tensor& out, at::Tensor& in,
                                              const c10d::ReduceScatterOptions& options) {
  return collective("reduce_scatter", [out, in, options](Backend& gloo) mutable {
    return gloo._reduce_scatter_base(out, in, options);
  });
}

WorkPtr BlockingBackend::barrier(const c10d::BarrierOptions& options) {
  return collective("barrier", [options](Backend& gloo) { return gloo.barrier(options); });
}

WorkPtr BlockingBackend::collective(std::string what,
                                    std::function<WorkPtr(c10d::Backend&)> begin) {
  const Connections connections{{what, ranks_.size()}};
  return post(of_all(), ranks_.size(), std::move(what), connections,
              [gloo = gloo_, begin = std::move(begin)] { return Works{begin(*gloo)}; });
}

WorkPtr BlockingBackend::between(std::string what, std::pair<int, int> way, const Tensors& tensors,
                                 std::function<WorkPtr(c10d::Backend&)> begin) {
  const std::int64_t from = rank_of(way.first), to = rank_of(way.second);
  Connections connections;
  if (way_ != Way::kForgetful || tensors.front().numel() > 1)
    connections.emplace(fmt::format("{} to {}", from, to), 2);
  const bool of_pair = !eager_ && !batch_;
  const std::string communicator =
      of_pair ? fmt::format("{}:{}", std::min(from, to), std::max(from, to)) : of_all();
  return post(communicator, of_pair ? 2 : ranks_.size(), std::move(what), connections,
              [gloo = gloo_, begin = std::move(begin)] { return Works{begin(*gloo)}; });
}

/// Blocks until all members of each connection have called this for it.
void BlockingBackend::connect(const std::string& communicator, const Connections& connections,
                              const std::string& first) {
  Connections fresh;
  for (const auto& [connection, members] : connections) {
    const std::string place = "connection/" + communicator + "/" + connection;
    if (connected_.insert(place).second) fresh.emplace(place, members);
  }
  for (const auto& [place, members] : fresh) store_->add(place, 1);
  for (const auto& [place, members] : fresh)
    meet(place, members,
         fmt::format("rank {}, which connects for its first {},", rank_of(getRank()), first));
}

WorkPtr BlockingBackend::post(const std::string& communicator, std::size_t members,
                              std::string what, const Connections& connections, Begin begin) {
  note_posting_thread();
  if (batch_) {
    batch_->what += fmt::format("{}{}", batch_->what.empty() ? "" : ", ", what);
    batch_->begins.push_back(std::move(begin));
    batch_->connections.insert(connections.begin(), connections.end());
    return {};
  }
  what += fmt::format(" on communicator {} of group {}", communicator, name_);
  OperationQueue& queue = queue_of(communicator, members, what);
  connect(communicator, connections, what);
  auto operation = c10::make_intrusive<Operation>(std::move(what), patience_);
  note_posted(operation);
  queue.push(operation, std::move(begin));
  return operation;
}

OperationQueue& BlockingBackend::queue_of(const std::string& communicator, std::size_t members,
                                          const std::string& first) {
  std::unique_lock lock(mutex_);
  const auto made = queues_.find(communicator);
  if (made != queues_.end()) return made->second;
  lock.unlock();
  const std::string place = "communicator/" + communicator;
  store_->add(place, 1);
  meet(place, members,
       fmt::format("rank {}, which makes a communicator for its first {},", rank_of(getRank()),
                   first));
  lock.lock();
  return queues_[communicator];
}

/// Blocks until as many ranks as there are members have come to the place.
void BlockingBackend::meet(const std::string& place, std::size_t members,
                           const std::string& caller) {
  const auto end = std::chrono::steady_clock::now() + patience_;
  while (store_->add(place, 0) < static_cast<std::int64_t>(members)) {
    if (aborted_) throw std::runtime_error("the process group has ended");
    if (std::chrono::steady_clock::now() > end) std::rethrow_exception(hang(caller, patience_));
    std::this_thread::sleep_for(kPause);
  }
}

void BlockingBackend::abort() {
  aborted_ = true;
  const std::lock_guard lock(mutex_);
  for (auto& [communicator, queue] : queues_) queue.stop();
}

std::int64_t BlockingBackend::rank_of(int member) const {
  return ranks_[static_cast<std::size_t>(member)];
}

std::string BlockingBackend::of_all() const {
  return fmt::format("{}", fmt::join(ranks_, ","));
}

}  // namespace slimpack::testing
