// One call of flash attention may take several neighbouring slices of a MicroPack. This is the rule
// by which the runtime and the memory model both decide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "slimpack/plan/slice.h"

namespace slimpack {

/// Bytes of keys and values that are copied as fast as a call is launched: a GPU moves 2.7 TB/s, a
/// copy reads and writes, and a call of a slice takes 24 µs (attention_slice_us of
/// hardware/h100-fa2.toml).
inline constexpr std::int64_t kBytesOfACall = 32 << 20;

/// How many of the first slices, at least one. Slices without a prefix join: their keys lie side by
/// side. Those of slices with a prefix lie in tensors of their sequences and are copied. So where
/// one has a prefix, as many join as calls are saved for whose time their keys, `key_bytes` a
/// token, can be copied. `alone`: a slice of these that joins no other. REQUIRES: a slice.
[[nodiscard]] std::size_t joined_slices(std::span<const Slice> slices, std::int64_t key_bytes,
                                        std::optional<std::size_t> alone = std::nullopt);

}  // namespace slimpack
