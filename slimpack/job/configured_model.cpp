#include "slimpack/job/configured_model.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/cost/abilities.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/config_json.h"

namespace slimpack {

void require_positions(const RunConfig& config, const Decoder& shape) {
  if (config.data.context > shape.max_positions)
    invalid_input(
        "data.context is {} tokens, {} allows max_position_embeddings = {}; lower data.context, or "
        "raise that if the model is to have longer documents",
        config.data.context.count(), config.model.config.string(), shape.max_positions.count());
}

namespace {

/// PackFlow's layers have no adapters.
void require_no_adapters(const RunConfig& config) {
  if (config.model.adapter_rank > 0)
    invalid_input(
        "model.adapter_rank is {}, but PackFlow trains all weights, and adapters are only planned; "
        "train them with slimpack.torch.pipeline (docs/lora.md), or set 0",
        config.model.adapter_rank);
}

}  // namespace

Decoder trained_model(const RunConfig& config) {
  require_no_adapters(config);
  Decoder shape = read_decoder(config.model.config);
  require_positions(config, shape);
  if (config.parallel.zero != 1)
    invalid_input(
        "parallel.zero is {}, but this version trains with 1 and only plans the others; use 1",
        config.parallel.zero);
  if (config.parallel.offload_optimizer)
    invalid_input(
        "parallel.offload_optimizer is true, but this runtime's optimizer is on the device; set it "
        "to false, or train with slimpack.torch.pipeline");
  if (config.parallel.shard_replicas)
    invalid_input(
        "parallel.shard_replicas is true, but this runtime's replicas share the optimizer out in "
        "any case; set it to false, or train with slimpack.torch.pipeline");
  return shape;
}

PlannableModel planned_model(const RunConfig& config) {
  PlannableModel model = read_plannable_model(config.model.config);
  require_positions(config, model.shape);
  return model;
}

PlannableModel planned_model(const RunConfig& config, std::string_view config_json) {
  PlannableModel model = plannable_model_from_json(config_json, config.model.config.string());
  require_positions(config, model.shape);
  return model;
}

Decoder measured_shape(const RunConfig& config, const PlannableModel& model) {
  require_no_adapters(config);
  if (model.shape.config.empty()) return model.shape;
  invalid_input(
      "{}: this version has no such layers to measure; fit, plan and compare tell its times from "
      "[hardware]",
      config.model.config.string());
}

namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxConfigBytes = 1 << 20;

/// Fields that change neither times nor bytes, or that a run chooses.
bool changes_no_cost(std::string_view key) {
  constexpr std::array<std::string_view, 15> kNames{"dtype",
                                                    "torch_dtype",
                                                    "transformers_version",
                                                    "architectures",
                                                    "name_or_path",
                                                    "use_cache",
                                                    "initializer_range",
                                                    "return_dict",
                                                    "output_attentions",
                                                    "output_hidden_states",
                                                    "rope_theta",
                                                    "rope_scaling",
                                                    "rope_parameters",
                                                    "attention_dropout",
                                                    "max_position_embeddings"};
  return key.starts_with('_') || key.ends_with("_token_id") || key.ends_with("_eps") ||
         std::ranges::find(kNames, key) != kNames.end();
}

/// The first field that both have and that differs; empty = none. Null stands for a missing field.
std::string difference(const json& a, const json& b) {
  for (const auto& [key, value] : a.items()) {
    const auto other = b.find(key);
    if (other == b.end() || value.is_null() || other->is_null() || changes_no_cost(key)) continue;
    if (value.is_object() && other->is_object()) {
      const std::string inner = difference(value, *other);
      if (!inner.empty()) return key + "." + inner;
    } else if (value != *other) {
      return key;
    }
  }
  return "";
}

/// The part of a file that counts for its language model, under its family's name: a file that has
/// its fields at the top names it otherwise than what was measured. Where the whole model does not
/// say whether its embeddings are tied, its class decides and not its text_config.
json language_model_of(const json& asked) {
  json part = language_part(asked);
  if (asked.contains("text_config") && !asked.contains("tie_word_embeddings"))
    part.erase("tie_word_embeddings");
  return part;
}

std::optional<PlannableModel> model_of(const RunConfig& config, std::optional<std::string> text) {
  if (config.cost.file.empty()) return std::nullopt;
  const std::string name = config.cost.file.string();
  Costs cost = cost_from_json(read_file(config.cost.file, "cost file"), name);
  if (!abilities(cost).own_layers) return std::nullopt;
  const std::string origin = config.model.config.string();
  if (!text) text = read_file(config.model.config, "model configuration", kMaxConfigBytes);
  const json asked = parse_json(*text, origin);
  if (!asked.is_object()) invalid_input("{}: must be a JSON object; give a config.json", origin);
  const std::string differs =
      difference(language_model_of(asked), language_part(parse_json(cost.shape.config, name)));
  if (!differs.empty())
    invalid_input("{}: measured for another model than {}: {} differs; profile this one again",
                  name, origin, differs);
  require_positions(config, cost.shape);
  return PlannableModel{std::move(cost.shape), {}};
}

}  // namespace

std::optional<PlannableModel> counted_model(const RunConfig& config) {
  return model_of(config, std::nullopt);
}

std::optional<PlannableModel> counted_model(const RunConfig& config, std::string_view config_json) {
  return model_of(config, std::string(config_json));
}

}  // namespace slimpack
