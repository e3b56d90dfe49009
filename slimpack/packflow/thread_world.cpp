#include "slimpack/packflow/thread_world.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/packflow/thread_channel.h"
#include "slimpack/packflow/thread_collective.h"

namespace slimpack {
namespace {

enum class GroupKind : std::uint8_t { kWorld, kData, kContext, kTensor, kTied };

/// A group of the grid, and where a rank stands in it.
struct Membership {
  GroupKind kind;
  std::int32_t size;
  std::int32_t first;  ///< rank of its first member, which tells groups of a kind and size apart
  std::int32_t index;
};

std::vector<Membership> memberships(const RankGrid& grid, std::int32_t rank) {
  const RankPlace place = grid.place(rank);
  const std::int32_t replica = place.replica.value();
  const auto rank_at = [&](std::int32_t r, std::int32_t s, std::int32_t t) {
    return grid.rank({ReplicaId(r), StageId(s), t});
  };
  const std::int32_t stage = place.stage.value();
  std::vector<Membership> out{
      {GroupKind::kWorld, grid.ranks(), 0, rank},
      {GroupKind::kData, grid.replicas, rank_at(0, stage, place.tensor), replica},
      {GroupKind::kTensor, grid.tensor, rank_at(replica, stage, 0), place.tensor}};
  for (std::int32_t size = 2; size <= grid.replicas; size *= 2) {
    const std::int32_t begin = replica - replica % size;
    if (begin + size > grid.replicas) break;
    out.push_back(
        {GroupKind::kContext, size, rank_at(begin, stage, place.tensor), replica - begin});
  }
  if (grid.stages > 1 && (stage == 0 || stage == grid.stages - 1))
    out.push_back({GroupKind::kTied, 2, rank_at(replica, 0, place.tensor), stage == 0 ? 0 : 1});
  return out;
}

using GroupKey = std::array<std::int32_t, 3>;  ///< kind, size, first

GroupKey key_of(const Membership& m) {
  return {static_cast<std::int32_t>(m.kind), m.size, m.first};
}

}  // namespace

struct ThreadWorld::State {
  State(const RankGrid& rank_grid, int slots) : grid(rank_grid) {
    for (std::int32_t rank = 0; rank < grid.ranks(); ++rank) {
      for (auto& of_direction : channels)
        of_direction.push_back(std::make_unique<ThreadChannel>(failure, rank, slots));
      for (const Membership& m : memberships(grid, rank))
        if (!groups.contains(key_of(m)))
          groups.emplace(key_of(m), std::make_unique<ThreadCollective>(failure, m.size));
    }
  }

  RankGrid grid;
  SharedFailure failure;
  std::array<std::vector<std::unique_ptr<ThreadChannel>>, 2> channels;  ///< [direction][receiver]
  std::map<GroupKey, std::unique_ptr<ThreadCollective>> groups;
};

class ThreadWorld::Member final : public Communicator {
 public:
  Member(State& state, std::int32_t rank, RankClock& clock)
      : state_(state), rank_(rank), clock_(clock) {
    for (const Membership& m : memberships(state.grid, rank))
      groups_.emplace(std::pair(m.kind, m.kind == GroupKind::kContext ? m.size : 0),
                      state.groups.at(key_of(m))->member(m.index, clock));
  }

  /// Tensors change hands, so they bring their memory along.
  void expect(Direction /*direction*/, ExpectedMessages /*messages*/) override {}

  void send(Direction direction, at::Tensor rows_TH) override {
    const std::int32_t step = direction == Direction::kForward ? 1 : -1;
    const std::int32_t stage = state_.grid.place(rank_).stage.value() + step;
    SLIMPACK_CHECK(stage >= 0 && stage < state_.grid.stages);
    channel(direction, rank_ + step * state_.grid.tensor).send(clock_, std::move(rows_TH));
  }
  at::Tensor receive(Direction direction) override {
    return channel(direction, rank_).receive(clock_);
  }

  void require_peers() override { state_.failure.require_none(); }

  Collective& world() override { return group(GroupKind::kWorld); }
  Collective& data() override { return group(GroupKind::kData); }
  Collective& context(std::int32_t replicas) override {
    return group(GroupKind::kContext, replicas);
  }
  Collective& tensor() override { return group(GroupKind::kTensor); }
  Collective& tied() override { return group(GroupKind::kTied); }

 private:
  ThreadChannel& channel(Direction direction, std::int32_t receiver) {
    return *state_.channels[direction == Direction::kForward ? 0 : 1].at(
        static_cast<std::size_t>(receiver));
  }
  Collective& group(GroupKind kind, std::int32_t size = 0) {
    const auto it = groups_.find({kind, size});
    SLIMPACK_CHECK(it != groups_.end(), "rank {} is in no such group", rank_);
    return *it->second;
  }

  State& state_;
  std::int32_t rank_;
  RankClock& clock_;
  std::map<std::pair<GroupKind, std::int32_t>, std::unique_ptr<Collective>> groups_;
};

ThreadWorld::ThreadWorld(const RankGrid& grid, int slots)
    : state_(std::make_unique<State>(grid, slots)) {}
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
