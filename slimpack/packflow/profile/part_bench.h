// Part bench: runs one part of the model on MicroPacks of a profile's choosing.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/kernels/rope.h"
#include "slimpack/packflow/parameters/parameters.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_ranks.h"
#include "slimpack/packflow/step/stage_step.h"
#include "slimpack/plan/slice.h"
#include "slimpack/spec/recompute.h"

namespace slimpack {

/// Displaces what the calling thread's processor has in its own caches. A profile runs one layer
/// again and again, so weights and rows would wait in the caches as they never do in a step.
class ColdCaches {
 public:
  /// Displaces caches for ranks on this device; does nothing unless it is a CPU.
  explicit ColdCaches(c10::Device device);

  /// Cost: about a millisecond.
  void displace();

 private:
  std::vector<unsigned char> others_;
};

struct PassTimes {
  Nanos forward;
  Nanos backward;
};

/// The medians of several runs, and how much shorter the fastest was, as a share of it.
struct RepeatedTimes : PassTimes {
  double forward_spread = 0;
  double backward_spread = 0;
};

/// The type and device of tensors that a layer computes on.
[[nodiscard]] at::TensorOptions tensor_options(const ProfileOptions& options);

/// `slices` equal slices in one MicroPack, each the tail of its own sequence, run by `replicas`
/// together.
struct ProfilePoint {
  Tokens tokens;
  Tokens prefix;
  int slices = 1;
  std::int32_t replicas = 1;

  [[nodiscard]] Slice slice(int sequence) const {
    return {SequenceId(sequence), prefix, prefix + tokens};
  }
};

/// The MicroPack to measure is the last forward and the first backward one; where there is a
/// prefix, one more pack of each pass holds it, so that the plan is whole. That one never runs.
[[nodiscard]] PackPlan plan_of(const ProfilePoint& point);
[[nodiscard]] SequenceLengths lengths_of(const ProfilePoint& point);

/// A decoder layer, the embedding or the head, on one rank. Its tensor-parallel ranks, and the
/// replicas that run a point together, make the same calls.
class PartBench {
 public:
  enum class Part { kLayer, kEmbedding, kHead };

  /// Keeps references.
  PartBench(const ProfileOptions& options, const ProfileRank& rank, Part part);
  PartBench(const PartBench&) = delete;
  PartBench& operator=(const PartBench&) = delete;

  [[nodiscard]] StageParameters& parameters() { return parameters_; }

  /// Keeps a device at work for half of the profile's budget, at least once; does nothing on a CPU.
  /// A GPU that was idle runs at clocks that a step of seconds does not reach.
  void heat(const ProfilePoint& point);
  [[nodiscard]] PassTimes run(const ProfilePoint& point,
                              Recompute recompute = Recompute::kElementwise);
  /// Runs each point four to nine times, for about `share` of wall time, and keeps the median of
  /// each pass: a step has many actions, and few of them are as lucky as the fastest run. The first
  /// run warms up and does not count. The points take turns, so that a busy second spoils one run
  /// of some points, not all runs of one. Returns means over the ranks, in the order of the points.
  [[nodiscard]] std::vector<RepeatedTimes> measure(std::span<const ProfilePoint> points,
                                                   Nanos share);
  /// The time of the weight gradients alone, once everything else has run.
  [[nodiscard]] Nanos run_weight_gradients(const ProfilePoint& point);

 private:
  /// Calls visit(step, forward MicroPack to measure, own rows of its size).
  void on_rows(const ProfilePoint& point, Recompute recompute,
               const std::function<void(StageStep&, PackId, const at::Tensor&)>& visit);
  void fill_prefix(StageStep& step, const MicroPack& prefix) const;

  const ProfileOptions& options_;
  const ProfileRank& rank_;
  std::string_view name_;
  Decoder shape_;
  StagePlace place_;
  Rope rope_;
  StageParameters parameters_;
  ColdCaches caches_;
};

}  // namespace slimpack
