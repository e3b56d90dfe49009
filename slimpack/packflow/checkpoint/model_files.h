// Files of a Hugging Face model beside weights and shape. Users of the model need them, so every
// checkpoint has them.
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace slimpack {

struct ModelFiles {
  std::string config = "{}";                 ///< of config.json
  std::map<std::string, std::string> texts;  ///< tokenizer and generation settings by file name
};

/// Reads a model's configuration and, where it is named config.json, the tokenizer's files and
/// generation settings beside it, as far as they are there. Throws InvalidInput naming a file that
/// cannot be read or has more than 128 MiB, several times the largest tokenizer in use.
[[nodiscard]] ModelFiles read_model_files(const std::filesystem::path& config);

}  // namespace slimpack
