#include "slimpack/spec/recompute.h"

#include <array>

namespace slimpack {

std::string_view to_string(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "none";
    case Recompute::kAttention:
      return "attention";
    case Recompute::kMlp:
      return "mlp";
    case Recompute::kFull:
      return "full";
  }
  return "";
}

std::optional<Recompute> recompute_from(std::string_view name) {
  for (const Recompute recompute : all_recomputations())
    if (to_string(recompute) == name) return recompute;
  return std::nullopt;
}

std::span<const Recompute> all_recomputations() {
  static constexpr std::array kAll = {Recompute::kNone, Recompute::kAttention, Recompute::kMlp,
                                      Recompute::kFull};
  return kAll;
}

}  // namespace slimpack
