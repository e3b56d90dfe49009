// RMSNorm of each head of q and k, and rope of the result: y = turned(n ⊙ weight), n = x · rstd.
//
// A head has a team of lanes: its lane i has vectors i of both halves, which rope turns together.
#pragma once

#include "slimpack/packflow/fused/rms_norm.cuh"
#include "slimpack/packflow/fused/rope.cuh"

namespace slimpack::fused::inline SLIMPACK_WAY {

/// Lanes of a head's team: one for each vector of a half, up to a power of two.
SLIMPACK_DEVICE int team_of(int vectors) {
  int team = 1;
  while (team < vectors) team *= 2;
  return team;
}

struct AddHalves {
  SLIMPACK_DEVICE Halves operator()(const Halves& a, const Halves& b) const {
    return {Add()(a.first, b.first), Add()(a.second, b.second)};
  }
};

/// n ⊙ weight, each product rounded.
SLIMPACK_DEVICE Halves normed(const Halves& x, const Halves& weight, float rstd) {
  Halves y;
  for (int e = 0; e < 8; ++e) {
    // Hugging Face rounds n before the weight multiplies it.
    y.first.value[e] = rounded(rounded(x.first.value[e] * rstd) * weight.first.value[e]);
    y.second.value[e] = rounded(rounded(x.second.value[e] * rstd) * weight.second.value[e]);
  }
  return y;
}

/// Normalises and rotates q and k and copies v. 4 bytes an element, and 2 for each of q and k that
/// is kept as it was before.
struct NormedRope {
  NormedRopeArguments arguments;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const RopeArguments& a = arguments.rope;
    const std::int64_t row = block.index();
    const int in_half = a.head_dim / 16, team = team_of(in_half);  // vectors, lanes
    const int heads = a.q_heads + a.k_heads + (a.to_v.data == nullptr ? 0 : a.k_heads);
    for (int begin = 0; begin < heads; begin += B::kLanes / team) {
      Own<Bf16Halves, B::kLanes> xs(Bf16Halves{});
      Own<float, B::kLanes> squares(0);
      block.template each_of<1>(
          B::kLanes,
          [&](int lane, Bf16Halves& x, float& sum) {
            const int head = begin + lane / team, i = lane % team;
            if (head >= heads || i >= in_half) return;
            x = load_halves(source(row, head), a.head_dim / 2, i);
            const Halves v = widened(x);
            for (int e = 0; e < 8; ++e) {
              sum += v.first.value[e] * v.first.value[e];
              sum += v.second.value[e] * v.second.value[e];
            }
          },
          xs, squares);
      block.merge_teams(squares, team, Add());
      block.template each_of<1>(
          B::kLanes,
          [&](int lane, const Bf16Halves& x, float sum) {
            const int head = begin + lane / team, i = lane % team;
            if (head < heads && i < in_half) write(row, head, i, x, sum);
          },
          xs, squares);
    }
  }

 private:
  // The heads of q, then those of k, then those of v.
  SLIMPACK_DEVICE const Bf16* source(std::int64_t row, int head) const {
    const RopeArguments& a = arguments.rope;
    if (head < a.q_heads) return head_of(a.from_q, row, head);
    head -= a.q_heads;
    return head < a.k_heads ? head_of(a.from_k, row, head)
                            : head_of(a.from_v, row, head - a.k_heads);
  }

  SLIMPACK_DEVICE void write(std::int64_t row, int head, int i, const Bf16Halves& x,
                             float squares) const {
    const RopeArguments& a = arguments.rope;
    const int half = a.head_dim / 2;
    const bool is_q = head < a.q_heads;
    if (!is_q) head -= a.q_heads;
    if (!is_q && head >= a.k_heads)
      return store_halves(head_of(a.to_v, row, head - a.k_heads), half, i, x);
    const HeadRows& kept = is_q ? arguments.kept_q : arguments.kept_k;
    if (kept.data != nullptr) store_halves(head_of(kept, row, head), half, i, x);
    const Bf16* weight = is_q ? arguments.q_weight_D : arguments.k_weight_D;
    const Halves y = normed(widened(x), widened(load_halves(weight, half, i)),
                            rstd_of(squares, a.head_dim, arguments.eps));
    store_halves(head_of(is_q ? a.to_q : a.to_k, row, head), half, i,
                 rounded(turned(y, a, row, i)));
  }
};

/// Rotates the gradients of q and k back and goes back through the norms, copies that of v, and
/// sums dy ⊙ n over this block's heads. Some blocks have q's heads, the others k's and v's. 6 bytes
/// an element of q and k, 4 of v.
///   dx = rstd (g − n · mean(g ⊙ n)), g = dy ⊙ weight
struct NormedRopeBackward {
  NormedRopeBackwardArguments arguments;

  template <class B>
  SLIMPACK_DEVICE void operator()(const B& block) const {
    const Part part = part_of(block.index());
    const int half = arguments.rope.head_dim / 2, in_half = half / 8, team = team_of(in_half);
    const unsigned teams = B::kLanes / team;
    Own<Bf16Halves, B::kLanes> weights(Bf16Halves{});
    Own<Halves, B::kLanes> dweights(Halves{});
    block.template each_of<1>(
        B::kLanes,
        [&](int lane, Bf16Halves& weight) {
          if (lane % team < in_half) weight = load_halves(part.weight_D, half, lane % team);
        },
        weights);
    for (unsigned begin = part.index * teams; begin < part.all; begin += part.blocks * teams) {
      Own<Bf16Halves, B::kLanes> xs(Bf16Halves{});
      Own<Halves, B::kLanes> dys(Halves{});
      Own<RowSums, B::kLanes> sums(RowSums{0, 0});
      block.template each_of<1>(
          B::kLanes,
          [&](int lane, Bf16Halves& x, Halves& dy, const Bf16Halves& weight, RowSums& sum) {
            const unsigned item = begin + lane / team;
            const int i = lane % team;
            if (item < part.all && i < in_half) read(part, item, i, weight, x, dy, sum);
          },
          xs, dys, weights, sums);
      block.merge_teams(sums, team, AddRowSums());
      block.template each_of<1>(
          B::kLanes,
          [&](int lane, const Bf16Halves& x, const Halves& dy, const Bf16Halves& weight,
              const RowSums& sum, Halves& dweight) {
            const unsigned item = begin + lane / team;
            const int i = lane % team;
            if (item >= part.all || i >= in_half) return;
            const Halves dx = input_gradient(widened(x), dy, widened(weight), sum, dweight);
            store_halves(part.is_q ? head(arguments.rope.to_q, part, item)
                                   : head(arguments.rope.to_k, part, item),
                         half, i, rounded(dx));
          },
          xs, dys, weights, sums, dweights);
    }
    block.merge_across_teams(dweights, team, AddHalves());
    block.template each_of<1>(
        B::kLanes,
        [&](int lane, const Halves& dweight) {
          if (lane >= in_half) return;
          store8(part.dweight_D, lane, dweight.first);
          store8(part.dweight_D + half, lane, dweight.second);
        },
        dweights);
  }

 private:
  /// A block's: `all` heads of q or of k, of which it has every `blocks`-th group.
  struct Part {
    bool is_q;
    unsigned index, blocks, heads, all;
    const Bf16* weight_D;
    float* dweight_D;
  };

  SLIMPACK_DEVICE Part part_of(std::int64_t block) const {
    const RopeArguments& a = arguments.rope;
    const bool is_q = block < arguments.q_blocks;
    const std::int64_t index = is_q ? block : block - arguments.q_blocks;
    const int heads = is_q ? a.q_heads : a.k_heads;
    float* sums_BD = is_q ? arguments.dq_weight_BD : arguments.dk_weight_BD;
    return {is_q,
            static_cast<unsigned>(index),
            static_cast<unsigned>(is_q ? arguments.q_blocks : arguments.k_blocks),
            static_cast<unsigned>(heads),
            static_cast<unsigned>(a.rows * heads),
            is_q ? arguments.q_weight_D : arguments.k_weight_D,
            sums_BD + index * a.head_dim};
  }

  static SLIMPACK_DEVICE Bf16* head(const HeadRows& rows, const Part& part, unsigned item) {
    return head_of(rows, item / part.heads, static_cast<int>(item % part.heads));
  }

  /// Reads x and the gradient of the norm's result, and copies v's gradient.
  SLIMPACK_DEVICE void read(const Part& part, unsigned item, int i, const Bf16Halves& weight,
                            Bf16Halves& x, Halves& dy, RowSums& sum) const {
    const RopeArguments& a = arguments.rope;
    const int half = a.head_dim / 2;
    x = load_halves(part.is_q ? head(arguments.q, part, item) : head(arguments.k, part, item), half,
                    i);
    const Bf16* gradient = part.is_q ? head(a.from_q, part, item) : head(a.from_k, part, item);
    dy = turned(widened(load_halves(gradient, half, i)), a, item / part.heads, i);
    if (!part.is_q)
      store_halves(head(a.to_v, part, item), half, i,
                   load_halves(head(a.from_v, part, item), half, i));
    const Halves v = widened(x), w = widened(weight);
    for (int e = 0; e < 8; ++e) {
      sum.squares += v.first.value[e] * v.first.value[e];
      sum.squares += v.second.value[e] * v.second.value[e];
      sum.products += dy.first.value[e] * w.first.value[e] * v.first.value[e];
      sum.products += dy.second.value[e] * w.second.value[e] * v.second.value[e];
    }
  }

  SLIMPACK_DEVICE Halves input_gradient(const Halves& x, const Halves& dy, const Halves& weight,
                                        const RowSums& sum, Halves& dweight) const {
    const int width = arguments.rope.head_dim;
    const float rstd = rstd_of(sum.squares, width, arguments.eps);
    const float mean = sum.products * rstd / width;
    const auto one = [&](float v, float d, float w, float& dw) {
      const float n = v * rstd;
      dw += d * rounded(n);
      return rstd * (d * w - n * mean);
    };
    Halves dx;
    for (int e = 0; e < 8; ++e) {
      dx.first.value[e] =
          one(x.first.value[e], dy.first.value[e], weight.first.value[e], dweight.first.value[e]);
      dx.second.value[e] = one(x.second.value[e], dy.second.value[e], weight.second.value[e],
                               dweight.second.value[e]);
    }
    return dx;
  }
};

}  // namespace slimpack::fused::inline SLIMPACK_WAY
