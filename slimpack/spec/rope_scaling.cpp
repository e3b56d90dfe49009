#include "slimpack/spec/rope_scaling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "slimpack/base/json_fields.h"
#include "slimpack/spec/layer_shape.h"

namespace slimpack {

namespace {

struct NamedType {
  RopeType type;
  std::string_view name;
};
constexpr std::array<NamedType, 4> kTypes{{{RopeType::kDefault, "default"},
                                           {RopeType::kLinear, "linear"},
                                           {RopeType::kLlama3, "llama3"},
                                           {RopeType::kYarn, "yarn"}}};

double number_or(const JsonFields& fields, const char* key, double other) {
  return fields.has(key) ? fields.number(key) : other;
}

/// How much YaRN sharpens attention for contexts that are `factor` times as long.
double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double yarn_attention_factor(const JsonFields& rope, double factor) {
  if (rope.has("attention_factor")) return rope.number("attention_factor");
  const double mscale = number_or(rope, "mscale", 0), all = number_or(rope, "mscale_all_dim", 0);
  const bool both = mscale != 0 && all != 0;
  return both ? yarn_scale(factor, mscale) / yarn_scale(factor, all) : yarn_scale(factor, 1);
}

void read_yarn(const JsonFields& rope, RopeScaling& scaling) {
  scaling.beta_fast = number_or(rope, "beta_fast", 32);
  scaling.beta_slow = number_or(rope, "beta_slow", 1);
  scaling.attention_factor = yarn_attention_factor(rope, scaling.factor);
  scaling.truncate = !rope.has("truncate") || rope.boolean("truncate");
}

void require_above(std::vector<std::string>& errors, const char* key, double value, double low) {
  if (!std::isfinite(value) || value <= low)
    errors.push_back(fmt::format("rope scaling's {} is {}, must be above {}", key, value, low));
}

}  // namespace

bool is_rope_type(std::string_view name) {
  return std::ranges::find(kTypes, name, &NamedType::name) != kTypes.end();
}

std::vector<std::string_view> rope_keys(std::string_view name) {
  if (name == "default") return {};
  if (name == "linear") return {"factor"};
  if (name == "llama3")
    return {"factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"};
  return {"factor",    "original_max_position_embeddings",
          "beta_fast", "beta_slow",
          "mscale",    "mscale_all_dim",
          "truncate",  "attention_factor"};
}

std::string rope_type_of(const JsonFields& rope) {
  const std::string old = rope.has("type") ? rope.text("type") : "";
  if (!rope.has("rope_type")) return old.empty() ? "default" : old;
  const std::string type = rope.text("rope_type");
  if (!old.empty() && old != type)
    invalid_input("{}: rope_type is \"{}\" but type is \"{}\"; make them equal", rope.origin(),
                  type, old);
  return type;
}

RopeScaling read_rope_scaling(const JsonFields& rope, std::int64_t max_positions) {
  RopeScaling scaling;
  scaling.type = std::ranges::find(kTypes, rope_type_of(rope), &NamedType::name)->type;
  if (scaling.type == RopeType::kDefault) return scaling;
  if (scaling.type != RopeType::kLinear)
    scaling.original_max_positions = rope.has("original_max_position_embeddings")
                                         ? rope.integer("original_max_position_embeddings", 1)
                                         : max_positions;
  const bool implied = scaling.type == RopeType::kYarn && !rope.has("factor");
  scaling.factor = implied ? static_cast<double>(max_positions) /
                                 static_cast<double>(scaling.original_max_positions)
                           : rope.number("factor");
  if (scaling.type == RopeType::kLlama3) {
    scaling.low_freq_factor = rope.number("low_freq_factor");
    scaling.high_freq_factor = rope.number("high_freq_factor");
  }
  if (scaling.type == RopeType::kYarn) read_yarn(rope, scaling);
  return scaling;
}

nlohmann::ordered_json rope_scaling_json(const RopeScaling& scaling) {
  SLIMPACK_CHECK(scaling.type != RopeType::kDefault);
  nlohmann::ordered_json out;
  out["rope_type"] = std::ranges::find(kTypes, scaling.type, &NamedType::type)->name;
  out["factor"] = scaling.factor;
  if (scaling.type != RopeType::kLinear)
    out["original_max_position_embeddings"] = scaling.original_max_positions;
  if (scaling.type == RopeType::kLlama3) {
    out["low_freq_factor"] = scaling.low_freq_factor;
    out["high_freq_factor"] = scaling.high_freq_factor;
  }
  if (scaling.type == RopeType::kYarn) {
    out["beta_fast"] = scaling.beta_fast;
    out["beta_slow"] = scaling.beta_slow;
    out["attention_factor"] = scaling.attention_factor;
    out["truncate"] = scaling.truncate;
  }
  return out;
}

std::vector<std::string> rope_scaling_errors(const RopeScaling& scaling, double rope_theta) {
  std::vector<std::string> errors;
  if (scaling.type == RopeType::kDefault) return errors;
  if (!std::isfinite(scaling.factor) || scaling.factor < 1)
    errors.push_back(fmt::format("rope scaling's factor is {}, must be 1 or more", scaling.factor));
  if (scaling.type == RopeType::kLinear) return errors;
  if (scaling.original_max_positions < 1 || scaling.original_max_positions > kMaxPositions)
    errors.push_back(
        fmt::format("rope scaling's original_max_position_embeddings is {}, allowed are 1 to {}",
                    scaling.original_max_positions, kMaxPositions));
  if (scaling.type == RopeType::kLlama3) {
    require_above(errors, "low_freq_factor", scaling.low_freq_factor, 0);
    require_above(errors, "high_freq_factor", scaling.high_freq_factor, scaling.low_freq_factor);
    return errors;
  }
  require_above(errors, "beta_slow", scaling.beta_slow, 0);
  if (!std::isfinite(scaling.beta_fast) || scaling.beta_fast < scaling.beta_slow)
    errors.push_back(fmt::format("rope scaling's beta_fast is {}, must be beta_slow, {}, or more",
                                 scaling.beta_fast, scaling.beta_slow));
  require_above(errors, "attention_factor", scaling.attention_factor, 0);
  require_above(errors, "rope_theta", rope_theta, 1);  // dimensions of a period are a logarithm
  return errors;
}

}  // namespace slimpack
