#include "slimpack/packflow/ranks/peer_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <utility>

#include "slimpack/base/human.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/threads.h"

namespace slimpack {
namespace {

constexpr const char* kFailed = "slimpack/failed";
/// A rank that has ended has at least so many beats.
constexpr std::int64_t kDone = std::int64_t{1} << 40;
/// How long the store may take to answer.
constexpr std::chrono::seconds kAnswer(2);
/// A process may take so long to end by itself after another one failed.
constexpr Nanos kGrace{2'000'000'000};

}  // namespace

PeerHealth::PeerHealth(const std::string& world, Nanos timeout, OnFailure on_failure)
    : timeout_(timeout), on_failure_(std::move(on_failure)), last_beat_(monotonic_now()) {
  const auto group = c10d::resolve_process_group(world);
  // A separate connection: waits of other users would delay the beats.
  store_ = group->getStore()->clone();
  rank_ = group->getRank();
  next_ = (rank_ + 1) % group->getSize();
  store_->setTimeout(std::chrono::milliseconds(timeout.count() / 1'000'000));
  thread_ = started("watching the job's other processes",
                    [this] { return std::thread([this] { watch(); }); });
}

PeerHealth::~PeerHealth() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stop_changed_.notify_all();
  thread_.join();
  try {
    store_->add(alive(rank_), kDone);
  } catch (const std::exception&) {
    // The store has ended, and so has the job.
  }
}

std::string PeerHealth::alive(std::int32_t rank) const {
  return fmt::format("slimpack/alive/{}", rank);
}

bool PeerHealth::report(const std::string& cause) {
  failed_ = true;
  // The process that holds the store may have stopped, and a call of the store may wait for ever.
  // So a separate thread calls it, and nobody waits for that thread.
  auto first = std::make_shared<std::promise<bool>>();
  std::future<bool> answer = first->get_future();
  try {
    std::thread([first, store = store_, own = fmt::format("rank {}: {}", rank_, cause)] {
      try {
        first->set_value(store->clone()->compareSet(kFailed, "", own) == own);
      } catch (const std::exception&) {
        first->set_value(true);
      }
    }).detach();
  } catch (const std::system_error&) {
    return true;
  }
  // Without an answer this cause is reported as the first: two reports are better than none.
  return answer.wait_for(kAnswer) == std::future_status::timeout || answer.get();
}

std::chrono::nanoseconds PeerHealth::interval() const {
  return std::chrono::nanoseconds(
      std::clamp<std::int64_t>(timeout_.count() / 10, 50'000'000, 1'000'000'000));
}

void PeerHealth::let_others_report() const {
  const auto end = std::chrono::steady_clock::now() + 2 * interval();
  while (!failed_ && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(interval() / 10);
}

void PeerHealth::watch() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    const bool go_on = look();
    lock.lock();
    if (!go_on) return;
    stop_changed_.wait_for(lock, interval(), [&] { return stop_; });
  }
}

bool PeerHealth::look() {
  const Nanos now = monotonic_now();
  try {
    store_->add(alive(rank_), 1);
    if (store_->check({kFailed})) {
      failed_ = true;
      if (!failed_since_) failed_since_ = now;
      if (now - *failed_since_ < kGrace) return true;
      on_failure_(std::nullopt);
      return false;
    }
    const std::int64_t beats = store_->add(alive(next_), 0);
    if (beats != beats_ || beats >= kDone) {
      beats_ = beats;
      last_beat_ = now;
    }
    if (now - last_beat_ < timeout_) return true;
    const std::string cause = fmt::format(
        "rank {} has not been heard of for {}; its process has stopped or ended, or "
        "its machine cannot be reached",
        next_, human_duration(timeout_));
    on_failure_(report(cause) ? std::optional(cause) : std::nullopt);
  } catch (const std::exception& e) {
    failed_ = true;
    // The process that holds the store ends with a job that has failed.
    if (failed_since_) {
      on_failure_(std::nullopt);
      return false;
    }
    const std::string reason = e.what();
    on_failure_(
        fmt::format("the job's store does not answer, so the process that holds it has "
                    "ended: {}",
                    reason.substr(0, reason.find('\n'))));
  }
  return false;
}

}  // namespace slimpack
