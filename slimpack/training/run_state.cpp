#include "slimpack/training/run_state.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "slimpack/base/checksum.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/plan/plan_json.h"
#include "slimpack/spec/run_config_fields.h"

namespace slimpack {
namespace {

constexpr std::int64_t kMaxRanks = INT32_MAX;
constexpr std::int64_t kMaxTrainedTokens = INT64_MAX / 2;  // leaves room for further steps

/// True for [data] and [train], with these exceptions: the clock, the device and whether
/// it rounds alike each time, which do not change what is learned; limits, after which the same
/// steps go on; the datasets' paths, which are replaced by their content; the share of targets,
/// which training counts itself.
bool changes_the_result(const ConfigField& field) {
  constexpr std::array<std::string_view, 8> kOthers{"clock",      "device",      "deterministic",
                                                    "max_tokens", "max_seconds", "prefix",
                                                    "sources",    "target_share"};
  const bool counts = field.section == "data" || field.section == "train";
  return counts && std::ranges::find(kOthers, field.key) == kOthers.end();
}

/// True for the run's length and its optimizer, false for its data and its model.
bool may_change(std::string_view key) {
  constexpr std::array<std::string_view, 9> kThese{
      "train.steps",        "train.learning_rate", "train.min_learning_rate",
      "train.warmup_steps", "train.weight_decay",  "train.beta1",
      "train.beta2",        "train.epsilon",       "train.clip_norm"};
  return std::ranges::find(kThese, key) != kThese.end();
}

/// The value in "key = value", or the whole text if it has no key.
std::string value_of(const std::string& setting) {
  const std::size_t equals = setting.find(" = ");
  return equals == std::string::npos ? setting : setting.substr(equals + 3);
}

template <class Range>
std::string checksum_of_all(const Range& values) {
  return checksum_of(std::as_bytes(std::span(values)));
}

std::string content_of(const Documents& documents) {
  const std::vector<Tokens> lengths = documents.dataset().lengths();
  return fmt::format("{} documents, lengths with checksum {}{}", lengths.size(),
                     checksum_of_all(lengths), documents.mask() != nullptr ? ", with a mask" : "");
}

}  // namespace

RunSettings run_settings(const RunConfig& config, const Decoder& shape,
                         std::span<const Documents> sources) {
  RunSettings settings;
  for (const ConfigField& field : config_fields())
    if (changes_the_result(field))
      settings[fmt::format("{}.{}", field.section, field.key)] = field.print(config);
  const std::string model = decoder_to_json(shape, hugging_face_name(Dtype::kFp32));
  settings["model.config"] = fmt::format("a model with checksum {}", checksum_of_all(model));
  // A mixture of one draws what its dataset alone does.
  if (sources.size() == 1) {
    settings["data.prefix"] = content_of(sources.front());
    return settings;
  }
  settings["data.prefix"] = fmt::format("a mixture of {}", sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const DataSource& source = config.data.sources[i];
    const std::string share = source.weight ? fmt::format("weight {}", *source.weight)
                                            : fmt::format("epochs {}", source.epochs);
    settings[fmt::format("data.sources[{}]", i)] =
        fmt::format("{} of {}", share, content_of(sources[i]));
  }
  return settings;
}

nlohmann::json to_json(const RunState& state) {
  const RankGrid& grid = state.grid;
  nlohmann::json json{
      {"settings", state.settings},
      {"cursor", to_json(state.cursor)},
      {"tokens", state.tokens.count()},
      {"evaluated_steps", state.evaluated_steps},
      {"parallel", {{"pp", grid.pipeline}, {"dp", grid.replicas}, {"tp", grid.tensor}}}};
  json.update(stage_layout_to_json(state.layout));
  return json;
}

RunState run_state_from_json(const nlohmann::json& json, const std::string& origin) {
  const JsonFields fields(json, origin);
  RunState state;
  const JsonFields settings = fields.object("settings");
  for (const auto& item : fields.at("settings").items())
    state.settings[item.key()] = settings.text(item.key().c_str());
  // Runs from before these settings truncated long documents, and all targets counted alike.
  state.settings.try_emplace("data.long_documents", "long_documents = \"truncate\"");
  state.settings.try_emplace("train.loss", "loss = \"token\"");
  state.cursor = sampler_cursor_from_json(fields.object("cursor"));
  state.tokens = Tokens(fields.integer("tokens", 0, kMaxTrainedTokens));
  state.evaluated_steps = fields.integer("evaluated_steps", 0);
  const JsonFields parallel = fields.object("parallel");
  const auto ranks = [&](const char* axis) {
    return static_cast<std::int32_t>(parallel.integer(axis, 1, kMaxRanks));
  };
  state.layout = stage_layout_from_json(fields);
  state.grid = {ranks("pp"), ranks("dp"), ranks("tp"), state.layout.placement,
                state.layout.spread_vocabulary};
  return state;
}

std::vector<std::string> changes_between(const RunSettings& saved, const RunSettings& now,
                                         const std::string& origin) {
  std::vector<std::string> changed;
  for (const auto& [key, value] : now) {
    const auto it = saved.find(key);
    const std::string before = it == saved.end() ? "not there" : it->second;
    if (before == value) continue;
    const std::string change =
        fmt::format("{} was {} and is {} now", key, value_of(before), value_of(value));
    if (!may_change(key))
      invalid_input("{}: {}; set it back, or start another run from these weights with --init",
                    origin, change);
    changed.push_back(change);
  }
  return changed;
}

}  // namespace slimpack
