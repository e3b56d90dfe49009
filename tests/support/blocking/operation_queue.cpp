#include "tests/support/blocking/operation_queue.h"

#include <ATen/ThreadLocalState.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace slimpack::testing {

struct OperationQueue::State {
  struct Entry {
    OperationPtr operation;
    Begin begin;
    /// The caller's. Gloo computes with tensors, also in wait(), and refuses tensors of inference
    /// in another mode.
    at::ThreadLocalState mode;
  };

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !waiting.empty(); });
      if (stop) return;
      const Entry entry = waiting.front();
      lock.unlock();
      execute(entry);
      lock.lock();
      running.clear();
      if (!waiting.empty()) waiting.pop_front();
    }
  }

  void execute(const Entry& entry) {
    try {
      const at::ThreadLocalStateGuard mode(entry.mode);
      const Works works = entry.begin();
      {
        const std::lock_guard lock(mutex);
        running = works;
      }
      for (const c10::intrusive_ptr<c10d::Work>& work : works) work->wait();
      entry.operation->end();
    } catch (const std::exception&) {
      entry.operation->end(std::current_exception());
    }
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Entry> waiting;  ///< the first one is under way
  Works running;
  bool stop = false;
};

OperationQueue::OperationQueue() : state_(std::make_shared<State>()) {
  std::thread([state = state_] { state->run(); }).detach();
}

void OperationQueue::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->stop = true;
  state_->changed.notify_all();
  const auto cause = std::make_exception_ptr(std::runtime_error("the process group has ended"));
  for (const State::Entry& entry : state_->waiting) entry.operation->end(cause);
  state_->waiting.clear();
  for (const c10::intrusive_ptr<c10d::Work>& work : state_->running) {
    try {
      work->abort();
    } catch (const std::exception&) {
      // Gloo's collectives cannot be aborted: they end with their connections.
    }
  }
}

void OperationQueue::push(OperationPtr operation, Begin begin) {
  const std::lock_guard lock(state_->mutex);
  state_->waiting.push_back({std::move(operation), std::move(begin), at::ThreadLocalState()});
  state_->changed.notify_all();
}

}  // namespace slimpack::testing
