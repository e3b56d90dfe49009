#include "slimpack/packflow/profile/profile_parts.h"

#include <algorithm>

#include "slimpack/cost/stage_table.h"
#include "slimpack/packflow/device/device.h"

namespace slimpack {
namespace {

/// Costs without times, of a model whose middle stage is one layer: neither embedding nor head.
constexpr std::int32_t kLayers = 3;
constexpr StageId kMiddle(1);

Costs bytes_of(const ProfileOptions& options) {
  Decoder shape = options.shape;
  shape.set_layers(kLayers);
  Costs cost;
  cost.shape = shape;
  cost.dtype = options.dtype;
  cost.tp = options.tp;
  if (!options.device.is_cpu()) cost.device.gpu = options.gpu.value_or(gpu_memory(HardwareSpec()));
  return cost;
}

template <class Values>
Bytes sum_of(const Values& values) {
  Bytes sum{0};
  for (const Bytes bytes : values) sum = sum + bytes;
  return sum;
}

/// A tenth of the memory is for what nobody predicts.
Bytes room_of_a_rank(const ProfileOptions& options) {
  const std::int32_t here = options.job ? 1 : options.grid().ranks();
  return Bytes(device_memory(options.device).count() / here / 10 * 9);
}

bool fits(const ProfileOptions& options, const ProfilePoint& point) {
  return predicted_bytes(options, point) <= room_of_a_rank(options);
}

/// Single slices, and MicroPacks of up to 4,096 rows.
std::vector<ProfilePoint> small_grid(std::int64_t context) {
  const std::int64_t c = context;
  return {{Tokens(32), Tokens(0), 1},          {Tokens(128), Tokens(0), 1},
          {Tokens(512), Tokens(0), 1},         {Tokens(2048), Tokens(0), 1},
          {Tokens(64), Tokens(0), 8},          {Tokens(256), Tokens(0), 4},
          {Tokens(128), Tokens(c / 2), 1},     {Tokens(512), Tokens(c / 4), 1},
          {Tokens(512), Tokens(c / 2), 1},     {Tokens(256), Tokens(c - 256), 1},
          {Tokens(1024), Tokens(c - 1024), 1}, {Tokens(2048), Tokens(c / 2), 1},
          {Tokens(512), Tokens(0), 8},         {Tokens(1024), Tokens(c / 4), 2}};
}

void keep_within(std::vector<ProfilePoint>& grid, Tokens context) {
  std::erase_if(grid, [&](const ProfilePoint& p) {
    return p.prefix < Tokens(0) || p.tokens + p.prefix > context;
  });
}

/// A whole document, the end of the longest one, and eight documents.
void add_large(std::vector<ProfilePoint>& grid, Tokens size, const ProfileOptions& options) {
  std::vector<ProfilePoint> points{{size, Tokens(0), 1}, {size / 8, Tokens(0), 8}};
  if (size < options.context) points.push_back({size, options.context - size, 1});
  for (const ProfilePoint& point : points)
    if (fits(options, point)) grid.push_back(point);
}

}  // namespace

Bytes predicted_bytes(const ProfileOptions& options, const ProfilePoint& point) {
  const Costs cost = bytes_of(options);
  const StageLayout one_each{{0, 1, 2, kLayers}};
  const StageTable table = stage_table(cost, one_each);
  const TaskBytes bytes = table.bytes(plan_of(point), lengths_of(point));
  const std::size_t stage = kMiddle.index();
  const Bytes stored = sum_of(bytes.kv[stage]) + sum_of(bytes.dkv[stage]) +
                       bytes.rows[stage].back() + bytes.forward_input.back() +
                       bytes.backward_input.front();
  return table.state(kMiddle.value()).total() + stored +
         std::max(bytes.forward_transient[stage].back(), bytes.backward_transient[stage].front());
}

std::vector<ProfilePoint> layer_grid(const ProfileOptions& options) {
  std::vector<ProfilePoint> grid = small_grid(options.context.count());
  keep_within(grid, options.context);
  if (grid.empty()) grid.push_back({options.context, Tokens(0), 1});
  if (options.device.is_cpu()) return grid;
  for (Tokens size{4096}; size <= options.context; size = size * 2) add_large(grid, size, options);
  return grid;
}

std::vector<ProfilePoint> held_out_grid(const ProfileOptions& options) {
  const std::int64_t c = options.context.count();
  std::vector<ProfilePoint> grid{{Tokens(384), Tokens(0), 1},     {Tokens(192), Tokens(0), 8},
                                 {Tokens(384), Tokens(c / 8), 2}, {Tokens(768), Tokens(c / 4), 1},
                                 {Tokens(640), Tokens(c / 2), 1}, {Tokens(1536), Tokens(c / 4), 1}};
  keep_within(grid, options.context);
  return grid;
}

std::vector<Tokens> linear_sizes(const ProfileOptions& options, std::span<const Tokens> small) {
  constexpr Tokens kLarge{8192};
  std::vector<Tokens> sizes;
  for (const Tokens size : small) sizes.push_back(std::min(size, options.context));
  if (!options.device.is_cpu() && kLarge <= options.context &&
      fits(options, {kLarge, Tokens(0), 1}))
    sizes.push_back(kLarge);
  return sizes;
}

}  // namespace slimpack
