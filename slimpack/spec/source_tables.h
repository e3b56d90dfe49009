// The tables [[data.sources]] and [[evaluation.sources]] of a run configuration.
#pragma once

#include <string_view>

#include "slimpack/spec/run_config_fields.h"

namespace slimpack {

[[nodiscard]] ConfigField data_sources_field();
[[nodiscard]] ConfigField evaluation_sources_field();

/// Throws InvalidInput naming `origin` if [data] or [evaluation] has sources beside a prefix, if
/// sources repeat a dataset or a name, or if some have a weight and others have none.
void require_consistent_sources(const RunConfig& config, std::string_view origin);

}  // namespace slimpack
