#include "slimpack/cost/prompt_memory.h"

#include <algorithm>
#include <cstdint>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/cost/attention_memory.h"
#include "slimpack/cost/layer_memory.h"

namespace slimpack {
namespace {

void require_sound(const PromptQuestion& q) {
  if (q.prompt < Tokens(1))
    invalid_input("the prompt has {} tokens, it must have 1 or more", q.prompt.count());
  if (q.answer < Tokens(0))
    invalid_input("max-new-tokens is {}, it must be 0 or more", q.answer.count());
  if (q.slice < Tokens(1))
    invalid_input("prefill-slice is {}, it must be 1 or more", q.slice.count());
  if (q.prompt > q.shape.max_positions)
    invalid_input("the prompt has {} tokens, the model {} positions; take a shorter prompt",
                  grouped(q.prompt.count()), grouped(q.shape.max_positions.count()));
}

/// The last slice: it has the longest prefix.
Slice last_slice(const PromptQuestion& q) {
  return {SequenceId(0), std::max(Tokens(0), q.prompt - q.slice), q.prompt};
}

/// The peak of attention's kernels beyond q and the result. In bf16 libtorch's kernel copies the
/// keys and values of a call into the order that AMX takes.
std::int64_t attention_peak(const LayerWidths& w, const Slice& slice) {
  const std::int64_t kernels = attention_forward_transient(w, {{slice}, 1});
  if (!w.rounded()) return kernels;
  const std::int64_t rows = slice.length().count();
  const std::int64_t own = w.tile(slice.length(), slice.length()) + rows * 2 * w.k;
  const std::int64_t prefix = rows * (w.q + w.lse) + w.tile(slice.length(), slice.prefix()) +
                              slice.prefix().count() * 2 * w.k;
  return std::max({kernels, own, slice.begin > Tokens(0) ? prefix : 0});
}

/// The peak of slice_layer (packflow/language), statement by statement.
std::int64_t layer_peak(const PromptQuestion& question) {
  const LayerWidths w(question.shape.kinds.front(), question.dtype);
  const Slice slice = last_slice(question);
  const std::int64_t rows = slice.length().count();
  const std::int64_t inputs = question.shape.hidden_size();
  const std::int64_t norm = rows * w.normalize(w.hidden);
  const std::int64_t x = rows * w.hidden;
  const std::int64_t qkv = w.q + 2 * w.k;
  const std::int64_t ffn_weights = w.ffn * inputs;
  // Products read a copy of the weight in its usual order.
  const std::int64_t attention =
      std::max({norm, x + qkv * inputs + rows * qkv,                  // of the normed x
                rows * (2 * w.q + w.lse) + attention_peak(w, slice),  // q and the result
                rows * 2 * w.q + w.q * inputs + x});                  // onto x: the middle
  const std::int64_t mlp =
      x + std::max({norm, x + 2 * ffn_weights + rows * 3 * w.ffn, rows * w.ffn + ffn_weights + x});
  return x + std::max(attention, mlp);
}

}  // namespace

PromptMemory prompt_memory(const PromptQuestion& question) {
  require_sound(question);
  const Decoder& shape = question.shape;
  const LayerShape& layer = shape.kinds.front();
  const LayerWidths w(layer, question.dtype);
  const std::int64_t tokens =
      std::min(question.prompt + question.answer, shape.max_positions).count();
  // Cosines and sines of half a head each.
  const std::int64_t angles = tokens * layer.head_dim * w.accumulator;
  return {.weights = Bytes(shape.parameters() * w.element),
          .cache = Bytes(shape.num_layers() * 2 * w.k * tokens),
          .angles = Bytes(angles),
          .slice = Bytes(layer_peak(question))};
}

}  // namespace slimpack
