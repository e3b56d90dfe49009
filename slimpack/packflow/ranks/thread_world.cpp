#include "slimpack/packflow/ranks/thread_world.h"

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/ranks/communicator.h"
#include "slimpack/packflow/ranks/thread_collective.h"
#include "slimpack/packflow/ranks/thread_messages.h"

namespace slimpack {

struct ThreadWorld::State {
  State(const RankGrid& rank_grid, int slots, std::optional<LinkUse> link_use,
        std::function<bool()> stop)
      : grid(rank_grid), links(std::move(link_use)), should_stop(std::move(stop)) {
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      for (std::int32_t local = 0; local < grid.placement.stages_per_rank(); ++local)
        for (auto& of_direction : channels)
          of_direction.push_back(std::make_unique<ThreadChannel>(failure, rank, slots));
      for (const RankGroup& g : collective_groups(grid, rank))
        if (!groups.contains(g))
          groups.emplace(g, std::make_unique<ThreadCollective>(failure, g, links));
    }
  }

  RankGrid grid;
  std::optional<LinkUse> links;
  std::function<bool()> should_stop;
  SharedFailure failure;
  std::array<std::vector<std::unique_ptr<ThreadChannel>>, 2> channels;  ///< [direction][inbox]
  std::map<RankGroup, std::unique_ptr<ThreadCollective>> groups;
};

class ThreadWorld::Member final : public GroupedCommunicator {
 public:
  Member(State& state, std::int32_t rank, RankClock& clock)
      : state_(state), rank_(rank), clock_(clock) {
    if (state.links) link_.emplace(state.links->map, rank);
    for (const RankGroup& g : collective_groups(state.grid, rank))
      add(g, state.groups.at(g)->member(g.member(rank), clock, link()));
  }

  /// Does nothing: the receiver gets the sender's tensor itself, with its memory.
  void post_receive(Inbox /*inbox*/, const MessageForm& /*form*/) override {}

  void send(Inbox inbox, at::Tensor rows_TH) override {
    channel(inbox).send(clock_, link(), std::move(rows_TH));
  }
  at::Tensor receive(Inbox inbox) override { return channel(inbox).receive(clock_, waited_); }
  /// Does nothing: receivers have what was sent.
  void settle() override {}
  [[nodiscard]] std::span<const WaitedInput> waited_inputs() const override { return waited_; }

  void require_peers() override {
    state_.failure.require_none();
    if (state_.should_stop && state_.should_stop())
      throw Interrupted("stopped on request within a step");
  }

 private:
  SenderLink* link() { return link_ ? &*link_ : nullptr; }
  ThreadChannel& channel(Inbox inbox) {
    const RankGrid& grid = state_.grid;
    SLIMPACK_CHECK(inbox.stage.value() >= 0 && inbox.stage.value() < grid.stages());
    RankPlace receiver = grid.place(rank_);
    receiver.pipeline = grid.placement.rank_of(inbox.stage);
    const std::int32_t index = grid.rank(receiver) * grid.placement.stages_per_rank() +
                               grid.placement.local_stage(inbox.stage);
    return *state_.channels[inbox.direction == Direction::kForward ? 0 : 1].at(
        static_cast<std::size_t>(index));
  }

  State& state_;
  std::int32_t rank_;
  RankClock& clock_;
  std::optional<SenderLink> link_;  ///< in virtual time over links
  std::vector<WaitedInput> waited_;
};

ThreadWorld::ThreadWorld(const RankGrid& grid, int slots, std::optional<LinkUse> links,
                         std::function<bool()> should_stop)
    : state_(std::make_unique<State>(grid, slots, std::move(links), std::move(should_stop))) {}
ThreadWorld::~ThreadWorld() = default;

std::unique_ptr<Communicator> ThreadWorld::communicator(std::int32_t rank, RankClock& clock) {
  return std::make_unique<Member>(*state_, rank, clock);
}

void ThreadWorld::fail(std::exception_ptr cause) {
  state_->failure.fail(std::move(cause));
}

std::exception_ptr ThreadWorld::cause() const {
  return state_->failure.cause();
}

}  // namespace slimpack
