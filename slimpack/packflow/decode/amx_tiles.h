// Configuration of AMX tiles. Included by sources that use AMX alone.
#pragma once

#include <immintrin.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace slimpack {

#define SLIMPACK_AMX [[gnu::target("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,fma")]]

inline constexpr std::int64_t kTileRows = 16;
inline constexpr std::int64_t kTileBytes = 64;
inline constexpr std::int64_t kTileInputs = 32;

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> column_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(TileConfig) == 64);

/// Tiles with these rows, of 64 bytes each. Gives them back as libtorch had them.
class Tiles {
 public:
  SLIMPACK_AMX explicit Tiles(const std::array<std::uint8_t, 8>& rows) {
    store(before_);
    TileConfig config;
    for (std::size_t tile = 0; tile < rows.size(); ++tile) {
      config.rows[tile] = rows[tile];
      config.column_bytes[tile] = rows[tile] == 0 ? 0 : kTileBytes;
    }
    load(config);
  }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
  SLIMPACK_AMX ~Tiles() {
    if (before_.palette == 0) {
      _tile_release();
    } else {
      load(before_);
    }
  }

 private:
  // GCC 12 believes that its intrinsics read and write 8 bytes.
  SLIMPACK_AMX static void load(const TileConfig& config) {
    __asm__ volatile("" ::: "memory");
    _tile_loadconfig(&config);
  }
  SLIMPACK_AMX static void store(TileConfig& config) {
    _tile_storeconfig(&config);
    __asm__ volatile("" ::: "memory");
  }

  TileConfig before_;
};

}  // namespace slimpack
