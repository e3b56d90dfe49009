// Plan as JSON. A slice is a triple [sequence, begin, end] and a MicroPack is the list of its
// slices, so that a plan of 100,000 slices takes a few megabytes. A merged MicroPack is an object;
// its zones are pairs [first, size].
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/plan/plan.h"
#include "slimpack/plan/plan_json.h"

namespace slimpack {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "slimpack-plan";
constexpr std::int64_t kVersion = 3, kZonedVersion = 4;
constexpr std::int64_t kMaxId = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxReplicas = std::int64_t{1} << 20;
/// The limit of length lists and datasets. It keeps every sum of a step's tokens far inside 64
/// bits.
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

json zone_to_json(const Zone& zone) {
  return json::array({zone.first, zone.size});
}

json packs_to_json(const std::vector<MicroPack>& packs) {
  json out = json::array();
  for (const MicroPack& pack : packs) {
    json slices = json::array();
    for (const Slice& slice : pack.slices)
      slices.push_back(
          json::array({slice.sequence.value(), slice.begin.count(), slice.end.count()}));
    if (pack.replicas == 1) {
      out.push_back(std::move(slices));
      continue;
    }
    json& merged =
        out.emplace_back(json{{"replicas", pack.replicas}, {"slices", std::move(slices)}});
    for (const Zone& zone : pack.zones) merged["zones"].push_back(zone_to_json(zone));
    for (const Zone& zone : pack.row_zones) merged["row_zones"].push_back(zone_to_json(zone));
  }
  return out;
}

Slice slice_from_json(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() != 3)
    invalid_input("{} must be [sequence, begin, end], found {}", where, value.type_name());
  return {SequenceId(static_cast<std::int32_t>(json_integer(value[0], where, 0, kMaxId))),
          Tokens(json_integer(value[1], where, 0, kMaxTokens)),
          Tokens(json_integer(value[2], where, 0, kMaxTokens))};
}

Zone zone_from_json(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() != 2)
    invalid_input("{}: a zone must be [first, size], found {}", where, value.type_name());
  return {static_cast<std::int32_t>(json_integer(value[0], where + ": a zone", 0, kMaxReplicas)),
          static_cast<std::int32_t>(json_integer(value[1], where + ": a zone", 1, kMaxReplicas))};
}

/// Reads the fields that a merged MicroPack has besides its slices.
void read_merged(MicroPack& pack, const JsonFields& fields) {
  pack.replicas = static_cast<std::int32_t>(fields.integer("replicas", 2, kMaxReplicas));
  const auto read = [&](const char* key, std::vector<Zone>& zones) {
    if (!fields.has(key)) return;
    for (const json& zone : fields.array(key))
      zones.push_back(zone_from_json(zone, fields.origin()));
  };
  read("zones", pack.zones);
  read("row_zones", pack.row_zones);
}

std::vector<MicroPack> packs_from_json(const JsonFields& fields, const char* key) {
  std::vector<MicroPack> packs;
  for (const json& pack : fields.array(key)) {
    const std::string where = fmt::format("{}: {}[{}]", fields.origin(), key, packs.size());
    if (!pack.is_array() && !pack.is_object())
      invalid_input("{} must be an array of slices or a merged MicroPack, found {}", where,
                    pack.type_name());
    MicroPack& out = packs.emplace_back();
    if (pack.is_object()) read_merged(out, JsonFields(pack, where));
    for (const json& slice : pack.is_object() ? JsonFields(pack, where).array("slices") : pack)
      out.slices.push_back(slice_from_json(slice, where));
  }
  return packs;
}

ReplicaPlan replica_from_json(const JsonFields& fields) {
  ReplicaPlan replica;
  for (const json& id : fields.array("sequences"))
    replica.sequences.emplace_back(static_cast<std::int32_t>(
        json_integer(id, fields.origin() + ": an entry of sequences", 0, kMaxId)));
  replica.packs.forward = packs_from_json(fields, "forward");
  replica.packs.backward = packs_from_json(fields, "backward");
  return replica;
}

void require_version(const JsonFields& fields) {
  if (fields.text("format") == kFormat && fields.integer("version") < kVersion)
    invalid_input(
        "{}: version {} does not say what each layer computes again, version {} does; plan again",
        fields.origin(), fields.integer("version"), kVersion);
  const bool zoned = fields.integer("version") == kZonedVersion;
  fields.require_format(kFormat, zoned ? kZonedVersion : kVersion);
}

bool has_zones(const StepPlan& plan) {
  const auto zoned = [](const MicroPack& pack) {
    return !pack.zones.empty() || !pack.row_zones.empty();
  };
  return std::ranges::any_of(plan.replicas, [&](const ReplicaPlan& replica) {
    return std::ranges::any_of(replica.packs.forward, zoned) ||
           std::ranges::any_of(replica.packs.backward, zoned);
  });
}

RecomputeByLayer recompute_from_json(const JsonFields& fields) {
  RecomputeByLayer recompute;
  for (const json& name : fields.array("recompute")) {
    const auto known = name.is_string() ? recompute_from(name.get<std::string>()) : std::nullopt;
    if (!known)
      invalid_input("{}: recompute[{}] is {}; known are {}", fields.origin(), recompute.size(),
                    json_text(name), kRecomputeNames);
    recompute.push_back(*known);
  }
  return recompute;
}

}  // namespace

std::string plan_to_json(const StepPlan& plan) {
  json lengths = json::array();
  for (const Tokens length : plan.lengths) lengths.push_back(length.count());
  json recompute = json::array();
  for (const Recompute of_layer : plan.recompute) recompute.push_back(to_string(of_layer));
  json replicas = json::array();
  for (const ReplicaPlan& replica : plan.replicas) {
    json sequences = json::array();
    for (const SequenceId id : replica.sequences) sequences.push_back(id.value());
    replicas.push_back({{"sequences", std::move(sequences)},
                        {"forward", packs_to_json(replica.packs.forward)},
                        {"backward", packs_to_json(replica.packs.backward)}});
  }
  json all{{"format", kFormat},
           {"version", has_zones(plan) ? kZonedVersion : kVersion},
           {"lengths", std::move(lengths)},
           {"recompute", std::move(recompute)},
           {"replicas", std::move(replicas)}};
  all.update(stage_layout_to_json(plan.layout));
  return json_text(all);
}

StepPlan plan_from_json(std::string_view text, std::string_view origin) {
  const json parsed = parse_json(text, origin);
  const JsonFields fields(parsed, std::string(origin));
  require_version(fields);

  StepPlan plan;
  for (const json& length : fields.array("lengths"))
    plan.lengths.emplace_back(
        json_integer(length, fmt::format("{}: an entry of lengths", origin), 1, kMaxTokens));
  plan.layout = stage_layout_from_json(fields);
  plan.recompute = recompute_from_json(fields);
  for (const json& replica : fields.array("replicas"))
    plan.replicas.push_back(replica_from_json(
        JsonFields(replica, fmt::format("{}: replicas[{}]", origin, plan.replicas.size()))));
  return plan;
}

namespace {

std::vector<std::int32_t> integers(const JsonFields& fields, const char* key) {
  std::vector<std::int32_t> values;
  const std::string where = fields.origin() + ": an entry of " + key;
  for (const nlohmann::json& value : fields.array(key))
    values.push_back(static_cast<std::int32_t>(json_integer(value, where, 0, INT32_MAX)));
  return values;
}

StagePlacement table_from(const JsonFields& fields, std::int32_t stages,
                          std::int32_t stages_per_rank) {
  std::vector<std::int32_t> rank_of_stage = integers(fields, "rank_of_stage");
  if (std::ssize(rank_of_stage) != stages)
    invalid_input("{}: rank_of_stage has {} entries for {} stages; plan again", fields.origin(),
                  rank_of_stage.size(), stages);
  for (std::int32_t rank = 0; rank < stages / stages_per_rank; ++rank)
    if (const auto own = std::ranges::count(rank_of_stage, rank); own != stages_per_rank)
      invalid_input("{}: rank_of_stage gives rank {} {} stages, stages_per_rank is {}; plan again",
                    fields.origin(), rank, own, stages_per_rank);
  return StagePlacement(std::move(rank_of_stage));
}

}  // namespace

nlohmann::json stage_layout_to_json(const StageLayout& layout) {
  const StagePlacement& placement = layout.placement;
  const std::int32_t per_rank = placement.stages_per_rank();
  nlohmann::json json{{"layer_begin", layout.layer_begin},
                      {"stages_per_rank", per_rank},
                      {"spread_vocabulary", layout.spread_vocabulary}};
  if (placement != StagePlacement::looped(layout.ranks(), per_rank))
    json["rank_of_stage"] = placement.rank_of_stage();
  return json;
}

StageLayout stage_layout_from_json(const JsonFields& fields) {
  StageLayout layout{integers(fields, "layer_begin")};
  layout.spread_vocabulary = fields.has("spread_vocabulary") && fields.boolean("spread_vocabulary");
  const std::int32_t stages = layout.stages();
  const auto per_rank =
      fields.has("stages_per_rank")
          ? static_cast<std::int32_t>(fields.integer("stages_per_rank", 1, INT32_MAX))
          : 1;
  if (stages < 1) return layout;  // check_plan says it
  if (stages % per_rank != 0)
    invalid_input("{}: {} stages cannot sit on ranks of {} stages each; plan again",
                  fields.origin(), stages, per_rank);
  layout.placement = fields.has("rank_of_stage")
                         ? table_from(fields, stages, per_rank)
                         : StagePlacement::looped(stages / per_rank, per_rank);
  return layout;
}

}  // namespace slimpack
