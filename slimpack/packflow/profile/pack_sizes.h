// Pack sizes: which MicroPacks a profile measures.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/packflow/profile/part_bench.h"
#include "slimpack/packflow/profile/profile.h"

namespace slimpack {

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
