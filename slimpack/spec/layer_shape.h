// The shape of one decoder layer: the widths that its parameters, FLOPs and bytes follow from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace slimpack {

/// The largest sizes of a model that its readers take. With them a layer has below 2^45 parameters
/// and a model below 2^58, so sizes and their products fit 64 bits.
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 20;
inline constexpr std::int64_t kMaxIntermediate = std::int64_t{1} << 22;
inline constexpr std::int64_t kMaxLayers = std::int64_t{1} << 12;
inline constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 28;
inline constexpr std::int64_t kMaxPositions = (std::int64_t{1} << 31) - 1;

/// Norms of queries and keys before rope.
enum class QkNorm : std::uint8_t {
  kNone,
  kPerHead,  ///< one weight for all heads
  kWhole,    ///< over the heads together
};

/// Figures of what hands a state of constant size from token to token, beside attention or in its
/// place: all that costs follow from. state_mixer.h makes them for each kind.
struct StateMixer {
  std::int64_t weights = 0;    ///< elements of matrices and filters that a token is multiplied with
  std::int64_t vectors = 0;    ///< its other parameters
  std::int64_t recurrent = 0;  ///< elements of a sequence's recurrent state, which is fp32
  std::int64_t convolved = 0;  ///< elements of the inputs that its convolution hands on
  std::int64_t multiplied = 0;  ///< multiply-adds of a token with the recurrent state
  std::int64_t rows = 0;        ///< elements that backward needs of a token

  bool operator==(const StateMixer&) const = default;
};

/// Causal attention or a state or both, then a gated MLP; each may be missing. A token runs through
/// the dense part of the MLP and, where there are experts, through `experts_per_token` of them;
/// shared experts are a dense part.
struct LayerShape {
  std::int64_t hidden_size = 0;
  std::int64_t norms = 2;  ///< RMSNorms over hidden_size

  std::int64_t num_heads = 0;  ///< 0 = no attention
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 0;   ///< of queries and keys
  std::int64_t value_dim = 0;  ///< of values, by head
  std::int64_t window = 0;     ///< most keys that a query attends to, its own among them; 0 = all
  QkNorm qk_norm = QkNorm::kNone;
  bool qkv_bias = false;
  bool output_bias = false;
  bool sinks = false;  ///< a learned logit by head that takes part in the softmax
  /// Multi-head latent attention (DeepSeek-V2): keys and values of all heads are products of one
  /// normalised latent of width kv_rank; shared_key_dim of each key's dimensions are the same for
  /// all heads. 0 = keys and values are products of the hidden state.
  std::int64_t kv_rank = 0;
  std::int64_t shared_key_dim = 0;
  std::int64_t q_rank = 0;  ///< the same for queries; 0 = products of the hidden state
  /// Columns of the map that gates attention's output. One as wide as the queries is a part of
  /// their map and has a bias if that one has.
  std::int64_t gate_width = 0;
  StateMixer state = {};

  std::int64_t dense_width = 0;  ///< 0 = experts alone, or no MLP
  bool gated = true;             ///< the MLP and the experts have a gate beside up
  bool mlp_bias = false;
  bool shared_gate = false;  ///< the dense part's output is gated by a product of the hidden state
  std::int64_t experts = 0;
  std::int64_t experts_per_token = 0;
  std::int64_t expert_width = 0;
  /// Experts take and give a latent of this width, a product of the hidden state; 0 = itself.
  std::int64_t expert_latent = 0;
  bool expert_bias = false;  ///< of each expert's maps and of the router
  /// Whether the weights of a token's experts are their probabilities over the sum of these.
  bool norm_topk_prob = false;

  /// Figures of a layer that is known only from a count: its parameters, and the elements of all
  /// matrices that a token is multiplied with. 0 = both follow from the widths.
  std::int64_t counted_parameters = 0;
  std::int64_t counted_weights = 0;

  [[nodiscard]] bool attends() const { return num_heads > 0; }
  [[nodiscard]] bool has_state() const { return state.recurrent + state.convolved > 0; }
  [[nodiscard]] bool has_qk_norm() const { return qk_norm != QkNorm::kNone; }
  [[nodiscard]] std::int64_t q_width() const { return num_heads * head_dim; }
  [[nodiscard]] std::int64_t k_width() const { return num_kv_heads * head_dim; }
  [[nodiscard]] std::int64_t v_width() const { return num_kv_heads * value_dim; }
  [[nodiscard]] std::int64_t out_width() const { return num_heads * value_dim; }
  /// Columns of up, and of gate if there is one, that a token has.
  [[nodiscard]] std::int64_t active_width() const {
    return dense_width + experts_per_token * expert_width;
  }

  /// Elements of the matrices that find q, and k and v; of all that a token is multiplied with.
  [[nodiscard]] std::int64_t q_weights() const;
  [[nodiscard]] std::int64_t kv_weights() const;
  [[nodiscard]] std::int64_t active_weights() const;
  [[nodiscard]] std::int64_t parameters() const;
  /// The widths of the linear maps of a layer without experts and latents, of all together: of what
  /// they take, and of what they give.
  [[nodiscard]] std::int64_t map_inputs() const;
  [[nodiscard]] std::int64_t map_outputs() const;
  /// The parameters that a token uses: all but those of the experts that the token is not sent to.
  [[nodiscard]] std::int64_t active_parameters() const;

  bool operator==(const LayerShape&) const = default;
};

/// The part of a layer that one of `tp` tensor-parallel ranks has. tensor_parallel_part of a
/// Decoder has the rules.
[[nodiscard]] LayerShape tensor_parallel_part(const LayerShape& layer, std::int32_t tp);

/// One line per broken rule: sizes within bounds, so that no product overflows.
[[nodiscard]] std::vector<std::string> layer_errors(const LayerShape& layer);

}  // namespace slimpack
