// Kept keys: the keys that sparse attention computes of one query head, block of queries by block.
//
// Blocks are those of the sequence, whatever slice they are computed in: keys are chosen for blocks
// of 128 queries, and several of these may be computed together. A block's queries see their own
// block causally; all of them see the same of the keys before it. So the products are plain ones,
// without a mask.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// Tokens of a block that keys are chosen for and by. All four methods were published with it.
constexpr std::int64_t kSparseBlock = 128;

/// Keys [begin, end) of a sequence.
struct KeyRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t keys() const { return end - begin; }
  auto operator<=>(const KeyRun&) const = default;
};

/// Queries of a slice, divided at the sequence's blocks. The first block may begin, and the last
/// may end, inside one.
class QueryBlocks {
 public:
  /// REQUIRES: tokens ≥ 1; `block` is a multiple of 128.
  QueryBlocks(Tokens prefix, Tokens tokens, std::int64_t block = kSparseBlock);

  /// Divides the queries at blocks of another size.
  [[nodiscard]] QueryBlocks in_blocks_of(std::int64_t block) const {
    return {Tokens(prefix_), Tokens(tokens()), block};
  }

  [[nodiscard]] std::int64_t count() const { return last_ - first_ + 1; }
  [[nodiscard]] std::int64_t prefix() const { return prefix_; }
  [[nodiscard]] std::int64_t tokens() const { return end_ - prefix_; }
  [[nodiscard]] std::int64_t keys() const { return end_; }
  /// Query-key pairs of dense attention.
  [[nodiscard]] double dense_pairs() const;

  /// Block b of the slice: its number in the sequence, where that begins, and the slice's queries
  /// in it (positions in the sequence).
  [[nodiscard]] std::int64_t number(std::int64_t b) const { return first_ + b; }
  [[nodiscard]] std::int64_t start(std::int64_t b) const { return number(b) * block_; }
  [[nodiscard]] KeyRun queries(std::int64_t b) const;

 private:
  std::int64_t prefix_, end_, block_, first_, last_;
};

/// The keys that the queries of one block see before the first of them: columns and one run, or any
/// runs.
struct BlockKeys {
  std::int64_t columns = 0;  ///< how many of the head's columns: the lowest
  std::vector<KeyRun> runs;  ///< ascending and apart from each other and from these columns

  [[nodiscard]] std::int64_t keys() const;
  bool operator==(const BlockKeys&) const = default;
};

struct KeptKeys {
  std::int64_t block = kSparseBlock;  ///< queries that are computed together
  std::vector<std::int64_t> columns;  ///< keys that many blocks see, ascending
  std::vector<BlockKeys> blocks;      ///< one for each block of queries

  /// Query-key pairs that are computed, those inside the blocks among them.
  [[nodiscard]] double pairs(const QueryBlocks& slice) const;
  bool operator==(const KeptKeys&) const = default;
};

/// Columns, and a window of keys right before each block; the last `dense_rows` queries' blocks see
/// everything. REQUIRES: columns ascend.
[[nodiscard]] KeptKeys columns_and_window(std::vector<std::int64_t> columns, std::int64_t window,
                                          std::int64_t dense_rows, const QueryBlocks& queries);

/// The blocks of keys that each block of queries sees: [query block][key block], not zero where it
/// sees one. Entries from a block's own on do not count: every block sees itself.
using BlockMask = std::vector<std::vector<std::uint8_t>>;
[[nodiscard]] KeptKeys kept_blocks(const BlockMask& mask, const QueryBlocks& queries);

/// Blocks of `block` queries that see the keys of all smaller blocks in them. REQUIRES: kept is of
/// blocks of 128.
[[nodiscard]] KeptKeys joined(const KeptKeys& kept, const QueryBlocks& queries, std::int64_t block);

/// A mask without any block, of the size of these queries.
[[nodiscard]] BlockMask empty_mask(const QueryBlocks& queries);

/// Adds these columns of blocks, and blocks at these distances from the block of queries.
void add_columns(BlockMask& mask, std::span<const std::int64_t> columns);
void add_distances(BlockMask& mask, std::span<const std::int64_t> distances,
                   const QueryBlocks& queries);

}  // namespace slimpack
