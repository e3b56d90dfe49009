// Placement style: how the stages of a pipeline go over its ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slimpack {

/// The names are those of torch.distributed.pipelining.
enum class PlacementStyle : std::uint8_t {
  kLoop,  ///< around the ranks: stage s on rank s mod ranks
  kV,     ///< there and back: two stages a rank, the first rank has the first stage and the last
};

inline constexpr std::array kPlacementStyles{PlacementStyle::kLoop, PlacementStyle::kV};

[[nodiscard]] constexpr std::string_view to_string(PlacementStyle style) {
  return style == PlacementStyle::kLoop ? "loop" : "v";
}

}  // namespace slimpack
