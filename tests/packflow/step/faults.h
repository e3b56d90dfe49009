// Faults: ranks of an engine that throw where a test wants them to: before an action, before or
// after a call of their communicator, or where a tensor is allocated, as when memory runs out.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "slimpack/packflow/step/engine.h"
#include "tests/packflow/step/watched_communicator.h"

namespace slimpack::testing {

/// The n-th time (from 1) that a rank comes to a place in a step. Places are "F", "B", "I", "W",
/// "E", "H" and "G" (before an action), "before" and "after" a call of the communicator ("before
/// send forward"), and allocations in what the rank does ("in F", "in set-up", "in reduction", "in
/// update").
struct FaultPoint {
  std::int32_t rank;
  std::string place;
  int n;
  auto operator<=>(const FaultPoint&) const = default;
};

struct Fault : std::runtime_error {
  explicit Fault(FaultPoint at)
      : std::runtime_error("rank " + std::to_string(at.rank) + ", " + at.place + ", time " +
                           std::to_string(at.n)),
        point(std::move(at)) {}
  FaultPoint point;
};

/// Thread-safe, and of all engines whose options it was put into; these run one after the other.
class Faults final : public CommunicatorWatch {
 public:
  using Clock = std::chrono::steady_clock;
  using Counts = std::map<std::pair<std::string, std::int32_t>, int>;  ///< by place and rank

  /// For engines that run these schedules, by replica.
  Faults(const RankGrid& grid, const std::vector<Schedule>& schedules)
      : grid_(grid), schedules_(schedules), ranks_(static_cast<std::size_t>(grid.ranks())) {}

  void put_into(EngineOptions& options) {
    options.hooks.before_action = [this] { before_action(); };
    options.hooks.wrap_communicator = [this](std::int32_t rank, std::unique_ptr<Communicator> own) {
      begin(rank);
      return watched_by(*this)(rank, std::move(own));
    };
  }

  /// The next step throws at these points, where it calls `first` before.
  void arm(
      std::vector<FaultPoint> points, std::function<void()> first = [] {}) {
    const std::lock_guard lock(mutex_);
    points_ = std::move(points);
    first_ = std::move(first);
    counts_.clear();
    rank_of_.clear();
    updating_ = false;
  }

  /// Since arm().
  [[nodiscard]] Counts counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  /// Whether a rank has begun to update its parameters since arm().
  [[nodiscard]] bool updating() const {
    const std::lock_guard lock(mutex_);
    return updating_;
  }
  [[nodiscard]] Clock::time_point last_thrown() const {
    const std::lock_guard lock(mutex_);
    return last_thrown_;
  }

  void before(const CommunicatorCall& call) override {
    if (call.name == "world sum" || call.name.starts_with("data ") ||
        call.name.starts_with("tied "))
      at_end(call.rank);
    come_to(call.rank, "before " + call.name);
  }
  void after(const CommunicatorCall& call) override {
    if (call.name == "world all_gather") update(call.rank);  // of the gradient norm
    come_to(call.rank, "after " + call.name);
  }

  /// A tensor is being allocated on this thread.
  void allocation() {
    std::int32_t rank = -1;
    std::string place;
    {
      const std::lock_guard lock(mutex_);
      const auto it = rank_of_.find(std::this_thread::get_id());
      if (it == rank_of_.end()) return;
      rank = it->second;
      place = "in " + at(rank).doing;
    }
    come_to(rank, place);
  }

 private:
  struct Rank {
    std::size_t actions = 0;
    std::string doing;
  };
  Rank& at(std::int32_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }

  void begin(std::int32_t rank) {
    const std::lock_guard lock(mutex_);
    rank_of_[std::this_thread::get_id()] = rank;
    at(rank) = {.doing = "set-up"};
  }

  void before_action() {
    std::int32_t rank = -1;
    std::string place;
    {
      const std::lock_guard lock(mutex_);
      rank = rank_of_.at(std::this_thread::get_id());
      const RankPlace stands = grid_.place(rank);
      const Action& action =
          schedules_[stands.replica.index()]
              .ranks[static_cast<std::size_t>(stands.pipeline)][at(rank).actions++];
      constexpr std::array<const char*, 7> kNames{"F", "B", "I", "W", "E", "H", "G"};
      place = at(rank).doing = kNames[static_cast<std::size_t>(action.pass)];
    }
    come_to(rank, place);
  }

  void at_end(std::int32_t rank) {
    const std::lock_guard lock(mutex_);
    if (at(rank).doing != "update") at(rank).doing = "reduction";
  }
  void update(std::int32_t rank) {
    const std::lock_guard lock(mutex_);
    at(rank).doing = "update";
    updating_ = true;
  }

  void come_to(std::int32_t rank, const std::string& place) {
    std::function<void()> first;
    FaultPoint here{rank, place, 0};
    {
      const std::lock_guard lock(mutex_);
      here.n = ++counts_[{place, rank}];
      if (std::find(points_.begin(), points_.end(), here) == points_.end()) return;
      first = first_;
    }
    first();
    {
      const std::lock_guard lock(mutex_);
      last_thrown_ = Clock::now();
    }
    throw Fault(here);
  }

  RankGrid grid_;
  const std::vector<Schedule>& schedules_;
  mutable std::mutex mutex_;
  std::vector<Rank> ranks_;
  std::map<std::thread::id, std::int32_t> rank_of_;
  std::vector<FaultPoint> points_;
  std::function<void()> first_;
  Counts counts_;
  bool updating_ = false;
  Clock::time_point last_thrown_;
};

/// While alive, every allocation of a CPU tensor is a place where faults may throw.
class FaultyAllocator final : public c10::Allocator {
 public:
  explicit FaultyAllocator(Faults& faults) : faults_(faults), usual_(*c10::GetCPUAllocator()) {
    c10::SetCPUAllocator(this, kPriority);
  }
  ~FaultyAllocator() override { c10::SetCPUAllocator(&usual_, kPriority); }

  at::DataPtr allocate(std::size_t bytes) override {
    faults_.allocation();
    return usual_.allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override { return usual_.raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    usual_.copy_data(to, from, bytes);
  }

 private:
  static constexpr std::uint8_t kPriority = 255;
  Faults& faults_;
  c10::Allocator& usual_;
};

}  // namespace slimpack::testing
