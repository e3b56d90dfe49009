#include "slimpack/packflow/checkpoint.h"

#include <c10/core/InferenceMode.h>
#include <fmt/ranges.h>

#include <set>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {
namespace {

/// Calls visit(parameter, part) for every public tensor of the model.
template <class Visit>
void for_each_part(Engine& engine, Visit visit) {
  for (std::int32_t s = 0; s < engine.options().layout.stages(); ++s)
    engine.parameters(StageId(s)).for_each([&](Parameter& p) {
      for (const ParameterPart& part : p.parts) visit(p, part);
    });
}

at::Tensor rows_of(const at::Tensor& tensor, const ParameterPart& part) {
  return tensor.narrow(0, part.begin, part.rows);
}

NamedTensors collect(Engine& engine, at::Tensor Parameter::*member) {
  NamedTensors result;
  for_each_part(engine, [&](Parameter& p, const ParameterPart& part) {
    if (!p.tied_copy) result.emplace(part.name, rows_of(p.*member, part).clone());
  });
  return result;
}

}  // namespace

NamedTensors named_parameters(Engine& engine) {
  return collect(engine, &Parameter::value);
}

NamedTensors named_gradients(Engine& engine) {
  return collect(engine, &Parameter::gradient);
}

void load_parameters(Engine& engine, const NamedTensors& tensors, const std::string& origin) {
  const c10::InferenceMode as_the_ranks;  // whose tensors are written here
  std::set<std::string> used;
  for_each_part(engine, [&](Parameter& p, const ParameterPart& part) {
    const auto it = tensors.find(part.name);
    if (it == tensors.end())
      invalid_input("{}: tensor {} is missing; the checkpoint is of another model", origin,
                    part.name);
    const at::Tensor target = rows_of(p.master, part);
    if (it->second.sizes() != target.sizes())
      invalid_input("{}: tensor {} has shape [{}], the model needs [{}]", origin, part.name,
                    fmt::join(it->second.sizes(), ", "), fmt::join(target.sizes(), ", "));
    target.copy_(it->second);
    if (!p.value.is_same(p.master)) rows_of(p.value, part).copy_(target);
    used.insert(part.name);
  });
  for (const auto& [name, tensor] : tensors)
    if (!used.contains(name))
      invalid_input("{}: tensor {} has no place in the model; the checkpoint is of another model",
                    origin, name);
}

void save_checkpoint(Engine& engine, const std::filesystem::path& folder) {
  const EngineOptions& options = engine.options();
  write_safetensors(folder / "model.safetensors", named_parameters(engine));
  write_file(folder / "config.json",
             model_shape_to_json(options.shape, hugging_face_name(options.dtype)));
}

}  // namespace slimpack
