// Row store: keeps the rows of every layer by forward MicroPack and hands them out by backward
// MicroPack.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/stores/host_rows.h"
#include "slimpack/packflow/stores/layer_rows.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/regroup.h"

namespace slimpack {

/// Who holds rows: one of a replica's tensor-parallel ranks.
struct RowHolder {
  ReplicaId replica{0};
  std::int32_t tensor = 1;
  std::int32_t index = 0;
};

/// Rows of one stage during one step. A forward MicroPack's rows are freed, layer by layer, when
/// the last backward MicroPack that uses them has run through that layer. Layers that offload keep
/// theirs in host memory (host_rows.h); the store does not change who frees what when.
class RowStore {
 public:
  /// `layers` counts the places per MicroPack: the stage's layers, and on the last stage one more
  /// for the head's input. Rows are those of `holder`: its own rows of hidden states and of
  /// normalised values, and all rows of its replica of everything else; of queries and results of
  /// attention those with which it attends. `offloads`: by layer, those
  /// that keep their rows in host memory, on any device but a CPU; places beyond its end do not.
  RowStore(const PackPlan& packs, std::size_t layers, const RowHolder& holder = {},
           std::vector<bool> offloads = {});

  /// Keeps the rows of a forward MicroPack. Rows that are offloaded leave the device with the next
  /// put or settle. REQUIRES: not kept before.
  void put(PackId forward, std::size_t layer, LayerRows rows);

  /// At the end of a forward MicroPack: what is offloaded has left the device.
  void settle();

  /// Begins to fetch the rows of a backward MicroPack where they are offloaded: gather() of the
  /// same comes next. Elsewhere there is nothing to do.
  void prefetch(PackId backward, std::size_t layer);

  /// The rows of a backward MicroPack, in its slice order: views when they lie together in one
  /// forward MicroPack, else copies, but for gate and up; copies of those that are offloaded.
  /// Tensors without rows where the rank holds none.
  [[nodiscard]] BackwardRows gather(PackId backward, std::size_t layer);

  /// The backward MicroPack is done with this layer.
  void release(PackId backward, std::size_t layer);

  /// True when every row has been released.
  [[nodiscard]] bool empty() const;

 private:
  struct Kept {
    LayerRows rows;
    /// Rows that no backward MicroPack has released yet, in attention and outside of it.
    Tokens unused;
  };
  void remember_form(std::size_t layer, const LayerRows& rows);
  [[nodiscard]] bool offloads(std::size_t layer) const {
    return layer < offloads_.size() && offloads_[layer];
  }
  [[nodiscard]] RowParts parts(PackId backward, std::size_t layer) const;
  [[nodiscard]] const std::vector<RowSegment>& segments(PackId backward, std::size_t tensor) const;

  std::vector<Tokens> forward_rows_;               ///< Kept::unused to begin with
  std::vector<std::vector<RowSegment>> segments_;  ///< by backward pack: the replica's rows
  std::vector<std::vector<RowSegment>> attention_segments_;  ///< likewise: those in attention
  std::vector<std::vector<RowSegment>> hidden_segments_;     ///< likewise: the holder's own
  std::vector<std::vector<Kept>> kept_;                      ///< [layer][forward pack]
  std::vector<LayerRows> none_;  ///< by layer: the kept tensors, without rows, on the device
  std::vector<bool> offloads_;
  std::optional<HostRows> host_;  ///< once anything is offloaded
  std::optional<std::pair<PackId, std::size_t>> fetching_;
};

}  // namespace slimpack
