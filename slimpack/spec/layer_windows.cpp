#include "slimpack/base/json_text.h"
#include "slimpack/spec/config_json.h"

#include "slimpack/base/error.h"

namespace slimpack {

namespace {

using nlohmann::json;

// The defaults of transformers for sliding_window and, of Qwen, for max_window_layers.
constexpr std::int64_t kDefaultWindow = 4096;
constexpr std::int64_t kDefaultFirstLayer = 28;

/// 0 where the file says null.
std::int64_t stated_window(const json& config, const JsonFields& fields) {
  constexpr const char* kKey = "sliding_window";
  if (!fields.has(kKey)) return config.contains(kKey) ? 0 : kDefaultWindow;
  return fields.integer(kKey, 1);
}

/// 0 for a window that no sequence outgrows.
std::int64_t effective(std::int64_t window, const JsonFields& fields) {
  return window < fields.integer("max_position_embeddings", 1) ? window : 0;
}

}  // namespace

std::vector<std::int64_t> layer_windows(const JsonFields& fields, std::size_t layers,
                                        std::int64_t window,
                                        const std::function<bool(std::size_t)>& windowed) {
  std::vector<std::int64_t> windows(layers, 0);
  if (!fields.has("layer_types")) {
    for (std::size_t l = 0; l < layers; ++l)
      if (windowed(l)) windows[l] = effective(window, fields);
    return windows;
  }
  const json& types = fields.array("layer_types");
  if (types.size() != layers)
    invalid_input("{}: layer_types has {} entries, num_hidden_layers is {}; make them equal",
                  fields.origin(), types.size(), layers);
  for (std::size_t l = 0; l < layers; ++l) {
    if (types[l] == "full_attention") continue;
    if (types[l] != "sliding_attention")
      invalid_input(
          "{}: layer_types[{}] is {}, whose cost is not known; known are \"full_attention\" and "
          "\"sliding_attention\"",
          fields.origin(), l, json_text(types[l]));
    if (window == 0)
      invalid_input("{}: layer_types[{}] is \"sliding_attention\", but no sliding_window is set",
                    fields.origin(), l);
    windows[l] = effective(window, fields);
  }
  return windows;
}

std::vector<std::int64_t> layer_windows(const json& config, const JsonFields& fields,
                                        std::size_t layers, ModelFamily family) {
  switch (family) {
    case ModelFamily::kLlama:
    case ModelFamily::kOlmoe:
      break;
    case ModelFamily::kMixtral:
      if (!fields.has("sliding_window")) break;
      return std::vector(layers, effective(stated_window(config, fields), fields));
    case ModelFamily::kQwen3Moe: {
      const bool used = fields.has("use_sliding_window") && fields.boolean("use_sliding_window");
      return std::vector(layers, used ? effective(stated_window(config, fields), fields) : 0);
    }
    case ModelFamily::kMistral:
      return std::vector(layers, effective(stated_window(config, fields), fields));
    case ModelFamily::kQwen2:
    case ModelFamily::kQwen3: {
      const bool used = fields.has("use_sliding_window") && fields.boolean("use_sliding_window");
      const std::int64_t first = fields.has("max_window_layers")
                                     ? fields.integer("max_window_layers", 0)
                                     : kDefaultFirstLayer;
      return layer_windows(fields, layers, used ? stated_window(config, fields) : 0,
                           [=](std::size_t l) { return static_cast<std::int64_t>(l) >= first; });
    }
  }
  return std::vector<std::int64_t>(layers, 0);
}

}  // namespace slimpack
