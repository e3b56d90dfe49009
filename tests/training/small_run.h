// A dataset and a model that a test trains on, in a folder of its own.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "slimpack/data/indexed_dataset_writer.h"
#include "slimpack/spec/run_config.h"
#include "tests/support/temp_folder.h"

namespace slimpack::testing {

/// Documents of these lengths with tokens below 50, a model of two layers that knows them, and a
/// configuration of three steps of which each trains on all documents.
class SmallRun {
 public:
  SmallRun() {
    IndexedDatasetWriter writer(folder / "corpus", 50);
    std::int32_t token = 0;
    for (const std::int32_t length : {40, 7, 19, 3}) {
      std::vector<std::int32_t> document;
      for (std::int32_t i = 0; i < length; ++i) document.push_back(token = (token * 7 + 1) % 50);
      writer.append(document);
    }
    writer.commit();
    put_file(folder / "model.json",
             R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 24,
  "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 50,
  "max_position_embeddings": 64, "rms_norm_eps": 1e-6, "hidden_act": "silu",
  "tie_word_embeddings": false})");
  }

  /// With these settings on top: "section.key=value".
  [[nodiscard]] RunConfig config(const std::vector<std::string>& settings = {}) const {
    const std::string text = R"(
[model]
config = "model.json"
[data]
prefix = "corpus"
context = 64
step_tokens = 69
[train]
steps = 3
[plan]
granularity = 8
[hardware]
[output]
dir = "run"
)";
    return run_config_from_toml(text, "run.toml", settings, folder.path());
  }

  const TempFolder folder;
};

}  // namespace slimpack::testing
