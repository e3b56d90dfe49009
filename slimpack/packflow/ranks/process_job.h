// Ranks as processes: each process runs one rank. PyTorch's process groups connect them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "slimpack/packflow/ranks/process_reduction.h"
#include "slimpack/packflow/ranks/rank_grid.h"
#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

/// The groups of a rank that need a process group: edge_groups, and others of more than one rank.
/// PyTorch numbers process groups for their names. So in this order all members of a group have
/// made equally many process groups before it.
[[nodiscard]] std::vector<RankGroup> process_groups(const RankGrid& grid, std::int32_t rank);

/// The process of one rank. Calls throw PeerLost (process_exchange.h) if another process does not
/// answer within the timeout of its group.
class ProcessJob final : public JobProcess {
 public:
  /// `names`: PyTorch's names of the process_groups(). `failed`: whether another process has
  /// reported a failure; called between layers. `timeout`: of the process groups. Groups that sum
  /// gradients get four times the longest step so far if that is more: a replica that has done its
  /// part begins all reductions at once, and waits for the slowest one from then on. `sums`: of
  /// gradients.
  ProcessJob(const RankGrid& grid, std::int32_t rank, const std::map<RankGroup, std::string>& names,
             std::function<bool()> failed, Nanos timeout,
             const GradientSums& sums = gradient_sums(/*same_bits=*/true));
  ~ProcessJob() override;

  [[nodiscard]] std::vector<std::int32_t> ranks() const override { return {rank_}; }
  [[nodiscard]] std::int32_t ranks_per_node() const override { return grid_.ranks_per_node; }
  [[nodiscard]] std::unique_ptr<World> make_world() override;
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& own) override;

 private:
  struct Ends;
  class Member;
  class ConnectedWorld;

  RankGrid grid_;
  std::int32_t rank_;
  std::unique_ptr<Ends> ends_;
};

}  // namespace slimpack
