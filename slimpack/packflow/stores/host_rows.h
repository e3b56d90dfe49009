// Host rows: rows on their way between a device and pinned host memory, copied by a queue of their
// own while the rank's queue computes. Queues wait for each other; the host waits for neither.
//
// Out: the copies wait for the work that the rank's queue has so far. The device's rows stay until
// the rank's queue waits for the copies. So they are freed in that queue's order, and every run has
// the same bytes alive. Back: the memory belongs to the rank's queue. So the copies wait for its
// work so far, and it waits for them before anybody reads.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <array>
#include <functional>
#include <optional>
#include <vector>

#include "slimpack/packflow/stores/layer_rows.h"

namespace slimpack {

/// The tensors that lie end to end in each tensor of LayerRows.
using RowParts = std::array<std::vector<at::Tensor>, LayerRows::kTensors>;

/// Moves the rows of one rank, on whose thread all calls are made. At most one layer's rows are on
/// their way out at any time, and one layer's back.
class HostRows {
 public:
  /// REQUIRES: a device that has queues, no CPU.
  explicit HostRows(at::Device device);
  HostRows(const HostRows&) = delete;
  HostRows& operator=(const HostRows&) = delete;
  ~HostRows();

  /// Begins to copy a layer's rows, which nobody may change any more; returns the tensors in host
  /// memory that they go to, for fetch(). REQUIRES: what was sent before is settled.
  [[nodiscard]] LayerRows send(LayerRows rows);
  /// The rank's queue waits for what was sent; the device's rows are given up.
  void settle();

  /// Begins to copy parts of rows in host memory into tensors on the device; tensors without a part
  /// come from `none`. REQUIRES: what was fetched before is taken.
  void fetch(const RowParts& parts, const LayerRows& none);
  /// The rank's queue waits for what was fetched; returns it.
  [[nodiscard]] LayerRows take();

 private:
  struct OnTheWay {
    LayerRows rows;  ///< on the device
    c10::Event done;
  };
  /// Runs `copies` on their queue, behind all that the rank's has so far.
  [[nodiscard]] c10::Event enqueue(const std::function<void()>& copies) const;
  /// The rank's queue waits for them.
  LayerRows awaited(std::optional<OnTheWay>& rows) const;

  at::Device device_;
  c10::Stream copies_;
  std::optional<OnTheWay> out_, back_;
};

}  // namespace slimpack
