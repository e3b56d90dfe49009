// The folder of a Hugging Face model: config.json, and model.safetensors or the parts that
// model.safetensors.index.json lists.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "slimpack/packflow/checkpoint/safetensors.h"

namespace slimpack {

inline constexpr const char* kConfigFile = "config.json";
inline constexpr const char* kModelStem = "model";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";

/// The name of part `index` (from 0) of `parts`: "STEM-00001-of-00002.safetensors"; of a single one
/// "STEM.safetensors".
[[nodiscard]] std::string part_name(const std::string& stem, std::int32_t index,
                                    std::int32_t parts);

/// The index of a model in several parts: which file each tensor is in, and the bytes of all.
[[nodiscard]] std::string index_to_json(const std::map<std::string, std::string>& file_of,
                                        std::int64_t bytes);

/// Throws InvalidInput for a folder that has an adapter (LoRA) and no model.
void require_no_adapter(const std::filesystem::path& folder);

/// The model's tensors, mapped into memory. Throws InvalidInput naming file and rule when the
/// folder has neither a model nor an index, for an index that is no such, and for tensors that are
/// not where it says.
[[nodiscard]] NamedTensors read_model_tensors(const std::filesystem::path& folder);

/// Throws InvalidInput as read_model_tensors, and for weights that are not finite, naming file and
/// tensor. Reads every weight once: callers that load the weights look at them then, and call this
/// to name the wrong one.
void require_finite_model(const std::filesystem::path& folder);

}  // namespace slimpack
