#include "slimpack/packflow/checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/folders.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/stage_tensors.h"
#include "slimpack/packflow/device/memory_tracker.h"
#include "slimpack/packflow/ranks/world.h"

namespace slimpack {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr auto kPollInterval = 10ms;
/// Until a network file system shows what another machine has written.
constexpr auto kPatience = 60s;

fs::path announcement_of(const fs::path& folder, std::int32_t stage) {
  return folder / fmt::format("stage-{}.json", stage);
}

CheckpointFile write_tensors(const fs::path& file, const NamedTensors& tensors) {
  CheckpointFileWriter writer(file);
  stream_safetensors(tensors, [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  return writer.commit();
}

/// A snapshot belongs to no rank's step: whenever it goes, no rank's measured memory changes.
void charge_to_nobody(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) charge_to(tensor, kMaxTrackedRanks);
}

}  // namespace

CheckpointWriter::CheckpointWriter(Engine& engine, fs::path folder, std::int32_t keep_last,
                                   ModelFiles model_files)
    : engine_(engine),
      folder_(std::move(folder)),
      keep_last_(keep_last),
      model_files_(std::move(model_files)) {
  if (engine_.ranks().front() == 0) remove_partial_checkpoints(folder_);
}

CheckpointWriter::~CheckpointWriter() {
  abandoned_ = true;
  if (writing_.valid()) writing_.wait();
}

void CheckpointWriter::save(const CheckpointContents& contents) {
  finish();
  if (contents.steps == last_saved_) return;
  abandoned_ = false;
  std::vector<StageSnapshot> snapshots = take_snapshot();
  std::promise<std::string> written;
  stages_written_ = written.get_future().share();
  last_saved_ = contents.steps;
  writing_ = started("writing the checkpoint", [&] {
    return std::async(std::launch::async, [this, contents, stages = std::move(snapshots),
                                           written = std::move(written)]() mutable {
      write(contents, stages, written);
    });
  });
}

void CheckpointWriter::require_sound() {
  if (writing_.valid() && writing_.wait_for(0s) == std::future_status::ready) writing_.get();
}

// A stage that another process could not write would never come. So all processes first tell each
// other whether they have written theirs.
void CheckpointWriter::finish() {
  if (last_saved_ < 0) return;
  if (JobProcess* const process = engine_.options().process) {
    for (const std::string& failure : gather_when_ready(*process, stages_written_))
      if (!failure.empty()) {
        abandoned_ = true;
        throw_failure(failure);
      }
    if (writing_.valid() && writing_.wait_for(kPatience) == std::future_status::timeout)
      abandoned_ = true;
  }
  if (writing_.valid()) writing_.get();
}

std::vector<CheckpointWriter::StageSnapshot> CheckpointWriter::take_snapshot() {
  const EngineOptions& options = engine_.options();
  const RankGrid grid = options.grid();
  const std::vector<std::int32_t>& ranks = engine_.ranks();
  const auto per_rank = static_cast<std::size_t>(grid.placement.stages_per_rank());
  std::vector<StageSnapshot> snapshots(ranks.size() * per_rank);
  engine_.on_ranks([&](std::int32_t rank, Communicator& communicator, RankClock&) {
    auto index = static_cast<std::size_t>(std::ranges::find(ranks, rank) - ranks.begin());
    index *= per_rank;
    std::int32_t local = 0;
    for (StageParameters& parameters : engine_.parameters(rank)) {
      StageSnapshot& own = snapshots[index++];
      own.stage = grid.placement.stage(grid.place(rank).pipeline, local++);
      own.values = whole_values(parameters, communicator);
      own.optimizer = whole_optimizer_state(parameters, options.dtype, communicator);
      charge_to_nobody(own.values);
      charge_to_nobody(own.optimizer);
    }
  });
  std::erase_if(snapshots, [](const StageSnapshot& s) { return s.values.empty(); });
  return snapshots;
}

void CheckpointWriter::write(const CheckpointContents& contents,
                             const std::vector<StageSnapshot>& stages,
                             std::promise<std::string>& written) {
  const fs::path partial = partial_folder(folder_, contents.steps);
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const std::exception& e) {
      // The others may still be writing there. If it were gone, they would report another cause.
      if (engine_.ranks().front() == 0) remove_folder(partial);
      throw_failure(failure_text(e), "; earlier checkpoints are intact");
    }
  };
  try {
    attempt([&] {
      for (const StageSnapshot& stage : stages) write_stage(partial, stage);
    });
    written.set_value("");
  } catch (const std::exception& e) {
    written.set_value(failure_text(e));
    throw;
  }
  if (engine_.ranks().front() == 0) attempt([&] { complete(contents); });
}

void CheckpointWriter::write_stage(const fs::path& folder, const StageSnapshot& stage) const {
  const std::int32_t parts = engine_.options().layout.stages();
  const std::string model = part_name(kModelStem, stage.stage.value(), parts);
  const std::vector<CheckpointFile> files{
      write_tensors(folder / model, stage.values),
      write_tensors(folder / part_name(kOptimizerStem, stage.stage.value(), parts),
                    stage.optimizer)};
  std::int64_t bytes = 0;
  std::map<std::string, std::string> file_of;
  for (const auto& [name, tensor] : stage.values) {
    bytes += static_cast<std::int64_t>(tensor.nbytes());
    file_of.emplace(name, model);
  }
  const nlohmann::json announcement{
      {"files", to_json(files)}, {"model_bytes", bytes}, {"file_of", file_of}};
  write_file(announcement_of(folder, stage.stage.value()), json_text(announcement));
}

nlohmann::json CheckpointWriter::await_stage(const fs::path& announcement) const {
  while (!fs::exists(announcement)) {
    if (abandoned_)
      run_failed(
          "'{}' did not appear: another process failed, or output.dir is not in a folder that all "
          "of them share",
          announcement.string());
    std::this_thread::sleep_for(kPollInterval);
  }
  return parse_json(read_file(announcement, "checkpoint"), announcement.string());
}

void CheckpointWriter::complete(const CheckpointContents& contents) const {
  const EngineOptions& options = engine_.options();
  const fs::path partial = partial_folder(folder_, contents.steps);
  TrainingState state{contents.steps, contents.run, {}};
  std::int64_t model_bytes = 0;
  std::map<std::string, std::string> file_of;
  for (std::int32_t s = 0; s < options.layout.stages(); ++s) {
    const fs::path announcement = announcement_of(partial, s);
    const nlohmann::json stage = await_stage(announcement);
    for (CheckpointFile& file : checkpoint_files_from_json(stage.at("files"), partial.string()))
      state.files.push_back(std::move(file));
    model_bytes += stage.at("model_bytes").get<std::int64_t>();
    file_of.merge(stage.at("file_of").get<std::map<std::string, std::string>>());
    fs::remove(announcement);
  }
  std::map<std::string, std::string> texts = contents.texts;
  texts.insert(model_files_.texts.begin(), model_files_.texts.end());
  texts[kConfigFile] =
      model_config_to_json(options.shape, hugging_face_name(options.dtype), model_files_.config);
  if (options.layout.stages() > 1) texts[kIndexFile] = index_to_json(file_of, model_bytes);
  for (const auto& [name, text] : texts)
    state.files.push_back(write_checkpoint_file(partial / name, text));
  write_file(partial / kStateFile, training_state_to_json(state));
  publish_checkpoint(folder_, contents.steps);
  prune_checkpoints(folder_, contents.steps, keep_last_);
}

}  // namespace slimpack
