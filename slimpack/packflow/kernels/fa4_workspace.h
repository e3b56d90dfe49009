// The library's side of fa4_library.h: how it divides the memory that backward needs besides. The
// engine asks for its size only. tools/fa4 and the tests' stand-in include it.
#pragma once

#include <cstdint>

#include "slimpack/packflow/kernels/fa4_library.h"

/// Sizes that backward kernels were compiled with.
struct Fa4Tiles {
  int64_t sum_dim;               ///< elements of a head in the sums
  int64_t query_tile, key_tile;  ///< rows of a tile
};

/// [sequences, heads, tiles, 2] int32.
struct Fa4Locks {
  void* data;
  int32_t sequences, heads, tiles;
  int64_t sequence_stride, head_stride, tile_stride;
};

/// Scratch of backward: parts of one block of memory, those that begin as zeros first.
class Fa4Workspace {
 public:
  Fa4Columns dk_sum, dv_sum;              ///< [G, padded S · D]; unused where group is 1
  Fa4Locks dq_locks, dk_locks, dv_locks;  ///< unused unless the order is fixed
  Fa4Columns dq_sum;                      ///< [N, padded T · D]; the preprocess clears it
  Fa4Columns lse2, dpsum;                 ///< [N, padded T]; the preprocess writes them
  int64_t zero_bytes = 0, bytes = 0;

  Fa4Workspace(const Fa4Tiles& tiles, const Fa4Attention& a, const Fa4Gradients& d, void* memory)
      : memory_(static_cast<char*>(memory)) {
    const int32_t sequences = a.q_bounds.count - 1, N = a.q.heads, G = a.k.heads;
    const bool has_sums = N > G, has_locks = d.fixed_order != 0;
    const int64_t queries = padded(a.q.rows, sequences, tiles.query_tile);
    const int64_t keys = has_sums ? padded(a.k.rows, sequences, tiles.key_tile) : 0;
    const int64_t query_tiles = has_locks ? count(d.longest_queries, tiles.query_tile) : 0;
    const int64_t key_tiles = has_locks && has_sums ? count(d.longest_keys, tiles.key_tile) : 0;
    dk_sum = columns(G, keys * tiles.sum_dim);
    dv_sum = columns(G, keys * tiles.sum_dim);
    dq_locks = locks(sequences, N, query_tiles);
    dk_locks = locks(sequences, G, key_tiles);
    dv_locks = locks(sequences, G, key_tiles);
    zero_bytes = bytes;
    dq_sum = columns(N, queries * tiles.sum_dim);
    lse2 = columns(N, queries);
    dpsum = columns(N, queries);
  }

 private:
  static int64_t count(int64_t rows, int64_t tile) { return (rows + tile - 1) / tile; }
  /// Sequence b begins at row (bounds[b] + b · tile) / tile · tile.
  static int64_t padded(int64_t rows, int64_t sequences, int64_t tile) {
    return (rows + (sequences + 1) * tile - 1) / tile * tile;
  }
  void* take(int64_t size) {
    char* const part = memory_ == nullptr ? nullptr : memory_ + bytes;
    bytes += (size + 255) / 256 * 256;
    return part;
  }
  Fa4Columns columns(int32_t heads, int64_t count) {
    return {take(heads * count * 4), heads, static_cast<int32_t>(count), count};
  }
  Fa4Locks locks(int32_t sequences, int32_t heads, int64_t tiles) {
    return {take(sequences * heads * tiles * 2 * 4),
            sequences,
            heads,
            static_cast<int32_t>(tiles),
            heads * tiles * 2,
            tiles * 2,
            2};
  }

  char* memory_;
};
