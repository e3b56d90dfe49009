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
                                 std::vector<std::int64_t> ranks, Patience patience, bool eager)
    : Backend(gloo->getRank(), gloo->getSize()),
      gloo_(std::move(gloo)),
      store_(std::move(store)),
      name_(std::move(name)),
      ranks_(std::move(ranks)),
      patience_(patience) {
  if (eager) eagerConnectSingleDevice(at::kCPU);
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
  return post(of_all(), ranks_.size(), fmt::format("batch of {}", batch.what),
              [begins = batch.begins] {
                Works all;
                for (const Begin& begin : begins)
                  std::ranges::copy(begin(), std::back_inserter(all));
                return all;
              });
}

WorkPtr BlockingBackend::send(Tensors& tensors, int to, int /*tag*/) {
  return between(fmt::format("send to {}", rank_of(to)), to,
                 [tensors, to](Backend& gloo) mutable { return gloo.send(tensors, to, kTag); });
}

WorkPtr BlockingBackend::recv(Tensors& tensors, int from, int /*tag*/) {
  return between(fmt::format("recv from {}", rank_of(from)), from,
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
  return post(of_all(), ranks_.size(), std::move(what),
              [gloo = gloo_, begin = std::move(begin)] { return Works{begin(*gloo)}; });
}

WorkPtr BlockingBackend::between(std::string what, int peer,
                                 std::function<WorkPtr(c10d::Backend&)> begin) {
  if (eager_ || batch_) return collective(std::move(what), std::move(begin));
  const std::int64_t low = std::min(rank_of(getRank()), rank_of(peer));
  const std::int64_t high = std::max(rank_of(getRank()), rank_of(peer));
  return post(fmt::format("{}:{}", low, high), 2, std::move(what),
              [gloo = gloo_, begin = std::move(begin)] { return Works{begin(*gloo)}; });
}

WorkPtr BlockingBackend::post(const std::string& communicator, std::size_t members,
                              std::string what, Begin begin) {
  note_posting_thread();
  if (batch_) {
    batch_->what += fmt::format("{}{}", batch_->what.empty() ? "" : ", ", what);
    batch_->begins.push_back(std::move(begin));
    return {};
  }
  what += fmt::format(" on communicator {} of group {}", communicator, name_);
  OperationQueue& queue = queue_of(communicator, members, what);
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
  meet(communicator, members, first);
  lock.lock();
  return queues_[communicator];
}

/// Blocks until as many ranks have called this as the communicator has members.
void BlockingBackend::meet(const std::string& communicator, std::size_t members,
                           const std::string& first) {
  const std::string come = "communicator/" + communicator;
  const auto end = std::chrono::steady_clock::now() + patience_;
  store_->add(come, 1);
  while (store_->add(come, 0) < static_cast<std::int64_t>(members)) {
    if (aborted_) throw std::runtime_error("the process group has ended");
    if (std::chrono::steady_clock::now() > end)
      std::rethrow_exception(
          hang(fmt::format("rank {}, which makes a communicator for its first {},",
                           rank_of(getRank()), first),
               patience_));
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
