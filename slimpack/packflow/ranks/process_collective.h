// Groups of ranks that are processes.
//
// Members send everything directly to each other, and every member sums its own shard. This sends
// as many bytes as a ring, and gives the same bits as threads. Where bits may differ, collectives
// of PyTorch's backend sum gradients instead (process_reduction.h). In large groups members pass on
// what others gave and sum for others (process_transfers.h), so that they need few connections. A
// reduction then sends one part in √n more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "slimpack/packflow/ranks/collective.h"
#include "slimpack/packflow/ranks/process_exchange.h"
#include "slimpack/packflow/ranks/process_reduction.h"

namespace slimpack {

/// With routing (Zeppelin, arXiv:2509.21841) a transfer to another node leaves over the cards of
/// several ranks of the circle: the sender deals its rows out to those of its node, each sends its
/// part to one of the other node, and the receiver collects them. Dealing ends before start_shift
/// returns, the way between the nodes takes place meanwhile, and finish_shift collects.
class ProcessShifts final : public Shifts {
 public:
  /// `route_over`: the ranks of a node; 0: all transfers are straight. `peers` must outlive it.
  ProcessShifts(ProcessPeers& peers, std::int32_t route_over)
      : peers_(peers), route_over_(route_over) {}

  void start_shift(std::vector<at::Tensor> tensors, const Zone& circle, std::int32_t step,
                   const std::vector<std::int64_t>& rows) override;
  [[nodiscard]] std::vector<at::Tensor> finish_shift(const Zone& circle) override;

 private:
  using Travelling = std::vector<ProcessPeers::Message>;
  /// A part of a member's rows, and the members on its way: from the sender to a rank of its node,
  /// to one of the receiver's node, to the receiver. All are members of the circle.
  struct Part {
    std::int32_t sender, out, in, receiver;
    std::int64_t begin, rows;              ///< of the sender's
    std::vector<at::Tensor> tensors = {};  ///< where the rank has them
  };
  /// An unfinished shift.
  struct Shift {
    std::vector<at::Tensor> received;
    Travelling messages;
    std::vector<Part> parts;  ///< those that pass this rank
  };

  [[nodiscard]] std::int32_t node(const Zone& circle, std::int32_t member) const;
  /// The members of the circle on a member's node, from this one on.
  [[nodiscard]] std::vector<std::int32_t> neighbours(const Zone& circle, std::int32_t member) const;
  [[nodiscard]] std::vector<Part> parts_of(const Zone& circle, std::int32_t sender,
                                           std::int32_t receiver, std::int64_t rows) const;
  /// Moves parts on, from those that have them `from` to those that get them `to`.
  [[nodiscard]] Travelling pass_on(Shift& shift, std::int32_t Part::*from, std::int32_t Part::*to,
                                   const Zone& circle);

  ProcessPeers& peers_;
  std::int32_t route_over_;
  std::map<Zone, std::deque<Shift>> shifting_;
};

/// The flat tensors of all members, of which member m's has sizes[m] elements. Members of a large
/// group pass on what others gave (process_transfers.h).
[[nodiscard]] std::vector<at::Tensor> all_gather_sized(ProcessPeers& peers, const at::Tensor& own_N,
                                                       const std::vector<std::int64_t>& sizes);

/// A member's end. `peers` must outlive it. `shards`: how the group sums gradients; null: by
/// messages. `route_over`: the ranks of a node, over which shifts to others are spread; 0 = not.
/// Calls throw PeerLost.
[[nodiscard]] Collective process_collective(ProcessPeers& peers,
                                            std::unique_ptr<ShardReduction> shards = nullptr,
                                            std::int32_t route_over = 0);

}  // namespace slimpack
