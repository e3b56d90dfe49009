#include "bench/hugging_face.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/command.h"
#include "slimpack/base/error.h"

namespace slimpack {

Nanos hugging_face_step(const HuggingFaceStep& step) {
  const std::string command = fmt::format(
      "{} {}/bench/torch_pipelining.py --world 1 --packing pad --trim --pin --quiet --steps 1 "
      "--layers {} --context {} --step-tokens {} --seed {}",
      step.python, SLIMPACK_SOURCE_DIR, step.layers, step.context.count(), step.step_tokens.count(),
      step.seed);
  const auto lines = lines_of(command);
  const auto json = nlohmann::json::parse(lines.empty() ? "" : lines.back(), nullptr, false);
  if (!json.is_object() || !json.contains("wall_s"))
    invalid_input("'{}' printed no time; give an interpreter with torch and transformers", command);
  return from_seconds(json["wall_s"].get<double>());
}

}  // namespace slimpack
