// The parts of a profile, each measured by itself: a decoder layer, what ranks of this machine cost
// each other, recomputation, and how backward compares with forward; and which MicroPacks they run.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/fit.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile.h"
#include "slimpack/packflow/profile/profile_ranks.h"

namespace slimpack {

/// By pass, the measurements to fit and those that are held out.
struct LayerTimes {
  std::vector<LayerMeasurement> forward, backward;
  std::vector<LayerMeasurement> held_out_forward, held_out_backward;
};

/// Measures a layer of the first kind. Points that would take more than a point may are left out;
/// at least one is measured. Every rank calls it. Where a cut-off profile measured the layer, its
/// times.
[[nodiscard]] LayerTimes measure_layer(const ProfileOptions& options, const ProfileRank& rank);

/// Adds transfers between stages and, on a device, to host memory, the reduction of gradients, and
/// what merged MicroPacks take beyond each member's share. REQUIRES: the layers' times.
void measure_exchanges(const ProfileOptions& options, Costs& cost);

/// Sets elementwise and weight_gradient of `cost`, and on a device other than a CPU `again`.
/// Measures a layer of the first kind. REQUIRES: its shape and the times of both passes. Every rank
/// calls it, and all decide alike. Takes about a quarter of the budget, and on a device that it
/// heats first three quarters.
void measure_backward_parts(Costs& cost, const ProfileOptions& options, const ProfileRank& rank);

/// Times of one layer, of the first kind, on one whole sequence, split into attention and
/// everything else. The latter is a difference: where attention takes nearly all, noise of a busy
/// machine can hide it, and it is 1 ns then.
struct PassRatio {
  Tokens tokens;
  Nanos attention_forward, attention_backward;
  Nanos linear_forward, linear_backward;
};

/// At powers of four from 256 to the context: how backward compares with forward. Ends before a
/// length at which one layer's two passes would take more than options.most_of_a_point().
[[nodiscard]] std::vector<PassRatio> measure_pass_ratios(const ProfileOptions& options);

/// The bytes that a rank is predicted to hold while a layer runs the point: the layer with its
/// optimizer, keys and values of the prefix, rows, and what a pass computes with.
[[nodiscard]] Bytes predicted_bytes(const ProfileOptions& options, const ProfilePoint& point);

/// Short and long slices, with and without prefixes, alone and several in a MicroPack. On a device
/// a GPU's speed shows in large ones only, so they double up to the context there, while a rank's
/// share of the device's memory is predicted to hold them.
[[nodiscard]] std::vector<ProfilePoint> layer_grid(const ProfileOptions& options);

/// Sizes between those of layer_grid, for the error of a fit that did not see them. Empty where the
/// context is too short.
[[nodiscard]] std::vector<ProfilePoint> held_out_grid(const ProfileOptions& options);

/// Sizes on any device.
inline constexpr std::array kSmallSizes{Tokens(64), Tokens(512), Tokens(2048)};
/// The sizes at which work that is linear in tokens is measured: `small` ones, none longer than the
/// context, and on a device a larger one, if that fits.
[[nodiscard]] std::vector<Tokens> linear_sizes(const ProfileOptions& options,
                                               std::span<const Tokens> small);

}  // namespace slimpack
