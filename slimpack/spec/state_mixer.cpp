// `rows` counts what kernels that fuse elementwise work keep for backward: inputs and outputs of
// the convolution, of the scan and of the norm and gate behind it.
#include "slimpack/spec/state_mixer.h"

namespace slimpack {

namespace {

/// A delta rule multiplies a token with the state three times: what the keys recall, what is
/// written, and what the queries read.
constexpr std::int64_t kDeltaProducts = 3;
/// A scan writes x ⊗ B, and reads with C.
constexpr std::int64_t kScanProducts = 2;

}  // namespace

StateMixer gated_delta_net(std::int64_t hidden, const StateHeads& heads, std::int64_t kernel) {
  const std::int64_t channels = 2 * heads.keys() + heads.values();
  const std::int64_t gates = 2 * heads.value_heads;  // decay, and strength of what is written
  StateMixer mixer;
  mixer.weights =
      hidden * (channels + heads.values() + gates) + heads.values() * hidden + channels * kernel;
  mixer.vectors = 2 * heads.value_heads + heads.value_dim;  // A, bias of the step; norm
  mixer.recurrent = heads.values() * heads.key_dim;
  mixer.convolved = channels * kernel;
  mixer.multiplied = kDeltaProducts * mixer.recurrent;
  mixer.rows = 2 * channels + gates + 3 * heads.values();
  return mixer;
}

StateMixer kimi_delta_attention(std::int64_t hidden, std::int64_t heads, std::int64_t head_dim,
                                std::int64_t kernel, bool low_rank) {
  const std::int64_t width = heads * head_dim;
  const std::int64_t gate = low_rank ? head_dim * (hidden + width) : hidden * width;
  StateMixer mixer;
  mixer.weights = 4 * hidden * width + 3 * width * kernel + 2 * gate + hidden * heads;
  mixer.vectors = width + heads + head_dim;  // bias of the step, A; norm
  mixer.recurrent = width * head_dim;
  mixer.convolved = 3 * width * kernel;
  mixer.multiplied = kDeltaProducts * mixer.recurrent;
  mixer.rows = 2 * 3 * width + heads + width + 3 * width + (low_rank ? 2 * head_dim : 0);
  return mixer;
}

StateMixer mamba2(std::int64_t hidden, std::int64_t heads, std::int64_t head_dim,
                  std::int64_t groups, std::int64_t state, std::int64_t kernel,
                  const ScanVectors& vectors) {
  const std::int64_t inner = heads * head_dim;
  const std::int64_t channels = inner + 2 * groups * state;
  const std::int64_t mapped = inner + channels + heads;
  StateMixer mixer;
  mixer.weights = hidden * (mapped + inner) + channels * kernel;
  mixer.vectors = 3 * heads + (vectors.convolution ? channels : 0) + (vectors.input ? mapped : 0) +
                  (vectors.output ? hidden : 0) + (vectors.norm ? inner : 0);
  mixer.recurrent = inner * state;
  mixer.convolved = channels * kernel;
  mixer.multiplied = kScanProducts * mixer.recurrent;
  mixer.rows = mapped + channels + 2 * inner;
  return mixer;
}

StateMixer mamba(std::int64_t hidden, std::int64_t inner, std::int64_t state, std::int64_t rank,
                 std::int64_t kernel, const ScanVectors& vectors) {
  const std::int64_t found = rank + 2 * state;  // step, B and C, which follow from a token
  StateMixer mixer;
  mixer.weights = 3 * hidden * inner + inner * (found + rank + kernel);
  mixer.vectors = inner * (state + 2) + (vectors.convolution ? inner : 0) +
                  (vectors.input ? 2 * inner : 0) + (vectors.output ? hidden : 0) +
                  (vectors.norm ? found : 0);
  mixer.recurrent = inner * state;
  mixer.convolved = inner * kernel;
  mixer.multiplied = kScanProducts * mixer.recurrent;
  mixer.rows = 6 * inner + found;
  return mixer;
}

StateMixer short_convolution(std::int64_t hidden, std::int64_t kernel, bool bias) {
  StateMixer mixer;
  mixer.weights = 4 * hidden * hidden + hidden * kernel;
  mixer.vectors = bias ? 5 * hidden : 0;
  mixer.convolved = hidden * kernel;
  mixer.rows = 6 * hidden;
  return mixer;
}

}  // namespace slimpack
