#include "slimpack/packflow/checkpoint/load_checkpoint.h"

#include "slimpack/base/error.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/model_tensors.h"

namespace slimpack {

namespace fs = std::filesystem;

void load_checkpoint(Engine& engine, const Checkpoint& checkpoint) {
  const std::string origin = checkpoint.folder.string();
  load_parameters(engine, read_model_tensors(checkpoint.folder), origin);
  NamedTensors optimizer;
  for (const CheckpointFile& file : checkpoint.state.files)
    if (file.name.starts_with(kOptimizerStem))
      optimizer.merge(read_safetensors(checkpoint.folder / file.name));
  load_optimizer_state(engine, optimizer, origin);
}

bool load_hugging_face_model(Engine& engine, const fs::path& folder) {
  const Decoder& ours = engine.options().shape;
  const Decoder theirs = read_decoder(folder / kConfigFile);
  const auto require_same = [&](const char* field, const auto& their, const auto& our) {
    if (their != our)
      invalid_input("{}: {} is {}, the run's model.config has {}; give that model's config.json",
                    (folder / kConfigFile).string(), field, their, our);
  };
  // The sizes of the tensors do not tell these fields. The run may choose longer contexts, another
  // rope_theta and another rope scaling.
  require_same("model_type", to_string(theirs.family), to_string(ours.family));
  const LayerShape &their_layer = theirs.kinds.front(), &our_layer = ours.kinds.front();
  require_same("num_attention_heads", their_layer.num_heads, our_layer.num_heads);
  require_same("num_key_value_heads", their_layer.num_kv_heads, our_layer.num_kv_heads);
  require_same("rms_norm_eps", theirs.rms_norm_eps, ours.rms_norm_eps);
  return load_parameters(engine, read_model_tensors(folder), folder.string());
}

}  // namespace slimpack
