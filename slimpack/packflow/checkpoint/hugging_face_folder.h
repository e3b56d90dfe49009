// The folder of a Hugging Face model: config.json, model.safetensors or the parts that
// model.safetensors.index.json lists, and the tokenizer's files and settings beside them.
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

struct ModelFiles {
  std::string config = "{}";                 ///< of config.json
  std::map<std::string, std::string> texts;  ///< tokenizer and generation settings by file name
};

/// Reads a model's configuration and, where it is named config.json, the tokenizer's files and
/// generation settings beside it, as far as they are there. Throws InvalidInput naming a file that
/// cannot be read or has more than 128 MiB, several times the largest tokenizer in use.
[[nodiscard]] ModelFiles read_model_files(const std::filesystem::path& config);

}  // namespace slimpack
