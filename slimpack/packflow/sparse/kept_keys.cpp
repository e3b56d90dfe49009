#include "slimpack/packflow/sparse/kept_keys.h"

#include <algorithm>
#include <utility>

namespace slimpack {
namespace {

/// Adds a run behind the others, as a part of the last one where they touch.
void append(std::vector<KeyRun>& runs, KeyRun run) {
  if (run.keys() <= 0) return;
  if (!runs.empty() && runs.back().end == run.begin)
    runs.back().end = run.end;
  else
    runs.push_back(run);
}

/// The keys of any of the runs.
std::vector<KeyRun> united(std::vector<KeyRun> runs) {
  std::ranges::sort(runs);
  std::vector<KeyRun> all;
  for (const KeyRun& run : runs)
    append(all, {all.empty() ? run.begin : std::max(run.begin, all.back().end), run.end});
  return all;
}

}  // namespace

QueryBlocks::QueryBlocks(Tokens prefix, Tokens tokens, std::int64_t block)
    : prefix_(prefix.count()),
      end_(prefix.count() + tokens.count()),
      block_(block),
      first_(prefix_ / block),
      last_((end_ - 1) / block) {}

double QueryBlocks::dense_pairs() const {
  const auto before = static_cast<double>(prefix_), own = static_cast<double>(tokens());
  return own * before + own * (own + 1) / 2;
}

KeyRun QueryBlocks::queries(std::int64_t b) const {
  return {std::max(start(b), prefix_), std::min(start(b) + block_, end_)};
}

std::int64_t BlockKeys::keys() const {
  std::int64_t all = columns;
  for (const KeyRun& run : runs) all += run.keys();
  return all;
}

double KeptKeys::pairs(const QueryBlocks& slice) const {
  const QueryBlocks queries = slice.in_blocks_of(block);
  double all = 0;
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const auto rows = static_cast<double>(queries.queries(b).keys());
    const auto before = static_cast<double>(blocks[static_cast<std::size_t>(b)].keys());
    all += rows * before + rows * (rows + 1) / 2;
  }
  return all;
}

KeptKeys columns_and_window(std::vector<std::int64_t> columns, std::int64_t window,
                            std::int64_t dense_rows, const QueryBlocks& queries) {
  KeptKeys kept;
  kept.columns = std::move(columns);
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const KeyRun rows = queries.queries(b);
    const bool dense = rows.end > queries.keys() - dense_rows;
    // The window of the block's first query, which reaches back farthest.
    const std::int64_t begin =
        dense ? 0 : std::max<std::int64_t>(0, std::min(queries.start(b), rows.begin - window));
    BlockKeys block;
    block.columns = std::ranges::lower_bound(kept.columns, begin) - kept.columns.begin();
    append(block.runs, {begin, rows.begin});
    kept.blocks.push_back(std::move(block));
  }
  return kept;
}

KeptKeys kept_blocks(const BlockMask& mask, const QueryBlocks& queries) {
  KeptKeys kept;
  for (std::int64_t b = 0; b < queries.count(); ++b) {
    const std::vector<std::uint8_t>& row = mask[static_cast<std::size_t>(b)];
    BlockKeys block;
    for (std::int64_t key = 0; key < queries.number(b); ++key)
      if (row[static_cast<std::size_t>(key)] != 0)
        append(block.runs, {key * kSparseBlock, (key + 1) * kSparseBlock});
    append(block.runs, {queries.start(b), queries.queries(b).begin});
    kept.blocks.push_back(std::move(block));
  }
  return kept;
}

KeptKeys joined(const KeptKeys& kept, const QueryBlocks& queries, std::int64_t block) {
  const QueryBlocks larger = queries.in_blocks_of(block);
  KeptKeys all{block, kept.columns, {}};
  std::int64_t b = 0;
  for (std::int64_t l = 0; l < larger.count(); ++l) {
    const KeyRun own = larger.queries(l);
    std::vector<KeyRun> runs;
    for (; b < queries.count() && queries.queries(b).begin < own.end; ++b)
      for (const KeyRun& run : kept.blocks[static_cast<std::size_t>(b)].runs)
        runs.push_back({run.begin, std::min(run.end, own.begin)});
    BlockKeys seen;
    seen.runs = united(std::move(runs));
    // A block sees all columns before its runs, and a larger one before its first.
    const std::int64_t end = seen.runs.empty() ? own.begin : seen.runs.front().begin;
    seen.columns = std::ranges::lower_bound(kept.columns, end) - kept.columns.begin();
    all.blocks.push_back(std::move(seen));
  }
  return all;
}

BlockMask empty_mask(const QueryBlocks& queries) {
  const auto blocks = static_cast<std::size_t>(queries.count());
  return BlockMask(blocks, std::vector<std::uint8_t>(
                               static_cast<std::size_t>(queries.number(queries.count() - 1) + 1)));
}

void add_columns(BlockMask& mask, std::span<const std::int64_t> columns) {
  for (std::vector<std::uint8_t>& row : mask)
    for (const std::int64_t column : columns) row[static_cast<std::size_t>(column)] = 1;
}

void add_distances(BlockMask& mask, std::span<const std::int64_t> distances,
                   const QueryBlocks& queries) {
  for (std::int64_t b = 0; b < queries.count(); ++b)
    for (const std::int64_t distance : distances)
      if (const std::int64_t key = queries.number(b) - distance; key >= 0)
        mask[static_cast<std::size_t>(b)][static_cast<std::size_t>(key)] = 1;
}

}  // namespace slimpack
