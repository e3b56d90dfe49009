#include "slimpack/packflow/checkpoint/hugging_face_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"

namespace slimpack {

namespace fs = std::filesystem;

std::string part_name(const std::string& stem, std::int32_t index, std::int32_t parts) {
  if (parts == 1) return stem + ".safetensors";
  return fmt::format("{}-{:05}-of-{:05}.safetensors", stem, index + 1, parts);
}

std::string index_to_json(const std::map<std::string, std::string>& file_of, std::int64_t bytes) {
  const nlohmann::ordered_json index{{"metadata", {{"total_size", bytes}}},
                                     {"weight_map", file_of}};
  return index.dump(2) + "\n";
}

NamedTensors read_model_tensors(const fs::path& folder) {
  const fs::path whole = folder / part_name(kModelStem, 0, 1), index = folder / kIndexFile;
  if (fs::is_regular_file(whole)) return read_safetensors(whole);
  if (!fs::is_regular_file(index))
    invalid_input("'{}' has neither {} nor {}; give the folder of a Hugging Face model",
                  folder.string(), whole.filename().string(), kIndexFile);
  const std::string origin = index.string();
  const nlohmann::json json = parse_json(read_file(index, "index"), origin);
  const JsonFields fields(json, origin);
  const JsonFields weight_map = fields.object("weight_map");
  NamedTensors tensors;
  std::map<std::string, NamedTensors> files;
  for (const auto& item : fields.at("weight_map").items()) {
    const std::string file = weight_map.text(item.key().c_str());
    if (fs::path(file).filename() != file)
      invalid_input("{}: tensor {} is in \"{}\", which is no file of the same folder", origin,
                    item.key(), file);
    auto known = files.find(file);
    if (known == files.end()) known = files.emplace(file, read_safetensors(folder / file)).first;
    const auto tensor = known->second.find(item.key());
    if (tensor == known->second.end())
      invalid_input("{}: tensor {} is not in {}; fetch the folder again", origin, item.key(), file);
    tensors.insert(*tensor);
  }
  return tensors;
}

}  // namespace slimpack
