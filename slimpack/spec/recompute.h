// Recomputation: which tensors a layer's forward drops and its backward computes again, and whether
// the kept rows wait in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slimpack {

/// The tensors that backward computes again. Keys and values are always kept: later slices of their
/// sequence need them.
enum class Recompute : std::uint8_t {
  kNothing,      ///< nothing but x · 1 / rms: 1 / rms and silu(gate) ⊙ up are kept, too
  kElementwise,  ///< norms and silu(gate) ⊙ up, which need no matrix product
  kAttention,    ///< also q and attention; the output projection's result is kept
  kMlp,          ///< as kElementwise, and gate and up; attention is kept
  kFull,         ///< everything but the layer's input
  /// Computes what kElementwise does; kept rows wait in pinned host memory, not on the device.
  /// Layers under autograd compute what those of kFull do, and what they keep waits there
  /// (AutogradCosts).
  kOffload,
};
inline constexpr std::size_t kRecomputations = 6;

[[nodiscard]] std::string_view to_string(Recompute recompute);
/// All names, for rules in errors.
inline constexpr std::string_view kRecomputeNames =
    "\"nothing\", \"elementwise\", \"attention\", \"mlp\", \"full\", \"offload\"";
/// The inverse of to_string; nullopt for an unknown name.
[[nodiscard]] std::optional<Recompute> recompute_from(std::string_view name);
/// All values, in the order of the enumeration.
[[nodiscard]] std::span<const Recompute> all_recomputations();

/// By layer of a model or of a stage; empty = kElementwise in every layer.
using RecomputeByLayer = std::vector<Recompute>;

/// REQUIRES: layer < by_layer.size(), or by_layer is empty.
[[nodiscard]] Recompute recompute_of(std::span<const Recompute> by_layer, std::size_t layer);

/// The first layer with kOffload; nullopt if there is none.
[[nodiscard]] std::optional<std::size_t> first_offloading(std::span<const Recompute> by_layer);

/// For people: "elementwise" if all layers agree, else "24 layers elementwise, 8 mlp", in the order
/// of the enumeration.
[[nodiscard]] std::string describe(std::span<const Recompute> by_layer);

}  // namespace slimpack
