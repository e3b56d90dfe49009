// Recomputation: what a layer's forward does not keep and its backward computes again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace slimpack {

/// Keys and values are always kept: later slices of their sequence need them.
enum class Recompute : std::uint8_t {
  kNone,       ///< norms and silu(gate) ⊙ up only, which cost no matrix product
  kAttention,  ///< also q and attention itself; the output projection's result is kept
  kMlp,        ///< also gate and up; attention is kept
  kFull,       ///< everything but the layer's input
};

[[nodiscard]] std::string_view to_string(Recompute recompute);
[[nodiscard]] std::optional<Recompute> recompute_from(std::string_view name);
/// In the order of the enumeration.
[[nodiscard]] std::span<const Recompute> all_recomputations();

}  // namespace slimpack
