#include "slimpack/packflow/checkpoint/model_files.h"

#include <array>
#include <cstdint>

#include "slimpack/base/file.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxBytes = 128 << 20;

/// The files that transformers writes and reads beside config.json and the weights.
constexpr std::array kCompanions{"generation_config.json",
                                 "tokenizer.json",
                                 "tokenizer_config.json",
                                 "tokenizer.model",
                                 "special_tokens_map.json",
                                 "added_tokens.json",
                                 "vocab.json",
                                 "vocab.txt",
                                 "merges.txt",
                                 "spiece.model",
                                 "tekken.json",
                                 "chat_template.jinja",
                                 "chat_template.json"};

}  // namespace

ModelFiles read_model_files(const fs::path& config) {
  ModelFiles files{read_file(config, "model configuration", kMaxBytes), {}};
  if (config.filename() != kConfigFile) return files;
  for (const char* name : kCompanions) {
    const fs::path file = config.parent_path() / name;
    // A link that leads nowhere is a file that cannot be read, not one that is not there.
    if (std::error_code none; fs::exists(fs::symlink_status(file, none)))
      files.texts.emplace(name, read_file(file, "model file", kMaxBytes));
  }
  return files;
}

}  // namespace slimpack
