// Run configurations; an input of one line also as an override.
#include "slimpack/spec/run_config.h"

#include <array>
#include <string>
#include <vector>

#include "slimpack/spec/run_config_fields.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

namespace {

constexpr std::string_view kLeast = "[model]\nconfig = \"config.json\"\n";

RunConfig read(std::string_view text, const std::vector<std::string>& overrides) {
  return run_config_from_toml(text, "run.toml", overrides, "/folder");
}

/// Everything but paths and names, which are printed for people.
bool is_exact(const ConfigField& field) {
  return field.section != "model" && field.section != "cost" && field.section != "output" &&
         field.key != "prefix" && field.key != "sources" && field.key != "file" &&
         field.key != "name";
}

/// A printed configuration sets the same values again. Some are refused without a held-out dataset,
/// whose path is none of them.
void require_same_again(const RunConfig& config) {
  std::vector<std::string> printed;
  if (!config.evaluation.datasets().empty())
    printed.emplace_back("evaluation.prefix = \"held-out\"");
  for (const ConfigField& field : config_fields())
    if (const std::string line = field.print(config); is_exact(field) && !line.starts_with('#'))
      printed.push_back(fmt::format("{}.{}", field.section, line));
  const RunConfig again = read(kLeast, printed);
  for (const ConfigField& field : config_fields())
    if (is_exact(field))
      fuzz::require(field.print(again) == field.print(config), "a setting reads as it is written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  if (const auto config = fuzz::accepted([&] { return read(text, {}); }))
    require_same_again(*config);
  if (text.find('\n') != std::string_view::npos) return 0;
  if (const auto config = fuzz::accepted([&] { return read(kLeast, {std::string(text)}); }))
    require_same_again(*config);
  return 0;
}
