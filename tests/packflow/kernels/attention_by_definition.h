// Attention by definition: the oracle of every attention kernel.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/packflow/support/tensors.h"

namespace slimpack::testing {

struct Attention {
  at::Tensor q, k, v, dout;
};

inline Attention random_attention(Rng& rng, std::int64_t tokens, std::int64_t kv_heads,
                                  std::int64_t queries_per_kv, std::int64_t head_dim) {
  const std::int64_t heads = kv_heads * queries_per_kv;
  return {random_tensor(rng, {tokens, heads, head_dim}),
          random_tensor(rng, {tokens, kv_heads, head_dim}),
          random_tensor(rng, {tokens, kv_heads, head_dim}),
          random_tensor(rng, {tokens, heads, head_dim})};
}

struct Everything {
  at::Tensor out, lse, dq, dk, dv;
};

/// Keys [first, end) that a query sees.
struct SeenKeys {
  /// Implicit, for most queries see all keys up to one.
  SeenKeys(std::int64_t up_to) : end(up_to) {}
  SeenKeys(std::int64_t from, std::int64_t up_to) : first(from), end(up_to) {}

  std::int64_t first = 0, end;
};

/// Softmax attention and its gradients by definition, one query at a time; query t sees the keys
/// seen(t):
///   p_j = exp(q·k_j/√D − lse), out = Σ p_j v_j,
///   dv_j += p_j dout, ds_j = p_j (dout·v_j − dout·out), dq += ds_j k_j/√D, dk_j += ds_j q/√D.
template <class Seen>
Everything by_definition(const Attention& a, Seen seen) {
  const std::int64_t tokens = a.q.size(0), heads = a.q.size(1), dim = a.q.size(2);
  const std::int64_t group = heads / a.k.size(1);
  Everything r{at::zeros_like(a.q), at::zeros({tokens, heads}, at::kDouble), at::zeros_like(a.q),
               at::zeros_like(a.k), at::zeros_like(a.v)};
  const auto q = a.q.accessor<double, 3>(), k = a.k.accessor<double, 3>(),
             v = a.v.accessor<double, 3>(), dout = a.dout.accessor<double, 3>();
  auto out = r.out.accessor<double, 3>(), dq = r.dq.accessor<double, 3>(),
       dk = r.dk.accessor<double, 3>(), dv = r.dv.accessor<double, 3>();
  auto lse = r.lse.accessor<double, 2>();
  const double scale = 1 / std::sqrt(static_cast<double>(dim));
  std::vector<double> p(static_cast<std::size_t>(a.k.size(0)));
  for (std::int64_t n = 0; n < heads; ++n) {
    const std::int64_t g = n / group;
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto along = [&](auto&& f) {
        double sum = 0;
        for (std::int64_t d = 0; d < dim; ++d) sum += f(d);
        return sum;
      };
      const SeenKeys keys = seen(t);
      double total = 0;
      for (std::int64_t j = keys.first; j < keys.end; ++j)
        total += p[static_cast<std::size_t>(j)] =
            std::exp(scale * along([&](auto d) { return q[t][n][d] * k[j][g][d]; }));
      lse[t][n] = std::log(total);
      for (std::int64_t j = keys.first; j < keys.end; ++j) {
        p[static_cast<std::size_t>(j)] /= total;
        for (std::int64_t d = 0; d < dim; ++d)
          out[t][n][d] += p[static_cast<std::size_t>(j)] * v[j][g][d];
      }
      const double mean = along([&](auto d) { return dout[t][n][d] * out[t][n][d]; });
      for (std::int64_t j = keys.first; j < keys.end; ++j) {
        const double pj = p[static_cast<std::size_t>(j)];
        const double ds =
            scale * pj * (along([&](auto d) { return dout[t][n][d] * v[j][g][d]; }) - mean);
        for (std::int64_t d = 0; d < dim; ++d) {
          dv[j][g][d] += pj * dout[t][n][d];
          dq[t][n][d] += ds * k[j][g][d];
          dk[j][g][d] += ds * q[t][n][d];
        }
      }
    }
  }
  return r;
}

}  // namespace slimpack::testing
