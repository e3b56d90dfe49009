#include <algorithm>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"
#include "slimpack/cost/cost_fields.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/spec/hardware.h"

namespace slimpack {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "slimpack-cost";
constexpr std::int64_t kVersion = 2;
constexpr std::int64_t kAutogradVersion = 4;
constexpr std::int64_t kTrainedVersion = 5;  // older programs would train what is frozen
constexpr std::size_t kMostMerges = 16;
constexpr std::int64_t kMostRanks = std::int64_t{1} << kMostMerges;

void require_part(const JsonFields& fields, const char* key, double part, double whole,
                  std::string_view of) {
  if (part <= whole) return;
  invalid_input("{}: field \"{}\" is {}, must be at most {}, {}; measure again", fields.origin(),
                key, part, whole, of);
}

/// A part of backward: with `other`, another part, at most the whole. Zero if the file lacks it,
/// because nobody measured it there.
EdgeTime part_time(const JsonFields& fields, const char* field, const PackCost& backward,
                   const EdgeTime& other = {}) {
  if (!fields.has(field)) return {};
  const JsonFields f = fields.object(field);
  const EdgeTime time = edge_time_field(f);
  const std::string less = other == EdgeTime() ? "" : " less weight_gradient's";
  require_part(f, "per_pack", time.per_pack, backward.per_pack - other.per_pack,
               "backward's per_pack" + less);
  require_part(f, "per_token", time.per_token, backward.per_token - other.per_token,
               "backward's per_token" + less);
  return time;
}

json merge_pass_to_json(const EdgeTime& exchange, const SliceTime& slice, const Travel& travel) {
  json out = edge_time_to_json(exchange);
  if (slice != SliceTime()) {
    out["per_slice"] = slice.per_slice;
    out["per_prefix_token"] = slice.per_prefix_token;
    out["per_window_prefix"] = slice.per_window_prefix;
  }
  if (travel != Travel()) {
    out["per_query"] = travel.per_query;
    out["per_key"] = travel.per_key;
    out["hidden_per_pair"] = travel.hidden_per_pair;
  }
  return out;
}

json to_json(const std::vector<MergeTime>& merges) {
  json array = json::array();
  for (const MergeTime& m : merges)
    array.push_back(
        {{"forward", merge_pass_to_json(m.forward, m.forward_slice, m.forward_travel)},
         {"backward", merge_pass_to_json(m.backward, m.backward_slice, m.backward_travel)}});
  return array;
}

/// Zero if the file lacks it: measured exchanges include what slices add.
SliceTime slice_time_field(const JsonFields& f) {
  if (!f.has("per_slice")) return {};
  return {.per_slice = non_negative(f, "per_slice"),
          .per_prefix_token = non_negative(f, "per_prefix_token"),
          .per_window_prefix = non_negative(f, "per_window_prefix")};
}

/// Zero if the file lacks it: nothing travels on one replica, and older files count it per token.
Travel travel_field(const JsonFields& f) {
  if (!f.has("per_query")) return {};
  return {.per_query = non_negative(f, "per_query"),
          .per_key = non_negative(f, "per_key"),
          .hidden_per_pair = non_negative(f, "hidden_per_pair")};
}

std::vector<MergeTime> merge_times(const JsonFields& fields) {
  const json& array = fields.array("merge");
  if (array.size() > kMostMerges) {
    invalid_input("{}: field \"merge\" has {} entries, must be at most {}; measure again",
                  fields.origin(), array.size(), kMostMerges);
  }
  std::vector<MergeTime> merges;
  for (const json& element : array) {
    const JsonFields f(element, fmt::format("{}: merge[{}]", fields.origin(), merges.size()));
    const JsonFields forward = f.object("forward");
    const JsonFields backward = f.object("backward");
    merges.push_back({edge_time_field(forward), edge_time_field(backward),
                      slice_time_field(forward), slice_time_field(backward), travel_field(forward),
                      travel_field(backward)});
  }
  return merges;
}

void require_version(const JsonFields& fields) {
  if (fields.text("format") == kFormat && fields.integer("version") == 1) {
    invalid_input(
        "{}: version 1 says nothing of memory, merging and reduction, which version {} "
        "does; profile again with slimpack profile",
        fields.origin(), kVersion);
  }
  const bool autograd = fields.has("autograd");
  if (autograd && fields.text("format") == kFormat && fields.integer("version") == 3)
    invalid_input(
        "{}: version 3 says nothing of layers that compute \"elementwise\" again, which version {} "
        "does; profile again with slimpack.torch.profile",
        fields.origin(), kAutogradVersion);
  fields.require_format(kFormat, fields.has("trained") ? kTrainedVersion
                                 : autograd            ? kAutogradVersion
                                                       : kVersion);
}

Dtype dtype_field(const JsonFields& fields) {
  const std::string name = fields.text("dtype");
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    if (to_string(dtype) == name) return dtype;
  }
  invalid_input("{}: field \"dtype\" is \"{}\"; known are fp32, bf16 and fp64", fields.origin(),
                name);
}

CpCommType comm_type_field(const JsonFields& fields) {
  const std::string name = fields.text("cp_comm_type");
  for (const CpCommType type : kCpCommTypes)
    if (to_string(type) == name) return type;
  invalid_input("{}: field \"cp_comm_type\" is \"{}\"; known are direct, p2p and all_gather",
                fields.origin(), name);
}

void add_layer(json& out, const LayerCosts& layer) {
  out["forward"] = pack_cost_to_json(layer.forward);
  out["backward"] = pack_cost_to_json(layer.backward);
  out["weight_reading"] = layer.weight_reading;
  out["elementwise"] = edge_time_to_json(layer.elementwise);
  out["weight_gradient"] = edge_time_to_json(layer.weight_gradient);
  if (layer.again)
    out["again"] = {{"attention", edge_time_to_json(layer.again->attention)},
                    {"mlp", edge_time_to_json(layer.again->mlp)},
                    {"full", edge_time_to_json(layer.again->full)}};
  out["merge"] = to_json(layer.merge);
}

LayerCosts layer_field(const JsonFields& fields, std::int64_t window) {
  LayerCosts layer;
  layer.forward = pack_cost_field(fields.object("forward"), window);
  layer.backward = pack_cost_field(fields.object("backward"), window);
  if (fields.has("weight_reading")) {
    layer.weight_reading = non_negative(fields, "weight_reading");
    require_part(fields, "weight_reading", layer.weight_reading, layer.forward.per_pack,
                 "forward's per_pack");
  }
  layer.weight_gradient = part_time(fields, "weight_gradient", layer.backward);
  layer.elementwise = part_time(fields, "elementwise", layer.backward, layer.weight_gradient);
  if (fields.has("again")) {
    const JsonFields again = fields.object("again");
    layer.again = {edge_time_field(again.object("attention")), edge_time_field(again.object("mlp")),
                   edge_time_field(again.object("full"))};
  }
  layer.merge = merge_times(fields);
  return layer;
}

/// The first kind's costs are fields of the file itself, the others are "more_kinds". Throws
/// InvalidInput for another number of kinds than the model has, and for a kind that does not know
/// as much merging as the first.
std::vector<LayerCosts> layer_fields(const JsonFields& fields,
                                     const std::vector<LayerShape>& shapes) {
  std::vector<LayerCosts> costs{layer_field(fields, shapes.front().window)};
  const std::size_t more = shapes.size() - 1;
  if (more == 0) return costs;
  const json& kinds = fields.array("more_kinds");
  if (kinds.size() != more)
    invalid_input(
        "{}: field \"more_kinds\" has {} entries, the model has {} kinds of layers "
        "beside the first; plan again",
        fields.origin(), kinds.size(), more);
  for (std::size_t k = 0; k < more; ++k) {
    const JsonFields kind(kinds[k], fmt::format("{}: more_kinds[{}]", fields.origin(), k));
    costs.push_back(layer_field(kind, shapes[k + 1].window));
    if (costs.back().merge.size() != costs.front().merge.size())
      invalid_input(
          "{}: field \"merge\" has {} entries, that of the first kind {}; make them equal",
          kind.origin(), costs.back().merge.size(), costs.front().merge.size());
  }
  return costs;
}

json gpu_to_json(const GpuMemory& gpu) {
  return {{"multiprocessors", gpu.multiprocessors},
          {"context_bytes", gpu.context.count()},
          {"allocator_page_bytes", gpu.allocator_page.count()},
          {"peer_buffer_bytes", gpu.peer_buffers.count()},
          {"flash_attention", gpu.flash_attention},
          {"fused_kernels", gpu.fused_kernels}};
}

/// Figures so small that their products fit into 64 bits.
GpuMemory gpu_field(const JsonFields& f) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 42;
  return {static_cast<std::int32_t>(f.integer("multiprocessors", 1, 1 << 12)),
          Bytes(f.integer("context_bytes", 0, kMostBytes)),
          Bytes(f.integer("allocator_page_bytes", 0, kMostBytes)),
          Bytes(f.integer("peer_buffer_bytes", 0, kMostBytes)),
          static_cast<std::int32_t>(
              f.integer("flash_attention", kFirstFlashRelease, kLastFlashRelease)),
          f.boolean("fused_kernels")};
}

json measured_on_to_json(const MeasuredOn& on) {
  return {{"processor", on.processor}, {"device", on.device}, {"torch", on.torch}};
}

MeasuredOn measured_on_field(const JsonFields& f) {
  return {f.text("processor"), f.text("device"), f.text("torch")};
}

/// Whatever PackFlow's layers have and others lack.
void require_plain(const Costs& cost, std::string_view origin) {
  const bool plain = cost.tp == 1 && cost.row_bytes == 0;
  const bool plain_layers = std::ranges::all_of(cost.kinds, [](const LayerCosts& layer) {
    return layer.elementwise == EdgeTime() && layer.weight_gradient == EdgeTime() && !layer.again &&
           layer.merge.empty();
  });
  if (!plain || !plain_layers)
    invalid_input(
        "{}: field \"autograd\" says that layers run under autograd, where tp is 1 and row_bytes, "
        "elementwise, weight_gradient, again and merge are 0 or empty; profile again",
        origin);
}

double target_share_field(const JsonFields& fields) {
  const double share = non_negative(fields, "target_share");
  if (share > 1)
    invalid_input("{}: target_share is {}, a share is from 0 to 1", fields.origin(), share);
  return share;
}

}  // namespace

double non_negative(const JsonFields& fields, const char* key) {
  const double value = fields.number(key);
  if (value < 0) {
    invalid_input("{}: field \"{}\" is {}, but no time or error is negative; measure again",
                  fields.origin(), key, value);
  }
  if (value > kLargestFigure)
    invalid_input("{}: field \"{}\" is {}, but no time, rate or error is above {:g}; measure again",
                  fields.origin(), key, value, kLargestFigure);
  return value;
}

nlohmann::json pack_cost_to_json(const PackCost& t) {
  json out = {{"per_pack", t.per_pack},
              {"per_slice", t.per_slice},
              {"per_token", t.per_token},
              {"per_pair", t.per_pair},
              {"per_prefix_token", t.per_prefix_token}};
  if (t.per_missing_row > 0) out["per_missing_row"] = t.per_missing_row;
  if (!t.windowed()) return out;
  out["per_window_pair"] = t.per_window_pair;
  out["per_window_prefix"] = t.per_window_prefix;
  return out;
}

PackCost pack_cost_field(const JsonFields& f, std::int64_t window) {
  PackCost time{.per_pack = non_negative(f, "per_pack"),
                .per_slice = non_negative(f, "per_slice"),
                .per_token = non_negative(f, "per_token"),
                .per_pair = non_negative(f, "per_pair"),
                .per_prefix_token = non_negative(f, "per_prefix_token"),
                .window = Tokens(window)};
  if (f.has("per_missing_row")) time.per_missing_row = non_negative(f, "per_missing_row");
  if (!time.windowed()) return time;
  time.per_window_pair = non_negative(f, "per_window_pair");
  time.per_window_prefix = non_negative(f, "per_window_prefix");
  return time;
}

nlohmann::json edge_time_to_json(const EdgeTime& t) {
  return {{"per_pack", t.per_pack}, {"per_token", t.per_token}};
}

EdgeTime edge_time_field(const JsonFields& f) {
  return EdgeTime{.per_pack = non_negative(f, "per_pack"),
                  .per_token = non_negative(f, "per_token")};
}

std::string cost_to_json(const Costs& cost) {
  json file = {
      {"format", kFormat},
      {"version", cost.trained    ? kTrainedVersion
                  : cost.autograd ? kAutogradVersion
                                  : kVersion},
      {"source", cost.origin.source},
      {"model", parse_json(decoder_to_json(cost.shape, hugging_face_name(cost.dtype)), "model")},
      {"dtype", to_string(cost.dtype)},
      {"tp", cost.tp},
      {"row_bytes", cost.row_bytes},
      {"embedding_forward", edge_time_to_json(cost.ends.embedding_forward)},
      {"embedding_backward", edge_time_to_json(cost.ends.embedding_backward)},
      {"head_backward", edge_time_to_json(cost.ends.head_backward)},
      {"optimizer_per_parameter", cost.optimizer_per_parameter},
      {"transfer_latency", cost.transfer.latency},
      {"transfer_per_byte", cost.transfer.per_byte},
      {"host_per_byte", cost.host.per_byte},
      {"host_memory", cost.host.memory.count()},
      {"reduce_latency", cost.reduction.latency},
      {"reduce_per_byte", cost.reduction.per_byte},
      {"memory", cost.device.memory.count()},
      {"peak_flops", cost.device.peak_flops},
      {"ranks_per_node", cost.host.ranks_per_node},
      {"zero", cost.zero},
      {"fit_error", cost.origin.fit_error}};
  add_layer(file, cost.kinds.front());
  for (std::size_t kind = 1; kind < cost.kinds.size(); ++kind)
    add_layer(file["more_kinds"].emplace_back(), cost.kinds[kind]);
  if (cost.row_moves != RowMoveTime())
    file["row_moves"] = {{"latency", cost.row_moves.latency},
                         {"inside", cost.row_moves.inside},
                         {"outside", cost.row_moves.outside}};
  if (cost.cp_comm_type != CpCommType::kDirect) file["cp_comm_type"] = to_string(cost.cp_comm_type);
  if (cost.autograd) file["autograd"] = autograd_to_json(cost);
  if (cost.trained) file["trained"] = trained_to_json(*cost.trained);
  if (cost.shard_replicas) file["shard_replicas"] = true;
  if (cost.host.optimizer_per_parameter > 0)
    file["host_optimizer"] = {{"per_parameter", cost.host.optimizer_per_parameter},
                              {"state_bytes", cost.host.state_per_parameter}};
  if (cost.origin.held_out_error > 0) file["held_out_error"] = cost.origin.held_out_error;
  if (cost.origin.measured_on) file["measured_on"] = measured_on_to_json(*cost.origin.measured_on);
  if (!cost.origin.measured_for.empty()) file["measured_for"] = cost.origin.measured_for;
  if (cost.ends.target_share != 1) file["target_share"] = cost.ends.target_share;
  if (cost.device.gpu) file["gpu"] = gpu_to_json(*cost.device.gpu);
  return json_text(file, 2) + "\n";
}

Costs cost_from_json(std::string_view text, std::string_view origin) {
  const json file = parse_json(text, origin);
  const JsonFields fields(file, std::string(origin));
  require_version(fields);
  const JsonFields model = fields.object("model");
  Costs cost;
  cost.origin.source = fields.text("source");
  if (fields.has("autograd"))
    read_autograd(fields.object("autograd"), fields.at("model"), cost);
  else
    cost.shape = plannable_model_from_json(json_text(fields.at("model")), model.origin()).shape;
  cost.dtype = dtype_field(fields);
  cost.tp = static_cast<std::int32_t>(fields.integer("tp", 1, kMostRanks));
  cost.row_bytes = non_negative(fields, "row_bytes");
  cost.kinds = layer_fields(fields, cost.shape.kinds);
  if (fields.has("trained")) cost.trained = trained_field(fields.object("trained"), cost.shape);
  cost.ends.embedding_forward = edge_time_field(fields.object("embedding_forward"));
  cost.ends.embedding_backward = edge_time_field(fields.object("embedding_backward"));
  cost.ends.head_backward = edge_time_field(fields.object("head_backward"));
  if (fields.has("target_share")) cost.ends.target_share = target_share_field(fields);
  cost.optimizer_per_parameter = non_negative(fields, "optimizer_per_parameter");
  cost.transfer.latency = non_negative(fields, "transfer_latency");
  cost.transfer.per_byte = non_negative(fields, "transfer_per_byte");
  if (fields.has("host_per_byte")) cost.host.per_byte = non_negative(fields, "host_per_byte");
  if (fields.has("host_memory")) cost.host.memory = Bytes(fields.integer("host_memory", 0));
  cost.shard_replicas = fields.has("shard_replicas") && fields.boolean("shard_replicas");
  if (fields.has("host_optimizer")) {
    const JsonFields optimizer = fields.object("host_optimizer");
    cost.host.optimizer_per_parameter = non_negative(optimizer, "per_parameter");
    cost.host.state_per_parameter = non_negative(optimizer, "state_bytes");
  }
  cost.reduction.latency = non_negative(fields, "reduce_latency");
  cost.reduction.per_byte = non_negative(fields, "reduce_per_byte");
  cost.device.memory = Bytes(fields.integer("memory", 0));
  if (fields.has("gpu")) cost.device.gpu = gpu_field(fields.object("gpu"));
  cost.device.peak_flops = non_negative(fields, "peak_flops");
  if (fields.has("ranks_per_node"))
    cost.host.ranks_per_node =
        static_cast<std::int32_t>(fields.integer("ranks_per_node", 0, kMostRanks));
  else if (fields.has("replicas_per_node"))  // older files: replicas of a stage that a node holds
    cost.host.ranks_per_node = cost.tp * static_cast<std::int32_t>(fields.integer(
                                             "replicas_per_node", 0, kMostRanks / cost.tp));
  if (fields.has("row_moves")) {
    const JsonFields moves = fields.object("row_moves");
    cost.row_moves = {non_negative(moves, "latency"), non_negative(moves, "inside"),
                      non_negative(moves, "outside")};
  }
  if (fields.has("cp_comm_type")) cost.cp_comm_type = comm_type_field(fields);
  if (fields.has("zero")) cost.zero = static_cast<std::int32_t>(fields.integer("zero", 1, 3));
  cost.origin.fit_error = non_negative(fields, "fit_error");
  if (fields.has("held_out_error"))
    cost.origin.held_out_error = non_negative(fields, "held_out_error");
  if (fields.has("measured_on"))
    cost.origin.measured_on = measured_on_field(fields.object("measured_on"));
  if (fields.has("measured_for")) cost.origin.measured_for = fields.text("measured_for");
  if (cost.autograd) require_plain(cost, origin);
  return cost;
}

}  // namespace slimpack
