// The families whose layers hand on states. Layers are read first, then the state.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"
#include "slimpack/spec/family_reader.h"

namespace slimpack {

namespace {

using Reader = FamilyReader;
using nlohmann::json;

constexpr std::array<std::string_view, 2> kLinear{"linear_attention", "full_attention"};
constexpr std::array<std::string_view, 2> kConvolved{"conv", "full_attention"};
constexpr std::array<std::string_view, 3> kWindowed{"conv", "full_attention", "sliding_attention"};
constexpr std::array<std::string_view, 2> kMlps{"dense", "sparse"};
/// Nemotron-H's layers have one part each; its older files have a letter for each layer.
constexpr std::array<std::string_view, 4> kBlocks{"linear_attention", "full_attention", "mlp",
                                                  "moe"};
constexpr std::string_view kLetters = "M*-E";

/// Gives the layer a state in place of attention, or attention alone.
void place(LayerParts& parts, bool state) {
  parts.state = state;
  parts.attention = !state;
}

/// Layers as the file's layer_types say; else those that `attends` says have attention, and the
/// others states.
void place_states(const Reader& in, Layers& out, std::span<const std::string_view> known,
                  const LayerTest& attends) {
  const std::vector<std::string> types = in.types("layer_types", known);
  for (std::size_t l = 0; l < in.layers(); ++l)
    place(out.parts[l], types.empty() ? !attends(l) : types[l] == known.front());
}

/// Experts as the file's mlp_layer_types say; else on layers from first_k_dense_replace on.
void place_experts(const Reader& in, Layers& out) {
  const std::vector<std::string> mlps = in.types("mlp_layer_types", kMlps);
  for (std::size_t l = 0; l < mlps.size(); ++l) out.parts[l].experts = mlps[l] == "sparse";
}

/// Every so many layers, of which the last one has attention.
LayerTest every(const Reader& in, const char* key, std::int64_t otherwise) {
  const auto period = static_cast<std::size_t>(in.width(key, otherwise));
  return [=](std::size_t l) { return (l + 1) % period == 0; };
}

StateMixer delta_net(const Reader& in, const StateHeads& otherwise, std::int64_t hidden) {
  const StateHeads heads{.key_heads = in.width("linear_num_key_heads", otherwise.key_heads),
                         .key_dim = in.width("linear_key_head_dim", otherwise.key_dim),
                         .value_heads = in.width("linear_num_value_heads", otherwise.value_heads),
                         .value_dim = in.width("linear_value_head_dim", otherwise.value_dim)};
  in.require_width("hidden_size", hidden);
  in.require_width("linear_num_key_heads × linear_key_head_dim", heads.keys());
  in.require_width("linear_num_value_heads × linear_value_head_dim", heads.values());
  if (heads.value_heads % heads.key_heads != 0)
    invalid_input(
        "{}: linear_num_value_heads is {}, must be a multiple of linear_num_key_heads, {}; correct "
        "the file",
        in.fields().origin(), heads.value_heads, heads.key_heads);
  return gated_delta_net(hidden, heads, in.width("linear_conv_kernel_dim", 4));
}

/// Qwen3.5 and Qwen3-Next: queries are as wide again, for a gate of attention's output.
void read_qwen3_5(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kPerHead;
  out.dense.gate_width = out.dense.q_width();
  place_states(in, out, kLinear, every(in, "full_attention_interval", 4));
  out.state = delta_net(in, {16, 128, 32, 128}, out.dense.hidden_size);
}

void read_qwen_experts(const Reader& in, Layers& out, std::int64_t experts, std::int64_t per_token,
                       const LayerTest& has_experts) {
  in.read_experts(out, in.size({"num_experts", "num_local_experts"}, experts),
                  in.size("num_experts_per_tok", per_token), in.size("moe_intermediate_size", 512),
                  has_experts);
  out.sparse.dense_width = in.size("shared_expert_intermediate_size", 512);
  out.sparse.shared_gate = true;
}

void read_qwen3_5_moe(const Reader& in, Layers& out) {
  read_qwen3_5(in, out);
  read_qwen_experts(in, out, 256, 8, [](std::size_t) { return true; });
}

void read_qwen3_next(const Reader& in, Layers& out) {
  read_qwen3_5(in, out);
  read_qwen_experts(in, out, 512, 10, sparse_steps(in));
}

void read_olmo_hybrid(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kWhole;
  place_states(in, out, kLinear, [](std::size_t l) { return l % 4 == 3; });
  const auto attends = [](const LayerParts& parts) { return parts.attention; };
  if (!in.has("layer_types") && std::ranges::none_of(out.parts, attends))
    place(out.parts.back(), false);
  const std::int64_t hidden = out.dense.hidden_size, heads = out.dense.num_heads;
  const std::int64_t key_heads = in.width("linear_num_key_heads", heads);
  const std::int64_t key_dim = in.width("linear_key_head_dim", 3 * hidden / (4 * key_heads));
  out.state = delta_net(in, {heads, key_dim, heads, 2 * key_dim}, hidden);
}

/// Kimi's and Bailing's experts; the shared ones are together as wide as so many of the others.
void read_many_experts(const Reader& in, Layers& out, std::int64_t experts, std::int64_t width,
                       std::int64_t dense_layers) {
  const auto first = static_cast<std::size_t>(in.size("first_k_dense_replace", dense_layers));
  const std::int64_t each = in.size("moe_intermediate_size", width);
  in.read_experts(out, in.size({"num_experts", "num_local_experts"}, experts),
                  in.size({"num_experts_per_token", "num_experts_per_tok"}, 8), each,
                  [=](std::size_t l) { return l >= first; });
  out.sparse.dense_width = in.size({"num_shared_experts", "n_shared_experts"}, 1) * each;
  place_experts(in, out);
}

StateMixer kimi_state(const Reader& in, std::int64_t hidden, std::int64_t heads,
                      std::int64_t head_dim, std::int64_t kernel, bool low_rank) {
  in.require_width("hidden_size", hidden);
  in.require_width("heads × head_dim of linear attention", heads * head_dim);
  return kimi_delta_attention(hidden, heads, head_dim, kernel, low_rank);
}

/// Layers of a published file, which counts from 1 and names each in one of two lists.
void place_numbered(const Reader& lists, Layers& out) {
  std::vector<int> named(out.parts.size());
  for (const auto& [key, state] : {std::pair{"full_attn_layers", false}, {"kda_layers", true}})
    for (const std::int64_t number : lists.integers(key)) {
      const auto l = static_cast<std::size_t>(number - 1);
      if (l >= out.parts.size())
        invalid_input("{}: {} has layer {}, allowed are 1 to {}; correct the file",
                      lists.fields().origin(), key, number, out.parts.size());
      ++named[l];
      place(out.parts[l], state);
    }
  for (std::size_t l = 0; l < named.size(); ++l)
    if (named[l] != 1)
      invalid_input(
          "{}: full_attn_layers and kda_layers name layer {} {} times, must name each once; "
          "correct the file",
          lists.fields().origin(), l + 1, named[l]);
}

void read_kimi_linear(const Reader& in, Layers& out) {
  out.dense.qkv_bias = out.dense.output_bias = in.flag("attention_bias");
  read_latents(in, out, in.optional_size("q_lora_rank", 0));
  place_states(in, out, kLinear, [](std::size_t l) { return l > 0 && l % 4 == 0; });
  const std::int64_t hidden = out.dense.hidden_size;
  std::int64_t heads = in.width("linear_num_heads", 32), dim = in.width("linear_head_dim", 128);
  std::int64_t kernel = in.width("linear_conv_kernel_dim", 4);
  if (in.has("linear_attn_config")) {
    const JsonFields own = in.fields().object("linear_attn_config");
    const Reader lists(own, in.fields().at("linear_attn_config"), in.layers());
    heads = lists.width("num_heads", heads);
    dim = lists.width("head_dim", dim);
    kernel = lists.width("short_conv_kernel_size", kernel);
    if (!in.has("layer_types") && lists.has("full_attn_layers") && lists.has("kda_layers"))
      place_numbered(lists, out);
  }
  out.state = kimi_state(in, hidden, heads, dim, kernel, true);
  read_many_experts(in, out, 256, 1024, 1);
}

void read_bailing_hybrid(const Reader& in, Layers& out) {
  const std::int64_t hidden = out.dense.hidden_size, heads = out.dense.num_heads;
  out.dense.qkv_bias = out.dense.output_bias = in.flag("attention_bias");
  read_latents(in, out, 0);
  out.dense.gate_width = heads;
  place_states(in, out, kLinear, every(in, "layer_group_size", 6));
  // Files that transformers wrote have the first of these names, and another head_dim.
  out.state =
      kimi_state(in, hidden, in.width("linear_num_heads", heads),
                 in.width("linear_head_dim", in.width("head_dim", 128)),
                 in.width("linear_conv_kernel_dim", in.width("short_conv_kernel_size", 4)), false);
  read_many_experts(in, out, 512, 768, 2);
}

/// Names and defaults of a Mamba-2 state.
struct ScanNames {
  const char *heads, *head_dim, *groups, *state, *kernel, *convolution_bias;
  std::int64_t default_heads, default_head_dim, default_groups, default_state;
};

constexpr ScanNames kMambaNames{"mamba_n_heads",
                                "mamba_d_head",
                                "mamba_n_groups",
                                "mamba_d_state",
                                "mamba_d_conv",
                                "mamba_conv_bias",
                                128,
                                0,
                                1,
                                256};

/// `inner`: heads × head_dim, where the family's head_dim follows from it.
StateMixer scan(const Reader& in, const ScanNames& names, std::int64_t hidden, std::int64_t inner,
                ScanVectors vectors) {
  in.require_width("hidden_size", hidden);
  const std::int64_t heads = in.width(names.heads, names.default_heads);
  std::int64_t dim = names.default_head_dim == 0 ? inner / heads : names.default_head_dim;
  if (!in.says(names.head_dim, "auto")) dim = in.width(names.head_dim, dim);
  in.require_width(fmt::format("{} × {}", names.heads, names.head_dim), heads * dim);
  if (inner > 0 && heads * dim != inner)
    invalid_input(
        "{}: {} × {} is {}, must be {}, as wide as the state's channels; correct the file",
        in.fields().origin(), names.heads, names.head_dim, heads * dim, inner);
  const std::int64_t groups = in.width(names.groups, names.default_groups);
  const std::int64_t state = in.width(names.state, names.default_state);
  in.require_width(fmt::format("{} × {}", names.groups, names.state), groups * state);
  vectors.convolution = in.flag(names.convolution_bias, true);
  return mamba2(hidden, heads, dim, groups, state, in.width(names.kernel, 4), vectors);
}

/// The state of Bamba and of Granite, whose channels follow from hidden_size.
StateMixer expanded_scan(const Reader& in, std::int64_t hidden) {
  const bool bias = in.flag("mamba_proj_bias");
  return scan(in, kMambaNames, hidden, in.width("mamba_expand", 2) * hidden,
              {.input = bias, .output = bias, .norm = true});
}

void read_granitemoehybrid(const Reader& in, Layers& out) {
  read_biases(in, out);
  place_states(in, out, kLinear, [](std::size_t) { return false; });
  out.state = expanded_scan(in, out.dense.hidden_size);
  in.read_experts(out, in.size("num_local_experts", 8), in.size("num_experts_per_tok", 2),
                  out.dense.dense_width, [](std::size_t) { return true; });
  out.dense.dense_width = out.sparse.dense_width = in.size("shared_intermediate_size", 1024);
}

void read_bamba(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.mlp_bias = in.flag("mlp_bias");
  const std::vector<std::int64_t> attending = in.integers("attn_layer_indices");
  for (std::size_t l = 0; l < in.layers(); ++l)
    place(out.parts[l], std::ranges::count(attending, static_cast<std::int64_t>(l)) == 0);
  out.state = expanded_scan(in, out.dense.hidden_size);
}

void read_falcon_h1(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.mlp_bias = in.flag("mlp_bias");
  for (LayerParts& parts : out.parts) parts.state = true;
  const std::int64_t hidden = out.dense.hidden_size;
  const std::int64_t inner = in.optional_size("mamba_d_ssm", 1024);
  out.state =
      scan(in, kMambaNames, hidden, inner == 0 ? in.width("mamba_expand", 2) * hidden : inner,
           {.input = in.flag("mamba_proj_bias"),
            .output = in.flag("projectors_bias"),
            .norm = in.flag("mamba_rms_norm")});
}

void read_mamba2(const Reader& in, Layers& out) {
  constexpr ScanNames kNames{
      "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel", "use_conv_bias",
      128,         64,         8,          128};
  out.dense.norms = 1;
  const std::int64_t hidden = out.dense.hidden_size;
  for (LayerParts& parts : out.parts) place(parts, true);
  const bool bias = in.flag("use_bias");
  out.state = scan(in, kNames, hidden, in.width("expand", 2) * hidden,
                   {.input = bias, .output = bias, .norm = true});
}

/// The types of Nemotron-H's layers, of whichever field has them.
std::vector<std::string> blocks_of(const Reader& in) {
  for (const char* key : {"layers_block_type", "layer_types"})
    if (in.has(key)) return in.types(key, kBlocks);
  const std::string pattern = in.fields().text("hybrid_override_pattern");
  if (pattern.size() != in.layers())
    invalid_input(
        "{}: hybrid_override_pattern has {} layers, num_hidden_layers is {}; make them "
        "equal",
        in.fields().origin(), pattern.size(), in.layers());
  std::vector<std::string> blocks;
  for (const char letter : pattern) {
    const std::size_t kind = kLetters.find(letter);
    if (kind == std::string_view::npos)
      invalid_input(
          "{}: hybrid_override_pattern has the letter {}, whose cost is not known; known are M, *, "
          "- and E",
          in.fields().origin(), json_string(std::string_view(&letter, 1)));
    blocks.emplace_back(kBlocks[kind]);
  }
  return blocks;
}

void read_nemotron_h(const Reader& in, Layers& out) {
  constexpr ScanNames kNames{"mamba_num_heads",
                             "mamba_head_dim",
                             "n_groups",
                             "ssm_state_size",
                             "conv_kernel",
                             "use_conv_bias",
                             128,
                             64,
                             8,
                             128};
  out.dense.norms = 1;
  out.dense.gated = false;
  out.dense.mlp_bias = in.flag("mlp_bias");
  in.read_experts(out, in.size({"n_routed_experts", "num_local_experts"}, 8),
                  in.size("num_experts_per_tok", 2), in.size("moe_intermediate_size", 7688),
                  [](std::size_t) { return false; });
  out.sparse.dense_width = in.size("moe_shared_expert_intermediate_size", 7688);
  out.sparse.expert_latent = in.size("moe_latent_size", 0);
  const std::vector<std::string> blocks = blocks_of(in);
  for (std::size_t l = 0; l < blocks.size(); ++l)
    out.parts[l] = {.attention = blocks[l] == "full_attention",
                    .state = blocks[l] == "linear_attention",
                    .dense = blocks[l] == "mlp",
                    .experts = blocks[l] == "moe"};
  const bool bias = in.flag("use_bias");
  out.state =
      scan(in, kNames, out.dense.hidden_size, 0, {.input = bias, .output = bias, .norm = true});
}

/// Mamba's names of its sizes. `inner`: of the channels, where the family has one.
struct MambaNames {
  const char *expand, *inner, *state, *rank, *kernel, *convolution_bias, *bias;
};

StateMixer mamba1(const Reader& in, const MambaNames& names, std::int64_t hidden, bool norms) {
  in.require_width("hidden_size", hidden);
  const std::int64_t expanded = in.width(names.expand, 2) * hidden;
  const std::int64_t inner = names.inner == nullptr ? expanded : in.width(names.inner, expanded);
  in.require_width(fmt::format("{} × hidden_size", names.expand), inner);
  const std::int64_t rank =
      in.says(names.rank, "auto") ? (hidden + 15) / 16 : in.width(names.rank, (hidden + 15) / 16);
  const bool bias = in.flag(names.bias);
  return mamba(hidden, inner, in.width(names.state, 16), rank, in.width(names.kernel, 4),
               {in.flag(names.convolution_bias, true), bias, bias, norms});
}

void read_mamba(const Reader& in, Layers& out) {
  out.dense.norms = 1;
  for (LayerParts& parts : out.parts) place(parts, true);
  out.state = mamba1(in,
                     {"expand", "intermediate_size", "state_size", "time_step_rank", "conv_kernel",
                      "use_conv_bias", "use_bias"},
                     out.dense.hidden_size, false);
}

void read_jamba(const Reader& in, Layers& out) {
  const auto at = [&](const char* period, std::int64_t layers, const char* offset,
                      std::int64_t first) {
    const auto every = static_cast<std::size_t>(in.width(period, layers));
    const auto begin = static_cast<std::size_t>(in.size(offset, first));
    return [=](std::size_t l) { return l % every == begin; };
  };
  const auto attends = at("attn_layer_period", 8, "attn_layer_offset", 4);
  for (std::size_t l = 0; l < in.layers(); ++l) place(out.parts[l], !attends(l));
  const std::int64_t experts = in.size({"num_experts", "num_local_experts"}, 16);
  in.read_experts(out, experts > 1 ? experts : 0, in.size("num_experts_per_tok", 2),
                  out.dense.dense_width, at("expert_layer_period", 2, "expert_layer_offset", 1));
  out.state = mamba1(in,
                     {"mamba_expand", nullptr, "mamba_d_state", "mamba_dt_rank", "mamba_d_conv",
                      "mamba_conv_bias", "mamba_proj_bias"},
                     out.dense.hidden_size, true);
}

StateMixer convolution(const Reader& in, std::int64_t hidden, std::int64_t kernel) {
  in.require_width("hidden_size", hidden);
  return short_convolution(hidden, in.width("conv_L_cache", kernel), in.flag("conv_bias"));
}

/// LFM2's MLP is two thirds as wide as its field says, and rounded up.
std::int64_t adjusted_width(const Reader& in, std::int64_t width) {
  if (!in.flag("block_auto_adjust_ff_dim", true)) return width;
  width = 2 * width / 3;
  if (in.has("block_ffn_dim_multiplier")) {
    const double scaled =
        in.fields().number("block_ffn_dim_multiplier") * static_cast<double>(width);
    if (!(scaled >= 1 && scaled <= kMaxIntermediate))
      invalid_input(
          "{}: block_ffn_dim_multiplier makes an MLP {} wide, allowed are 1 to {}; "
          "correct the file",
          in.fields().origin(), scaled, kMaxIntermediate);
    width = static_cast<std::int64_t>(scaled);
  }
  const std::int64_t block = in.width("block_multiple_of", 256);
  return (width + block - 1) / block * block;
}

void read_lfm2(const Reader& in, Layers& out) {
  out.dense.qk_norm = QkNorm::kPerHead;
  const std::vector<std::int64_t> attending = in.integers("full_attn_idxs");
  place_states(in, out, kConvolved, [&](std::size_t l) {
    return !in.has("full_attn_idxs") ||
           std::ranges::count(attending, static_cast<std::int64_t>(l)) > 0;
  });
  out.dense.dense_width = adjusted_width(in, in.size("block_ff_dim", out.dense.dense_width));
  out.state = convolution(in, out.dense.hidden_size, 3);
}

void read_lfm2_moe(const Reader& in, Layers& out) {
  out.dense.qk_norm = QkNorm::kPerHead;
  if (!in.has("layer_types"))
    invalid_input("{}: layer_types is missing, which this family has no default for; add it",
                  in.fields().origin());
  place_states(in, out, kConvolved, [](std::size_t) { return true; });
  const auto first = static_cast<std::size_t>(in.size("num_dense_layers", 2));
  in.read_experts(out, in.size({"num_experts", "num_local_experts"}, 32),
                  in.size("num_experts_per_tok", 4), in.size("moe_intermediate_size", 1792),
                  [=](std::size_t l) { return l >= first; });
  out.state = convolution(in, out.dense.hidden_size, 3);
}

void read_lfm3(const Reader& in, Layers& out) {
  read_biases(in, out);
  out.dense.qk_norm = QkNorm::kPerHead;
  out.dense.norms = in.flag("use_sandwich_norm", true) ? 4 : 2;
  if (in.flag("use_attention_gate", true)) out.dense.gate_width = out.dense.num_heads;
  std::vector<std::string> types = in.types("layer_types", kWindowed);
  for (std::size_t l = types.size(); l < in.layers(); ++l)
    types.emplace_back(l % 4 == 2            ? "full_attention"
                       : l % 4 == 0 && l > 0 ? "sliding_attention"
                                             : "conv");
  const std::int64_t window = in.optional_size("sliding_window", 256);
  for (std::size_t l = 0; l < in.layers(); ++l) {
    place(out.parts[l], types[l] == "conv");
    out.windows.push_back(types[l] == "sliding_attention" ? window : 0);
  }
  out.state = convolution(in, out.dense.hidden_size, 7);
}

constexpr std::int64_t kNone = PlannedFamily::kNone;

constexpr std::array<PlannedFamily, 17> kStateFamilies{{
    {"qwen3_next", "Qwen3Next", 2, 256, false, read_qwen3_next},
    {"qwen3_5_text", "Qwen3_5", 4, 256, false, read_qwen3_5},
    {"qwen3_5_moe_text", "Qwen3_5Moe", 2, 256, false, read_qwen3_5_moe, 0, kNone},
    {"kimi_linear", "KimiLinear", 0, 1, false, read_kimi_linear, 0, 0, 1 << 20},
    {"bailing_hybrid", "BailingHybrid", 0, 1, false, read_bailing_hybrid},
    {"nemotron_h", "NemotronH", 8, 128, false, read_nemotron_h, 32, 21504},
    {"olmo_hybrid", "OlmoHybrid", 0, 0, false, read_olmo_hybrid},
    {"granitemoehybrid", "GraniteMoeHybrid", 0, 0, false, read_granitemoehybrid},
    {"bamba", "Bamba", 8, 0, false, read_bamba},
    {"falcon_h1", "FalconH1", 8, 0, false, read_falcon_h1},
    {"lfm2", "Lfm2", 8, 0, true, read_lfm2},
    {"lfm2_moe", "Lfm2Moe", 8, 0, true, read_lfm2_moe},
    {"lfm3", "Lfm3", 4, 128, true, read_lfm3},
    {"mamba2", "Mamba2", 0, 0, false, read_mamba2, kNone, kNone, kMaxPositions},
    {"jamba", "Jamba", 8, 0, false, read_jamba, 0, 0, 262144},
    {"mamba", "Mamba", 0, 0, true, read_mamba, kNone, kNone, kMaxPositions},
    {"falcon_mamba", "FalconMamba", 0, 0, true, read_mamba, kNone, kNone, kMaxPositions},
}};

}  // namespace

std::span<const PlannedFamily> state_families() {
  return kStateFamilies;
}

}  // namespace slimpack
