#include "slimpack/packflow/checkpoint/checkpoint_folder.h"

#include <fmt/format.h>

#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/packflow/checkpoint/safetensors.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFormat = "slimpack-training-state";
constexpr std::int64_t kVersion = 1;

std::string checksum_of_text(const std::string& text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

void require_as_written(const fs::path& folder, const CheckpointFile& expected) {
  const fs::path path = folder / expected.name;
  const MappedFile file(path, "checkpoint file", "the checkpoint is not complete");
  if (file.bytes().size() != static_cast<std::size_t>(expected.bytes))
    invalid_input("'{}' has {} bytes, {} were written; use another checkpoint", path.string(),
                  file.bytes().size(), expected.bytes);
  const std::string checksum = checksum_of(file.bytes());
  if (checksum != expected.checksum)
    invalid_input("'{}' has checksum {}, {} was written; use another checkpoint", path.string(),
                  checksum, expected.checksum);
}

}  // namespace

nlohmann::json to_json(const std::vector<CheckpointFile>& files) {
  nlohmann::json array = nlohmann::json::array();
  for (const CheckpointFile& file : files)
    array.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  return array;
}

std::vector<CheckpointFile> checkpoint_files_from_json(const nlohmann::json& array,
                                                       const std::string& origin) {
  std::vector<CheckpointFile> files;
  for (const nlohmann::json& entry : array) {
    const JsonFields fields(entry, origin + ": files");
    CheckpointFile file{fields.text("name"), fields.integer("bytes", 0), fields.text("checksum")};
    if (fs::path(file.name).filename() != file.name)
      invalid_input("{}: \"{}\" is no file of the same folder", origin, file.name);
    files.push_back(std::move(file));
  }
  return files;
}

CheckpointFileWriter::CheckpointFileWriter(const fs::path& file)
    : out_(file), written_{file.filename().string(), 0, ""} {}

void CheckpointFileWriter::write(std::span<const std::byte> bytes) {
  out_.write(bytes);
  checksum_.add(bytes);
  written_.bytes += static_cast<std::int64_t>(bytes.size());
}

CheckpointFile CheckpointFileWriter::commit() {
  out_.commit();
  written_.checksum = checksum_.text();
  return written_;
}

CheckpointFile write_checkpoint_file(const fs::path& file, std::string_view text) {
  CheckpointFileWriter writer(file);
  writer.write(std::as_bytes(std::span(text)));
  return writer.commit();
}

// The checksum is that of the object without it: nlohmann's objects are sorted, so the same content
// is the same text.
std::string training_state_to_json(const TrainingState& state) {
  nlohmann::json json{{"format", kFormat},
                      {"version", kVersion},
                      {"steps", state.steps},
                      {"run", state.run},
                      {"files", to_json(state.files)}};
  json["checksum"] = checksum_of_text(json_text(json));
  return json_text(json, 2) + "\n";
}

TrainingState training_state_from_json(std::string_view text, const std::string& origin) {
  nlohmann::json json = parse_json(text, origin);
  const JsonFields fields(json, origin);
  fields.require_format(kFormat, kVersion);
  const std::string checksum = fields.text("checksum");
  json.erase("checksum");
  if (checksum_of_text(json_text(json)) != checksum)
    invalid_input("{}: was changed after it was written; use another checkpoint", origin);
  return {fields.integer("steps", 0), fields.at("run"),
          checkpoint_files_from_json(fields.array("files"), origin)};
}

TrainingState read_training_state(const fs::path& folder) {
  const fs::path file = folder / kStateFile;
  return training_state_from_json(read_file(file, "checkpoint"), file.string());
}

TrainingState read_checkpoint(const fs::path& folder) {
  TrainingState state = read_training_state(folder);
  for (const CheckpointFile& expected : state.files) require_as_written(folder, expected);
  for (const CheckpointFile& file : state.files)
    if (file.name.ends_with(".safetensors")) require_finite_file(folder / file.name);
  return state;
}

std::optional<Checkpoint> newest_checkpoint(
    const fs::path& folder, const std::function<void(const std::string&)>& pass_over) {
  std::vector<std::int64_t> all = checkpoints_in(folder);
  for (; !all.empty(); all.pop_back()) {
    const fs::path checkpoint = folder / checkpoint_name(all.back());
    try {
      return Checkpoint{checkpoint, read_checkpoint(checkpoint)};
    } catch (const InvalidInput& e) {
      pass_over(fmt::format("{} is passed over: {}", checkpoint.string(), e.what()));
    }
  }
  return std::nullopt;
}

}  // namespace slimpack
