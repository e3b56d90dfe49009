// The language model in the config.json of a larger model, and the names that such models have.
#include <algorithm>
#include <array>
#include <string_view>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/config_json.h"

namespace slimpack {

namespace {

using nlohmann::json;

/// A family under the name that it has in a larger model's file.
struct OtherName {
  std::string_view model_type;
  std::string_view family;
  /// Fields that have other defaults there than the family's own, as in transformers.
  std::string_view defaults;
};

constexpr std::string_view kQwen2Defaults =
    R"({"num_key_value_heads": 8, "max_window_layers": 80})";

/// Published files of Qwen2-VL and Qwen2.5-VL have the fields of the language model at the top.
constexpr std::array<OtherName, 7> kOtherNames{{
    {"glm4v_moe_text", "glm4_moe", R"({"attention_bias": true})"},
    {"qwen2_vl", "qwen2", kQwen2Defaults},
    {"qwen2_vl_text", "qwen2", kQwen2Defaults},
    {"qwen2_5_vl", "qwen2", kQwen2Defaults},
    {"qwen2_5_vl_text", "qwen2", kQwen2Defaults},
    {"qwen3_vl_text", "qwen3", "{}"},
    {"qwen3_vl_moe_text", "qwen3_moe",
     R"({"num_key_value_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
         "moe_intermediate_size": 1408, "norm_topk_prob": true})"},
}};

json text_of(const json& config) {
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return config;
  json part = *text;
  const auto tied = config.find("tie_word_embeddings");
  if (tied != config.end() && !tied->is_null()) part["tie_word_embeddings"] = *tied;
  return part;
}

}  // namespace

json language_part(const json& config) {
  json part = text_of(config);
  const auto type = part.find("model_type");
  if (type == part.end() || !type->is_string()) return part;
  const auto* const other =
      std::ranges::find(kOtherNames, type->get<std::string>(), &OtherName::model_type);
  if (other == kOtherNames.end()) return part;
  json known = parse_json(other->defaults, other->model_type);
  known.update(part);
  known["model_type"] = other->family;
  known.erase("architectures");  // the larger model's class
  return known;
}

}  // namespace slimpack
