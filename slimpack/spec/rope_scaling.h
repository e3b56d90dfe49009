// Rotary embeddings of models whose context was extended after pretraining.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace slimpack {

class JsonFields;

enum class RopeType : std::uint8_t { kDefault, kLinear, kLlama3, kYarn };

/// How inverse frequencies are scaled. Types, fields and defaults are those of transformers
/// (modeling_rope_utils.py of 4.57 and 5); YaRN is Peng et al. 2023, arXiv 2309.00071.
/// A field that the type does not name stays as it is here.
struct RopeScaling {
  RopeType type = RopeType::kDefault;
  double factor = 1;                        ///< all but kDefault
  std::int64_t original_max_positions = 0;  ///< kLlama3, kYarn: positions in pretraining
  double low_freq_factor = 0;               ///< kLlama3
  double high_freq_factor = 0;              ///< kLlama3
  double beta_fast = 0;                     ///< kYarn
  double beta_slow = 0;                     ///< kYarn
  double attention_factor = 1;              ///< kYarn: factor of cos and sin
  bool truncate = true;                     ///< kYarn: the ramp begins and ends at whole dimensions

  bool operator==(const RopeScaling&) const = default;
};

/// Whether transformers' `rope_type` has this name and is one of ours.
[[nodiscard]] bool is_rope_type(std::string_view name);

/// The keys of a rope dictionary that its type reads, rope_type and rope_theta apart.
/// REQUIRES: is_rope_type(name).
[[nodiscard]] std::vector<std::string_view> rope_keys(std::string_view name);

/// The rope_type (or type) of a rope dictionary, "default" if it has none. Throws InvalidInput when
/// the two differ.
[[nodiscard]] std::string rope_type_of(const JsonFields& rope);

/// Reads a rope dictionary; `max_positions` are the model's. YaRN's attention_factor follows from
/// mscale and mscale_all_dim, or from factor, where it is left out. Throws InvalidInput for a field
/// that is missing or of another type. REQUIRES: is_rope_type(rope_type_of(rope)).
[[nodiscard]] RopeScaling read_rope_scaling(const JsonFields& rope, std::int64_t max_positions);

/// A rope dictionary without rope_theta, which reads back as the same. REQUIRES: not kDefault.
[[nodiscard]] nlohmann::ordered_json rope_scaling_json(const RopeScaling& scaling);

/// One line per broken rule, for a model with this rope_theta.
[[nodiscard]] std::vector<std::string> rope_scaling_errors(const RopeScaling& scaling,
                                                           double rope_theta);

}  // namespace slimpack
