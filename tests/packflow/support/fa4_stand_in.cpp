// Stands in for libslimpack_fa4.so (fa4_library.h) on the pretended device, whose memory is the
// host's: the layouts, masks and workspace of FlashAttention-4, by plain loops in fp64. Like the
// kernels, it adds dQ, and dK and dV of heads that share keys, in padded sums of the workspace, and
// trusts that these begin as the real ones do.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "slimpack/packflow/kernels/fa4_library.h"
#include "slimpack/packflow/kernels/fa4_workspace.h"

struct Fa4Kernels {
  std::int32_t dim, group, causal;
  bool loaded;
};

namespace {

constexpr std::int32_t kInvalidValue = 1;  // as cudaErrorInvalidValue
std::atomic<int> fixed_order_calls{0};

float wide(std::uint16_t x) {
  const std::uint32_t bits = std::uint32_t{x} << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Rounded to the nearest bf16, ties to even.
std::uint16_t narrow(double x) {
  const auto value = static_cast<float>(x);
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

std::uint16_t* at(const Fa4Rows& x, std::int64_t row, std::int64_t head) {
  return static_cast<std::uint16_t*>(x.data) + row * x.row_stride + head * x.head_stride;
}
float* at(const Fa4Columns& x, std::int64_t head, std::int64_t column) {
  return static_cast<float*>(x.data) + head * x.head_stride + column;
}

double dot(const std::uint16_t* a, const std::uint16_t* b, std::int32_t dim) {
  double sum = 0;
  for (std::int32_t d = 0; d < dim; ++d) sum += double{wide(a[d])} * double{wide(b[d])};
  return sum;
}

std::vector<Fa4Kernels>& all_kernels() {
  static std::vector<Fa4Kernels> all = [] {
    std::vector<Fa4Kernels> made;
    for (const std::int32_t dim : {8, 16, 32, 64})
      for (const std::int32_t group : {1, 2, 4})
        for (const std::int32_t causal : {0, 1}) made.push_back({dim, group, causal, false});
    for (const std::int32_t causal : {0, 1}) made.push_back({8, 3, causal, false});
    return made;
  }();
  return all;
}

const Fa4Kernels* find(std::int32_t head_dim, std::int32_t group, std::int32_t causal) {
  for (const Fa4Kernels& k : all_kernels())
    if (k.dim == head_dim && k.group == group && k.causal == causal) return &k;
  return nullptr;
}

std::int32_t runs_here() {
  return 1;
}

std::int32_t load(const Fa4Kernels* kernels) {
  const_cast<Fa4Kernels*>(kernels)->loaded = true;
  return 0;
}

bool is_valid(const Fa4Rows& x, std::int32_t rows, std::int32_t heads) {
  return x.data != nullptr && x.rows == rows && x.heads == heads && x.row_stride % 8 == 0 &&
         x.head_stride % 8 == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

bool is_valid(const Fa4Kernels& kernels, const Fa4Attention& a) {
  const std::int32_t T = a.q.rows, S = a.k.rows, N = a.q.heads, G = a.k.heads;
  const auto* const queries = static_cast<const std::int32_t*>(a.q_bounds.data);
  const auto* const keys = static_cast<const std::int32_t*>(a.k_bounds.data);
  const std::int32_t last = a.q_bounds.count - 1;
  return kernels.loaded && T > 0 && S > 0 && G > 0 && N == kernels.group * G &&
         is_valid(a.q, T, N) && is_valid(a.k, S, G) && is_valid(a.v, S, G) &&
         is_valid(a.out, T, N) && a.lse.heads == N && a.lse.columns == T && last > 0 &&
         a.k_bounds.count == last + 1 && queries[0] == 0 && queries[last] == T && keys[0] == 0 &&
         keys[last] == S &&
         std::abs(a.scale - 1 / std::sqrt(static_cast<float>(kernels.dim))) < 1e-6F;
}

/// Calls visit(sequence, query, head, first key, end of keys) of every query.
template <class Visit>
void for_each_query(const Fa4Kernels& kernels, const Fa4Attention& a, Visit visit) {
  const auto* const queries = static_cast<const std::int32_t*>(a.q_bounds.data);
  const auto* const keys = static_cast<const std::int32_t*>(a.k_bounds.data);
  for (std::int32_t b = 0; b + 1 < a.q_bounds.count; ++b)
    for (std::int32_t t = queries[b]; t < queries[b + 1]; ++t)
      for (std::int32_t n = 0; n < a.q.heads; ++n) {
        const std::int32_t hidden = kernels.causal != 0 ? queries[b + 1] - 1 - t : 0;
        visit(b, t, n, keys[b], std::max(keys[b], keys[b + 1] - hidden));
      }
}

std::int32_t forward(const Fa4Kernels* kernels, const Fa4Attention* a, void*) {
  if (!is_valid(*kernels, *a)) return kInvalidValue;
  for_each_query(*kernels, *a, [&](int, std::int32_t t, std::int32_t n, int begin, int end) {
    std::vector<double> p;
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    const std::int32_t g = n / kernels->group;
    for (int s = begin; s < end; ++s) {
      p.push_back(a->scale * dot(at(a->q, t, n), at(a->k, s, g), kernels->dim));
      most = std::max(most, p.back());
    }
    for (double& x : p) sum += x = std::exp(x - most);
    *at(a->lse, n, t) = static_cast<float>(most + std::log(sum));
    for (std::int32_t d = 0; d < kernels->dim; ++d) {
      double out = 0;
      for (int s = begin; s < end; ++s)
        out += p[static_cast<std::size_t>(s - begin)] / sum * double{wide(at(a->v, s, g)[d])};
      at(a->out, t, n)[d] = narrow(out);
    }
  });
  return 0;
}

Fa4Tiles tiles_of(const Fa4Kernels& kernels) {
  return {(kernels.dim + 31) / 32 * 32, 128, 128};
}

std::int64_t workspace_bytes(const Fa4Kernels* kernels, const Fa4Attention* a,
                             const Fa4Gradients* d) {
  return Fa4Workspace(tiles_of(*kernels), *a, *d, nullptr).bytes;
}

/// The place of a sequence's row in padded sums.
std::int64_t padded_row(const Fa4Bounds& bounds, std::int32_t sequence, std::int64_t row,
                        std::int64_t tile) {
  const auto* const ends = static_cast<const std::int32_t*>(bounds.data);
  return (ends[sequence] + sequence * tile) / tile * tile + row - ends[sequence];
}

/// Rows of one sequence.
std::int32_t longest(const Fa4Bounds& bounds) {
  const auto* const ends = static_cast<const std::int32_t*>(bounds.data);
  std::int32_t most = 0;
  for (std::int32_t b = 0; b + 1 < bounds.count; ++b) most = std::max(most, ends[b + 1] - ends[b]);
  return most;
}

std::int32_t backward(const Fa4Kernels* kernels, const Fa4Attention* a, const Fa4Gradients* d,
                      void* workspace, void*) {
  const std::int32_t T = a->q.rows, S = a->k.rows, N = a->q.heads, G = a->k.heads;
  if (!is_valid(*kernels, *a) || !is_valid(d->dout, T, N) || !is_valid(d->dq, T, N) ||
      !is_valid(d->dk, S, G) || !is_valid(d->dv, S, G) ||
      d->longest_queries != longest(a->q_bounds) || d->longest_keys != longest(a->k_bounds))
    return kInvalidValue;
  if (d->fixed_order != 0) ++fixed_order_calls;
  const Fa4Tiles tiles = tiles_of(*kernels);
  const std::int32_t last_sequence = a->q_bounds.count - 2;
  Fa4Workspace w(tiles, *a, *d, workspace);
  std::memset(workspace, 0xff, static_cast<std::size_t>(w.bytes));
  std::memset(workspace, 0, static_cast<std::size_t>(w.zero_bytes));
  // Without shared heads the kernels write dK and dV themselves; here they have sums in any case.
  std::vector<float> own_sums;
  if (N == G) {
    const std::int64_t columns =
        padded_row(a->k_bounds, last_sequence, S, tiles.key_tile) * tiles.sum_dim;
    own_sums.resize(static_cast<std::size_t>(2 * G * columns));
    w.dk_sum = {own_sums.data(), G, static_cast<std::int32_t>(columns), columns};
    w.dv_sum = {own_sums.data() + G * columns, G, static_cast<std::int32_t>(columns), columns};
  }
  for_each_query(*kernels, *a, [&](int b, std::int32_t t, std::int32_t n, int begin, int end) {
    const std::int32_t g = n / kernels->group;
    const std::int64_t row = padded_row(a->q_bounds, b, t, tiles.query_tile);
    const double mean = dot(at(d->dout, t, n), at(a->out, t, n), kernels->dim);
    *at(w.dpsum, n, row) = static_cast<float>(mean);
    *at(w.lse2, n, row) = static_cast<float>(*at(a->lse, n, t) * std::log2(std::exp(1.0)));
    float* const dq = at(w.dq_sum, n, row * tiles.sum_dim);
    std::fill_n(dq, kernels->dim, 0.0F);
    for (int s = begin; s < end; ++s) {
      const double p = std::exp(a->scale * dot(at(a->q, t, n), at(a->k, s, g), kernels->dim) -
                                double{*at(a->lse, n, t)});
      const double ds =
          a->scale * p * (dot(at(d->dout, t, n), at(a->v, s, g), kernels->dim) - mean);
      const std::int64_t key = padded_row(a->k_bounds, b, s, tiles.key_tile) * tiles.sum_dim;
      for (std::int32_t i = 0; i < kernels->dim; ++i) {
        dq[i] += static_cast<float>(ds * double{wide(at(a->k, s, g)[i])});
        at(w.dk_sum, g, key)[i] += static_cast<float>(ds * double{wide(at(a->q, t, n)[i])});
        at(w.dv_sum, g, key)[i] += static_cast<float>(p * double{wide(at(d->dout, t, n)[i])});
      }
    }
    for (std::int32_t i = 0; i < kernels->dim; ++i) at(d->dq, t, n)[i] = narrow(dq[i]);
  });
  const auto* const keys = static_cast<const std::int32_t*>(a->k_bounds.data);
  for (std::int32_t b = 0; b <= last_sequence; ++b)
    for (std::int32_t s = keys[b]; s < keys[b + 1]; ++s) {
      const std::int64_t key = padded_row(a->k_bounds, b, s, tiles.key_tile) * tiles.sum_dim;
      for (std::int32_t g = 0; g < G; ++g)
        for (std::int32_t i = 0; i < kernels->dim; ++i) {
          at(d->dk, s, g)[i] = narrow(at(w.dk_sum, g, key)[i]);
          at(d->dv, s, g)[i] = narrow(at(w.dv_sum, g, key)[i]);
        }
    }
  return 0;
}

const char* error_text(std::int32_t error) {
  return error == kInvalidValue ? "invalid argument" : "no error";
}

#ifndef FA4_STAND_IN_VERSION
#define FA4_STAND_IN_VERSION SLIMPACK_FA4_INTERFACE
#endif
constexpr Fa4Functions kFunctions{
    FA4_STAND_IN_VERSION, "a stand-in", find,      runs_here, load, forward,
    workspace_bytes,      backward,     error_text};

}  // namespace

const Fa4Functions* slimpack_fa4(void) {
  return &kFunctions;
}

extern "C" int fa4_stand_in_fixed_order_calls() {
  return fixed_order_calls;
}
