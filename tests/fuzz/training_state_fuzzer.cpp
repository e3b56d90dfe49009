// training_state.json of a checkpoint, and the state of the run in it. Inputs are tried as they
// stand and with the checksum that their content has, which no mutation finds.
#include <algorithm>
#include <span>

#include "slimpack/base/checksum.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/training/run_state.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

namespace {

void read_run(const nlohmann::json& run) {
  const auto state =
      fuzz::accepted([&] { return run_state_from_json(run, "training_state.json"); });
  if (!state) return;
  fuzz::require(run_state_from_json(to_json(*state), "written") == *state,
                "a run's state reads as it is written");
  fuzz::require(changes_between(state->settings, state->settings, "training_state.json").empty(),
                "a run goes on with its own settings");
  (void)fuzz::accepted([&] {
    const std::vector<Tokens> lengths{Tokens(3), Tokens(0), Tokens(20)};
    Mixture mixture = mixture_of_one(lengths);
    mixture.sources.resize(std::clamp<std::size_t>(state->cursor.sources.size(), 1, 3),
                           mixture.sources.front());
    return Sampler(std::move(mixture), {.sequences = {Tokens(16)}, .step_tokens = Tokens(40)},
                   state->cursor)
        .next_step();
  });
}

void read_state(const std::string& text) {
  const auto state =
      fuzz::accepted([&] { return training_state_from_json(text, "training_state.json"); });
  if (!state) return;
  const TrainingState again = training_state_from_json(training_state_to_json(*state), "written");
  fuzz::require(
      again.steps == state->steps && again.run == state->run && again.files == state->files,
      "a training state reads as it is written");
  read_run(state->run);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  read_state(text);
  auto json = fuzz::accepted([&] { return parse_json(text, "training_state.json"); });
  if (!json || !json->is_object()) return 0;
  json->erase("checksum");
  const std::string content = json->dump();
  (*json)["checksum"] = checksum_of(std::as_bytes(std::span(content)));
  read_state(json->dump());
  return 0;
}
