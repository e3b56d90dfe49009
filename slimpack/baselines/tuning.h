// Tuning: what the user of a baseline may set.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// The rule that gives packs to replicas.
enum class Dealing : std::uint8_t {
  kPublished,  ///< as the baseline's system has it
  kInTurn,     ///< pack i to replica i mod replicas
  kByTime,     ///< Karmarkar–Karp over the times of packs
};

/// The order of a replica's packs.
enum class PackOrder : std::uint8_t {
  kPublished,  ///< as the baseline's system has it
  kHeaviestFirst,
  kLightestFirst,
  kLightAtBothEnds,  ///< … 4 2 0 1 3 5 … from heavy to light: light packs fill and drain
};

/// 0 and kPublished: as the baseline's system has it. A baseline ignores what its system lacks.
struct Tuning {
  Tokens pack{0};           ///< a pack holds at most so many; at least the longest sequence
  Tokens share{0};          ///< of a shared pack, what one replica takes at most
  std::int32_t group = 0;   ///< so many replicas share every pack, of dynamic-cp at least
  std::int32_t packs = 0;   ///< of each replica, at least
  std::int32_t slices = 0;  ///< of each pack
  /// Slices have the tokens of a pack ÷ slices. The tails of long sequences and the short sequences
  /// fill packs of a slice's size. Set only where `slices` is, too.
  bool tails = false;
  Dealing dealing = Dealing::kPublished;
  PackOrder order = PackOrder::kPublished;
  bool remap = false;  ///< rows outside of attention are balanced (MicroPack::row_zones)
  bool split = false;  ///< weight gradients run later than input gradients

  bool operator==(const Tuning&) const = default;
};

/// "packs of 64K, 2 replicas a pack, 8 slices, dealt by time, heaviest first, split backwards": the
/// settings that are not as published. "as published" if all are.
[[nodiscard]] std::string describe(const Tuning& tuning);

/// Each of `tunings` with each of `values` in the field, in turn.
template <class T>
[[nodiscard]] std::vector<Tuning> varied(const std::vector<Tuning>& tunings, T Tuning::*field,
                                         const std::vector<T>& values) {
  std::vector<Tuning> out;
  for (const Tuning& tuning : tunings)
    for (const T& value : values) {
      out.push_back(tuning);
      out.back().*field = value;
    }
  return out;
}

}  // namespace slimpack
