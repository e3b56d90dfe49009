// Recomputation: what a layer's forward does not keep and its backward computes again, or where
// what it keeps waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack {

/// What is computed again. Keys and values are always kept: later slices of their sequence need
/// them.
enum class Recompute : std::uint8_t {
  kNothing,      ///< norms and silu(gate) ⊙ up are kept too
  kElementwise,  ///< norms and silu(gate) ⊙ up only, which cost no matrix product
  kAttention,    ///< also q and attention itself; the output projection's result is kept
  kMlp,          ///< also gate and up; attention is kept
  kFull,         ///< everything but the layer's input
  kOffload,      ///< as kElementwise; what is kept waits in pinned host memory, not on the device
};
inline constexpr std::size_t kRecomputations = 6;

[[nodiscard]] std::string_view to_string(Recompute recompute);
/// All of them, for rules in errors.
inline constexpr std::string_view kRecomputeNames =
    "\"nothing\", \"elementwise\", \"attention\", \"mlp\", \"full\", \"offload\"";
[[nodiscard]] std::optional<Recompute> recompute_from(std::string_view name);
/// In the order of the enumeration.
[[nodiscard]] std::span<const Recompute> all_recomputations();

/// By layer of a model, or of a stage; empty = kElementwise in all of them.
using RecomputeByLayer = std::vector<Recompute>;

/// REQUIRES: a layer that `by_layer` has, unless that is empty.
[[nodiscard]] Recompute recompute_of(std::span<const Recompute> by_layer, std::size_t layer);

/// The first that is kOffload, if one is.
[[nodiscard]] std::optional<std::size_t> first_offloading(std::span<const Recompute> by_layer);

/// For people: "elementwise", or of several "24 layers elementwise, 8 mlp", in the order of the
/// enumeration.
[[nodiscard]] std::string describe(std::span<const Recompute> by_layer);

}  // namespace slimpack
