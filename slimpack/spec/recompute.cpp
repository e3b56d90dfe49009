#include "slimpack/spec/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"

namespace slimpack {

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNothing:
      return "nothing";
    case Recompute::kElementwise:
      return "elementwise";
    case Recompute::kAttention:
      return "attention";
    case Recompute::kMlp:
      return "mlp";
    case Recompute::kFull:
      return "full";
    case Recompute::kOffload:
      return "offload";
  }
  return "";
}

std::optional<Recompute> recompute_from(std::string_view name) {
  for (const Recompute recompute : all_recomputations())
    if (to_string(recompute) == name) return recompute;
  return std::nullopt;
}

std::span<const Recompute> all_recomputations() {
  static constexpr std::array<Recompute, kRecomputations> kAll = {
      Recompute::kNothing, Recompute::kElementwise, Recompute::kAttention,
      Recompute::kMlp,     Recompute::kFull,        Recompute::kOffload};
  return kAll;
}

Recompute recompute_of(std::span<const Recompute> by_layer, std::size_t layer) {
  if (by_layer.empty()) return Recompute::kElementwise;
  SLIMPACK_CHECK(layer < by_layer.size(), "layer {} of {}", layer, by_layer.size());
  return by_layer[layer];
}

std::optional<std::size_t> first_offloading(std::span<const Recompute> by_layer) {
  const auto found = std::ranges::find(by_layer, Recompute::kOffload);
  if (found == by_layer.end()) return std::nullopt;
  return static_cast<std::size_t>(found - by_layer.begin());
}

std::string describe(std::span<const Recompute> by_layer) {
  if (by_layer.empty()) return std::string(to_string(Recompute::kElementwise));
  std::string text;
  for (const Recompute recompute : all_recomputations()) {
    const auto layers = std::count(by_layer.begin(), by_layer.end(), recompute);
    if (layers == std::ssize(by_layer)) return std::string(to_string(recompute));
    if (layers == 0) continue;
    text += text.empty() ? fmt::format("{} {}", counted(layers, "layer"), to_string(recompute))
                         : fmt::format(", {} {}", layers, to_string(recompute));
  }
  return text;
}

}  // namespace slimpack
