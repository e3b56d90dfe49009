#include "slimpack/packflow/thread_group.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/memory_tracker.h"

namespace slimpack {

/// One mutex for all: messages are few (one per action) and carry pointers only.
struct ThreadGroup::State {
  State(std::int32_t rank_count, int slot_count)
      : ranks(rank_count),
        slots(static_cast<std::size_t>(slot_count)),
        channels(2 * static_cast<std::size_t>(rank_count)),
        values(static_cast<std::size_t>(rank_count)) {}

  /// The channel that `receiver` reads from.
  std::deque<at::Tensor>& channel(std::int32_t receiver, Direction direction) {
    return channels.at(2 * static_cast<std::size_t>(receiver) +
                       (direction == Direction::kForward ? 0 : 1));
  }

  template <class Ready>
  void wait(std::unique_lock<std::mutex>& lock, Ready ready) {
    changed.wait(lock, [&] { return cause != nullptr || ready(); });
    if (cause) throw PeerFailed();
  }

  /// A place where ranks meet, round after round.
  struct Meeting {
    std::int32_t arrived = 0;
    std::uint64_t round = 0;
  };

  /// Waits until `expected` callers have come; `last_in` runs once, in the last of them.
  template <class LastIn>
  void meet(std::unique_lock<std::mutex>& lock, Meeting& meeting, std::int32_t expected,
            LastIn last_in) {
    if (cause) throw PeerFailed();  // whoever came before has left without a round
    const std::uint64_t my_round = meeting.round;
    if (++meeting.arrived == expected) {
      last_in();
      meeting.arrived = 0;
      ++meeting.round;
      changed.notify_all();
    } else {
      wait(lock, [&] { return meeting.round != my_round; });
    }
  }

  const std::int32_t ranks;
  const std::size_t slots;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::deque<at::Tensor>> channels;
  std::vector<double> values;  ///< by rank: what this round's sum adds
  double total = 0;
  std::vector<at::Tensor> tied;       ///< gradients of the two holders of a tied matrix
  Meeting sum_meeting, tied_meeting;  ///< apart: middle ranks sum while the ends still add
  std::exception_ptr cause;
};

class ThreadGroup::Member final : public Communicator {
 public:
  Member(State& state, std::int32_t rank) : state_(state), rank_(rank) {}

  void send(Direction direction, at::Tensor rows_TH) override {
    const std::int32_t receiver = rank_ + (direction == Direction::kForward ? 1 : -1);
    SLIMPACK_CHECK(receiver >= 0 && receiver < state_.ranks);
    std::unique_lock lock(state_.mutex);
    auto& channel = state_.channel(receiver, direction);
    state_.wait(lock, [&] { return channel.size() < state_.slots; });
    charge_to(rows_TH, receiver);
    channel.push_back(std::move(rows_TH));
    state_.changed.notify_all();
  }

  at::Tensor receive(Direction direction) override {
    std::unique_lock lock(state_.mutex);
    auto& channel = state_.channel(rank_, direction);
    state_.wait(lock, [&] { return !channel.empty(); });
    at::Tensor rows_TH = std::move(channel.front());
    channel.pop_front();
    state_.changed.notify_all();
    return rows_TH;
  }

  double sum(double value) override {
    std::unique_lock lock(state_.mutex);
    state_.values[static_cast<std::size_t>(rank_)] = value;
    state_.meet(lock, state_.sum_meeting, state_.ranks, [&] {
      state_.total = 0;
      for (const double v : state_.values) state_.total += v;
    });
    return state_.total;
  }

  void sum_tied(at::Tensor& gradient) override {
    std::unique_lock lock(state_.mutex);
    state_.tied.push_back(gradient);
    state_.meet(lock, state_.tied_meeting, 2, [&] {
      // Both tensors end up equal bit for bit: a + b is b + a in floating point.
      state_.tied[0].add_(state_.tied[1]);
      state_.tied[1].copy_(state_.tied[0]);
      state_.tied.clear();
    });
  }

 private:
  State& state_;
  std::int32_t rank_;
};

ThreadGroup::ThreadGroup(std::int32_t ranks, int slots)
    : state_(std::make_unique<State>(ranks, slots)) {}
ThreadGroup::~ThreadGroup() = default;

std::unique_ptr<Communicator> ThreadGroup::communicator(std::int32_t rank) {
  return std::make_unique<Member>(*state_, rank);
}

void ThreadGroup::fail(std::exception_ptr cause) {
  const std::lock_guard lock(state_->mutex);
  if (!state_->cause) state_->cause = std::move(cause);
  state_->changed.notify_all();
}

std::exception_ptr ThreadGroup::cause() const {
  const std::lock_guard lock(state_->mutex);
  return state_->cause;
}

}  // namespace slimpack
