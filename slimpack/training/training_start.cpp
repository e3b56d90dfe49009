#include "slimpack/training/training_start.h"

#include <fmt/format.h>

#include <string_view>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

void require_no_checkpoints(const fs::path& folder) {
  const auto steps = checkpoints_in(folder);
  if (!steps.empty())
    invalid_input(
        "'{}' has checkpoints of an earlier run, the last after {} steps; go on from it with "
        "--resume auto, set output.dir elsewhere, or remove that folder",
        folder.string(), steps.back());
}

std::optional<Checkpoint> newest(const fs::path& folder, TrainingListener& listener) {
  auto found =
      newest_checkpoint(folder, [&](const std::string& line) { listener.note("resume", line); });
  if (!found && !checkpoints_in(folder).empty())
    invalid_input(
        "'{}' has no checkpoint that can be used; remove that folder to train from the beginning",
        folder.string());
  if (!found)
    listener.note("resume", fmt::format("no checkpoint in '{}', training from the beginning",
                                        folder.string()));
  return found;
}

std::optional<Checkpoint> find_checkpoint(const std::string& resume, const RunConfig& config,
                                          TrainingListener& listener) {
  const fs::path folder = checkpoints_folder(config);
  std::optional<Checkpoint> found;
  if (resume == "auto")
    found = newest(folder, listener);
  else if (!resume.empty())
    found = Checkpoint{resume, read_checkpoint(resume)};
  std::error_code none;
  if (!found || !fs::equivalent(found->folder / "..", folder, none)) require_no_checkpoints(folder);
  if (found)
    listener.note("resume", fmt::format("{}, {} of {} steps are done", found->folder.string(),
                                        found->state.steps, config.train.steps));
  return found;
}

constexpr std::string_view kChatTemplate = "chat template of a dataset";

/// The file that `slimpack data build --chat-template` has left beside the datasets that train;
/// empty where there is none. Throws InvalidInput where two datasets have different ones.
fs::path chat_template_of(const DataConfig& data) {
  fs::path found;
  for (const DataSource& source : data.datasets()) {
    fs::path file = source.prefix;
    file += "-chat_template.jinja";
    if (!fs::exists(file)) continue;
    if (!found.empty() && read_file(found, kChatTemplate) != read_file(file, kChatTemplate))
      invalid_input(
          "'{}' and '{}' differ, and a checkpoint has one chat template; build both datasets with "
          "the same --chat-template, or remove one of these files",
          found.string(), file.string());
    found = file;
  }
  return found;
}

ModelFiles model_files_of(const TrainingStart& start, const RunConfig& config) {
  if (start.checkpoint) return read_model_files(start.checkpoint->folder / kConfigFile);
  if (!start.model.empty()) {
    require_no_adapter(start.model);  // it may lack a config.json, too
    return read_model_files(start.model / kConfigFile);
  }
  return read_model_files(config.model.config);
}

}  // namespace

fs::path checkpoints_folder(const RunConfig& config) {
  return config.output.dir / "checkpoints";
}

TrainingStart choose_start(const std::string& resume, const fs::path& init, const RunConfig& config,
                           const JobAgreement& agreement, TrainingListener& listener) {
  TrainingStart start{std::nullopt, init};
  // Only the first process reads the checkpoints whole, to verify them. The others read the state.
  const std::string folder = agreement.from_first([&]() -> std::string {
    start.checkpoint = find_checkpoint(resume, config, listener);
    return start.checkpoint ? start.checkpoint->folder.string() : "";
  });
  if (!agreement.first() && !folder.empty())
    start.checkpoint = Checkpoint{folder, read_training_state(folder)};
  return start;
}

ModelFiles files_of(const TrainingStart& start, const RunConfig& config) {
  ModelFiles files = model_files_of(start, config);
  const fs::path chat = chat_template_of(config.data);
  if (!chat.empty()) files.texts["chat_template.jinja"] = read_file(chat, kChatTemplate);
  return files;
}

}  // namespace slimpack
