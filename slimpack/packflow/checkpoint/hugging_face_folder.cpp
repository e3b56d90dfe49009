#include "slimpack/packflow/checkpoint/hugging_face_folder.h"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"

namespace slimpack {

namespace fs = std::filesystem;

std::string part_name(const std::string& stem, std::int32_t index, std::int32_t parts) {
  if (parts == 1) return stem + ".safetensors";
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, index + 1, parts);
}

std::string index_to_json(const std::map<std::string, std::string>& file_of, std::int64_t bytes) {
  const nlohmann::ordered_json index{{"metadata", {{"total_size", bytes}}},
                                     {"weight_map", file_of}};
  return json_text(index, 2) + "\n";
}

namespace {

/// Names the weights that a folder without safetensors files has in another form, and the remedy.
std::string other_model_in(const fs::path& folder) {
  constexpr const char* kSave = "load it with transformers and write it with save_pretrained";
  for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fs::exists(folder / name))
      return fmt::format(", but has {}, weights as torch.save writes them; {}", name, kSave);
  for (const char* name :
       {"tf_model.h5", "flax_model.msgpack", "consolidated.safetensors", "consolidated.00.pth"})
    if (fs::exists(folder / name))
      return fmt::format(", but has {}, weights of another library; {}", name, kSave);
  return "; give the folder of a Hugging Face model";
}

/// model.safetensors, or the empty path if the model is in parts.
fs::path single_file(const fs::path& folder) {
  const fs::path whole = folder / part_name(kModelStem, 0, 1);
  if (fs::is_regular_file(whole)) return whole;
  require_no_adapter(folder);
  if (!fs::is_regular_file(folder / kIndexFile))
    invalid_input("'{}' has neither {} nor {}{}", folder.string(), whole.filename().string(),
                  kIndexFile, other_model_in(folder));
  return {};
}

/// The file that has each tensor, as the index says.
std::map<std::string, std::string> read_index(const fs::path& index) {
  const std::string origin = index.string();
  const nlohmann::json json = parse_json(read_file(index, "index"), origin);
  const JsonFields fields(json, origin);
  const JsonFields weight_map = fields.object("weight_map");
  std::map<std::string, std::string> file_of;
  for (const auto& item : fields.at("weight_map").items()) {
    const std::string file = weight_map.text(item.key().c_str());
    if (fs::path(file).filename() != file)
      invalid_input("{}: tensor {} is in \"{}\", which is no file of the same folder", origin,
                    item.key(), file);
    file_of.emplace(item.key(), file);
  }
  return file_of;
}

}  // namespace

void require_no_adapter(const fs::path& folder) {
  const bool has_model =
      fs::exists(folder / part_name(kModelStem, 0, 1)) || fs::exists(folder / kIndexFile);
  if (!has_model && fs::exists(folder / "adapter_config.json"))
    invalid_input(
        "'{}' has an adapter (adapter_config.json) and not the model that it adapts; merge the two "
        "(peft: merge_and_unload, save_pretrained) and give that folder",
        folder.string());
}

NamedTensors read_model_tensors(const fs::path& folder) {
  const fs::path whole = single_file(folder), index = folder / kIndexFile;
  if (!whole.empty()) return read_safetensors(whole);
  NamedTensors tensors;
  std::map<std::string, NamedTensors> files;
  for (const auto& [name, file] : read_index(index)) {
    auto known = files.find(file);
    if (known == files.end()) known = files.emplace(file, read_safetensors(folder / file)).first;
    const auto tensor = known->second.find(name);
    if (tensor == known->second.end())
      invalid_input("{}: tensor {} is not in {}; fetch the folder again", index.string(), name,
                    file);
    tensors.insert(*tensor);
  }
  return tensors;
}

void require_finite_model(const fs::path& folder) {
  const fs::path whole = single_file(folder);
  if (!whole.empty()) return require_finite_file(whole);
  std::set<std::string> files;
  for (const auto& [name, file] : read_index(folder / kIndexFile)) files.insert(file);
  for (const std::string& file : files) require_finite_file(folder / file);
}

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
