#include "slimpack/packflow/decode/amx_product.h"

#if defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "slimpack/packflow/decode/amx_tiles.h"
#endif

namespace slimpack {

#if defined(__x86_64__)
namespace {

constexpr std::int64_t kInputBytes = 2, kSumBytes = 4;

// Tiles 0 to 3 are the sums of up to four blocks of rows, 4 a whole and 5 the last block of x, 6
// the weights. GCC's intrinsics take literals only.

/// Tiles of a product of some rows.
std::array<std::uint8_t, 8> tiles_of(std::int64_t rows) {
  const std::int64_t blocks = padded_to(rows, kTileRows) / kTileRows;
  const auto last = static_cast<std::uint8_t>(rows - (blocks - 1) * kTileRows);
  std::array<std::uint8_t, 8> tiles{};
  for (std::int64_t b = 0; b < blocks; ++b)
    tiles[static_cast<std::size_t>(b)] = b + 1 < blocks ? kTileRows : last;
  tiles[4] = tiles[6] = kTileRows;
  tiles[5] = last;
  return tiles;
}

/// Block `tile` of the sums += its rows of x · the weights.
#define SLIMPACK_ADD_BLOCK(tile)                                        \
  if constexpr (kBlocks == tile + 1) {                                  \
    _tile_loadd(5, x.row(tile* kTileRows) + i, x.stride * kInputBytes); \
    _tile_dpbf16ps(tile, 5, 6);                                         \
  } else if constexpr (kBlocks > tile) {                                \
    _tile_loadd(4, x.row(tile* kTileRows) + i, x.stride * kInputBytes); \
    _tile_dpbf16ps(tile, 4, 6);                                         \
  }

template <int kBlocks>
SLIMPACK_AMX void add_panel(const c10::BFloat16* panel, std::int64_t inputs,
                            RowsView<const c10::BFloat16> x, float* y, std::int64_t y_stride) {
  const std::int64_t bytes = y_stride * kSumBytes;
  _tile_loadd(0, y, bytes);
  if constexpr (kBlocks > 1) _tile_loadd(1, y + kTileRows * y_stride, bytes);
  if constexpr (kBlocks > 2) _tile_loadd(2, y + 2 * kTileRows * y_stride, bytes);
  if constexpr (kBlocks > 3) _tile_loadd(3, y + 3 * kTileRows * y_stride, bytes);
  for (std::int64_t i = 0; i < inputs; i += kTileInputs) {
    _tile_loadd(6, panel + i * kLanes, kTileBytes);
    SLIMPACK_ADD_BLOCK(0)
    SLIMPACK_ADD_BLOCK(1)
    SLIMPACK_ADD_BLOCK(2)
    SLIMPACK_ADD_BLOCK(3)
  }
  _tile_stored(0, y, bytes);
  if constexpr (kBlocks > 1) _tile_stored(1, y + kTileRows * y_stride, bytes);
  if constexpr (kBlocks > 2) _tile_stored(2, y + 2 * kTileRows * y_stride, bytes);
  if constexpr (kBlocks > 3) _tile_stored(3, y + 3 * kTileRows * y_stride, bytes);
}

/// A last panel with fewer outputs than a tile has.
void add_edge(const auto& add, const c10::BFloat16* panel, std::int64_t inputs,
              RowsView<const c10::BFloat16> x, RowsView<float> y, std::int64_t outputs) {
  std::array<float, kAmxRows * kLanes> sums{};
  add(panel, inputs, x, sums.data(), kLanes);
  for (std::int64_t r = 0; r < x.rows; ++r)
    for (std::int64_t o = 0; o < outputs; ++o)
      y.row(r)[o] += sums[static_cast<std::size_t>(r * kLanes + o)];
}

bool ask_system_for_tiles() {
  constexpr int kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2), Linux 5.16
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool processor_has_amx() {
  std::uint32_t a = 7, b = 0, c = 0, d = 0;
  __asm__("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
  constexpr std::uint32_t kBf16 = 1U << 22, kTile = 1U << 24;
  return (d & kBf16) != 0 && (d & kTile) != 0 && __builtin_cpu_supports("avx512f");
}

}  // namespace

bool has_amx() {
  static const bool has = processor_has_amx() && ask_system_for_tiles();
  return has;
}

void amx_add_products(const c10::BFloat16* panels, std::int64_t begin, std::int64_t end,
                      std::int64_t padded_inputs, std::int64_t outputs,
                      RowsView<const c10::BFloat16> x, RowsView<float> y) {
  using AddPanel = void (*)(const c10::BFloat16*, std::int64_t, RowsView<const c10::BFloat16>,
                            float*, std::int64_t);
  constexpr std::array<AddPanel, 4> kByBlocks = {add_panel<1>, add_panel<2>, add_panel<3>,
                                                 add_panel<4>};
  const AddPanel add = kByBlocks[static_cast<std::size_t>((x.rows - 1) / kTileRows)];
  const Tiles tiles(tiles_of(x.rows));
  for (std::int64_t p = begin; p < end; ++p) {
    const c10::BFloat16* const panel = panels + p * kLanes * padded_inputs;
    const std::int64_t first = p * kLanes;
    if (first + kLanes <= outputs) {
      add(panel, padded_inputs, x, y.data + first, y.stride);
    } else {
      add_edge(add, panel, padded_inputs, x, {y.data + first, y.rows, y.stride}, outputs - first);
    }
  }
}
#else
bool has_amx() {
  return false;
}
void amx_add_products(const c10::BFloat16*, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                      RowsView<const c10::BFloat16>, RowsView<float>) {}
#endif

}  // namespace slimpack
