#include "apps/slimpack/training_start.h"

#include <fmt/format.h>

#include <cstdio>
#include <future>

#include "slimpack/base/error.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/ranks/gather_when_ready.h"
#include "slimpack/packflow/ranks/world.h"

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

std::optional<Checkpoint> newest(const fs::path& folder) {
  auto found = newest_checkpoint(
      folder, [](const std::string& line) { fmt::print(stderr, "resume: {}\n", line); });
  if (!found && !checkpoints_in(folder).empty())
    invalid_input(
        "'{}' has no checkpoint that can be used; remove that folder to train from the beginning",
        folder.string());
  if (!found)
    fmt::print(stderr, "resume: no checkpoint in '{}', training from the beginning\n",
               folder.string());
  return found;
}

std::optional<Checkpoint> find_checkpoint(const std::string& resume, const RunConfig& config) {
  const fs::path folder = checkpoints_folder(config);
  std::optional<Checkpoint> found;
  if (resume == "auto")
    found = newest(folder);
  else if (!resume.empty())
    found = Checkpoint{resume, read_checkpoint(resume)};
  std::error_code none;
  if (!found || !fs::equivalent(found->folder / "..", folder, none)) require_no_checkpoints(folder);
  if (found)
    fmt::print(stderr, "resume: {}, {} of {} steps are done\n", found->folder.string(),
               found->state.steps, config.train.steps);
  return found;
}

}  // namespace

fs::path checkpoints_folder(const RunConfig& config) {
  return config.output.dir / "checkpoints";
}

TrainingStart choose_start(const TrainArguments& arguments, const RunConfig& config,
                           JobProcess* process) {
  TrainingStart start{std::nullopt, arguments.init};
  if (process == nullptr) {
    start.checkpoint = find_checkpoint(arguments.resume, config);
    return start;
  }
  // Only the first reads all files of the checkpoints that it looks at; the others wait.
  const bool first = process->ranks().front() == 0;
  const std::shared_future<std::string> own = std::async(std::launch::async, [&]() -> std::string {
    if (first) start.checkpoint = find_checkpoint(arguments.resume, config);
    return start.checkpoint ? start.checkpoint->folder.string() : "";
  });
  const std::string folder = gather_when_ready(*process, own).front();
  if (!first && !folder.empty()) start.checkpoint = Checkpoint{folder, read_training_state(folder)};
  return start;
}

ModelFiles files_of(const TrainingStart& start, const RunConfig& config) {
  if (start.checkpoint) return read_model_files(start.checkpoint->folder / kConfigFile);
  if (!start.model.empty()) return read_model_files(start.model / kConfigFile);
  return read_model_files(config.model.config);
}

}  // namespace slimpack
