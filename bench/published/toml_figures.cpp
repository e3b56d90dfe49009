#include "bench/published/toml_figures.h"

#include "slimpack/base/error.h"

namespace slimpack::bench {

std::string with_figures(std::string text,
                         std::span<const std::pair<std::string_view, double>> figures,
                         std::string_view origin) {
  text.insert(0, "\n");  // every line begins behind a line's end
  for (const auto& [key, value] : figures) {
    const std::string begin = fmt::format("\n{} = ", key);
    const std::size_t at = text.find(begin);
    if (at == std::string::npos)
      invalid_input("{}: has no line \"{} = …\" to put a fitted figure in; add it", origin, key);
    const std::size_t from = at + begin.size();
    const std::size_t end = std::min(text.find('\n', from), text.size());
    text.replace(from, end - from, fmt::format("{:.4g}", value));
  }
  return text.substr(1);
}

}  // namespace slimpack::bench
