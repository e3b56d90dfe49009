// Folded ranks: the stages of a rank as one stage, which runs the MicroPacks of all of them. So a
// rule that orders one stage a rank orders several.
#pragma once

#include <cstdint>
#include <vector>

#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {

/// A MicroPack on one of a rank's stages, which is a MicroPack of the folded rank.
struct FoldedPack {
  PackId pack;
  std::int32_t local_stage = 0;

  bool operator==(const FoldedPack&) const = default;
};

/// The order in which every rank runs its stages' MicroPacks of one pass: batch by batch, in
/// rounds. Each round passes one stage of a rank after the other, forward from the first, backward
/// from the last. A round has as many MicroPacks as there are ranks or a few more, less than twice
/// as many, so that its first one arrives at the rank's next stage when its last one has left this
/// one (Megatron's interleaved schedule, arXiv:2104.04473, section 2.2; SlimPipe,
/// arXiv:2504.14519).
class FoldedOrder {
 public:
  /// `batch_ends`: batches of consecutive packs, each up to its end.
  FoldedOrder(Pass pass, const std::vector<std::int32_t>& batch_ends, std::int32_t ranks,
              std::int32_t stages_per_rank);

  [[nodiscard]] const std::vector<FoldedPack>& all() const { return order_; }
  [[nodiscard]] FoldedPack operator[](PackId folded) const { return order_[folded.index()]; }
  [[nodiscard]] PackId place(FoldedPack of) const;
  [[nodiscard]] std::int32_t largest_round() const { return largest_round_; }

 private:
  void add_round(Pass pass, std::int32_t begin, std::int32_t end, std::int32_t stages_per_rank);

  std::vector<FoldedPack> order_;
  std::vector<std::int32_t> place_;  ///< [local stage · packs + pack]
  std::int32_t packs_;
  std::int32_t largest_round_ = 0;
};

/// Whether so many packs can pass in rounds of at least a pack for each rank, and of less than the
/// slots of an inbox more.
[[nodiscard]] bool has_rounds(std::int32_t packs, std::int32_t ranks);

/// Ends of batches of either pass: the backwards of a batch need its forwards and those of earlier
/// batches. Batches without rounds are joined with the next one, if that leaves any.
struct Batches {
  std::vector<std::int32_t> forward, backward;
};
/// `needed`: running_needs of the packs.
[[nodiscard]] Batches batches_of(const std::vector<std::int32_t>& needed, std::int32_t forwards,
                                 std::int32_t ranks);

/// Both passes of a step.
struct FoldedOrders {
  FoldedOrders(const Batches& batches, std::int32_t ranks, std::int32_t stages_per_rank);

  [[nodiscard]] const FoldedOrder& of(Pass pass) const {
    return pass == Pass::kForward ? forward : backward;
  }

  FoldedOrder forward, backward;
  std::int32_t ranks, stages_per_rank;
};

/// A replica's packs, times and bytes by folded rank. Sequence q on local stage l is sequence q ·
/// stages_per_rank + l. A pack that the replica lacks is empty and free. The inputs' bytes are
/// the same for all ranks; FoldedLinks says whether a rank receives one.
[[nodiscard]] ReplicaPacks folded(const ReplicaPacks& replica, const FoldedOrders& orders);

/// How many forwards come before each backward of a rank. With one stage a rank all three are the
/// same, and the last two are left empty.
struct ForwardNeeds {
  std::vector<std::int32_t> running;        ///< run before it
  std::vector<std::int32_t> arriving = {};  ///< have run once its input, or a later one's, can wait
  std::vector<std::int32_t> fitting = {};   ///< have to fit into memory before it
};

/// The forwards that a folded rank needs. A backward's packs have to run on all its stages first,
/// as they pass all stages before the gradient comes back. More forwards have to fit where a round
/// is longer than the slots of an inbox, so that no ranks wait for each other in a circle: the last
/// rank may then wait for a slot of the first, which is up to the difference ahead of it, and
/// backward the first for the last. `needed`: by backward pack, as running_needs.
[[nodiscard]] ForwardNeeds folded_needs(const std::vector<std::int32_t>& needed,
                                        const FoldedOrders& orders, std::int32_t slots);

/// The actions of folded ranks by the stages that they stand for.
[[nodiscard]] Schedule unfolded(const Schedule& folded, const FoldedOrders& orders);

/// How a message passes between folded ranks.
struct FoldedLink {
  std::int32_t rank = -1;  ///< of the other end; -1: there is none
  std::int32_t place = 0;  ///< its folded pack there
  std::int32_t begun = 0;  ///< of a target: so many folded packs must have begun for a free slot
};

/// The senders and the receivers of each folded pack of a pass, by rank.
struct FoldedLinks {
  FoldedLinks(const FoldedOrder& order, Pass pass, std::int32_t ranks, std::int32_t slots);

  std::vector<std::vector<FoldedLink>> source, target;  ///< [rank][folded pack]
};

}  // namespace slimpack
