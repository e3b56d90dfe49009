#include "bench/published/runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "slimpack/base/error.h"
#include "slimpack/spec/config_values.h"

namespace slimpack::bench {

std::span<const RuntimeField> runtime_fields() {
  static constexpr std::array<RuntimeField, 8> kFields{{
      {"layer_host_us", &RuntimeSpec::layer_host_us},
      {"collective_host_us", &RuntimeSpec::collective_host_us},
      {"collective_rank_us", &RuntimeSpec::collective_rank_us},
      {"edge_host_us", &RuntimeSpec::edge_host_us},
      {"elementwise_bytes", &RuntimeSpec::elementwise_bytes},
      {"score_bytes", &RuntimeSpec::score_bytes},
      {"logit_bytes", &RuntimeSpec::logit_bytes},
      {"optimizer_bytes", &RuntimeSpec::optimizer_bytes},
  }};
  return kFields;
}

RuntimeSpec runtime_from_toml(std::string_view text, const std::string& origin) {
  RuntimeSpec runtime;
  for (const TomlEntry& entry : parse_toml(text, origin)) {
    const auto field = std::ranges::find(runtime_fields(), entry.key, &RuntimeField::name);
    if (field == runtime_fields().end())
      invalid_input("{}: unknown key \"{}\"; use one of bench/published/runtime.h", entry.place,
                    entry.key);
    const ConfigEntry value{entry.place + ": " + entry.key, entry.shown, entry.value, {}};
    runtime.*(field->figure) = read_real(value, kNotNegative);
  }
  return runtime;
}

}  // namespace slimpack::bench
