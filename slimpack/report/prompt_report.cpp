#include "slimpack/report/prompt_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "slimpack/base/human.h"
#include "slimpack/base/table.h"

namespace slimpack {

std::string prompt_text(const PromptQuestion& question) {
  const PromptMemory memory = prompt_memory(question);
  Table table({{"memory of generating", Align::kLeft}, {"bytes"}});
  table.add_row({fmt::format("{} weights in {}",
                             human_count(static_cast<double>(question.shape.parameters())),
                             to_string(question.dtype)),
                 human_bytes(memory.weights)});
  table.add_row({fmt::format("keys and values of {} + {} tokens", grouped(question.prompt.count()),
                             grouped(question.answer.count())),
                 human_bytes(memory.cache)});
  table.add_row({"rope's cosines and sines", human_bytes(memory.angles)});
  table.add_row({fmt::format("a layer, {} tokens at once", grouped(question.slice.count())),
                 human_bytes(memory.slice)});
  table.add_row({"together, beside the program itself", human_bytes(memory.total())});
  return table.text();
}

nlohmann::json prompt_figures(const PromptQuestion& question) {
  const PromptMemory memory = prompt_memory(question);
  return {{"format", "slimpack-fit-prompt"},           {"version", 1},
          {"dtype", to_string(question.dtype)},        {"prompt_tokens", question.prompt.count()},
          {"max_new_tokens", question.answer.count()}, {"prefill_slice", question.slice.count()},
          {"weight_bytes", memory.weights.count()},    {"cache_bytes", memory.cache.count()},
          {"angle_bytes", memory.angles.count()},      {"slice_bytes", memory.slice.count()},
          {"total_bytes", memory.total().count()}};
}

}  // namespace slimpack
