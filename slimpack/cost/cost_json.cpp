#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/cost/cost_model.h"

namespace slimpack {

namespace {

using nlohmann::json;

constexpr std::string_view kFormat = "slimpack-cost";
constexpr std::int64_t kVersion = 1;

double non_negative(const JsonFields& fields, const char* key) {
  const double value = fields.number(key);
  if (value < 0) {
    invalid_input("{}: field \"{}\" is {}, but no time or error is negative; measure again",
                  fields.origin(), key, value);
  }
  return value;
}

json to_json(const LayerTime& t) {
  return {{"per_pack", t.per_pack},
          {"per_slice", t.per_slice},
          {"per_token", t.per_token},
          {"per_pair", t.per_pair},
          {"per_prefix_token", t.per_prefix_token}};
}

LayerTime layer_time(const JsonFields& f) {
  return LayerTime{.per_pack = non_negative(f, "per_pack"),
                   .per_slice = non_negative(f, "per_slice"),
                   .per_token = non_negative(f, "per_token"),
                   .per_pair = non_negative(f, "per_pair"),
                   .per_prefix_token = non_negative(f, "per_prefix_token")};
}

json to_json(const EdgeTime& t) {
  return {{"per_pack", t.per_pack}, {"per_token", t.per_token}};
}

EdgeTime edge_time(const JsonFields& f) {
  return EdgeTime{.per_pack = non_negative(f, "per_pack"),
                  .per_token = non_negative(f, "per_token")};
}

Dtype dtype_field(const JsonFields& fields) {
  const std::string name = fields.text("dtype");
  for (const Dtype dtype : {Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}) {
    if (to_string(dtype) == name) return dtype;
  }
  invalid_input("{}: field \"dtype\" is \"{}\"; known are fp32, bf16 and fp64", fields.origin(),
                name);
}

}  // namespace

std::string cost_to_json(const CostModel& cost) {
  const json shape = json::parse(model_shape_to_json(cost.shape, hugging_face_name(cost.dtype)));
  const json file = {{"format", kFormat},
                     {"version", kVersion},
                     {"source", cost.source},
                     {"model", shape},
                     {"dtype", to_string(cost.dtype)},
                     {"forward", to_json(cost.forward)},
                     {"backward", to_json(cost.backward)},
                     {"embedding_forward", to_json(cost.embedding_forward)},
                     {"embedding_backward", to_json(cost.embedding_backward)},
                     {"head_backward", to_json(cost.head_backward)},
                     {"optimizer_per_parameter", cost.optimizer_per_parameter},
                     {"transfer_latency", cost.transfer_latency},
                     {"transfer_per_byte", cost.transfer_per_byte},
                     {"fit_error", cost.fit_error}};
  return file.dump(2) + "\n";
}

CostModel cost_from_json(std::string_view text, std::string_view origin) {
  const json file = parse_json(text, origin);
  const JsonFields fields(file, std::string(origin));
  fields.require_format(kFormat, kVersion);
  const JsonFields model = fields.object("model");
  CostModel cost;
  cost.source = fields.text("source");
  cost.shape = model_shape_from_json(fields.at("model").dump(), model.origin());
  cost.dtype = dtype_field(fields);
  cost.forward = layer_time(fields.object("forward"));
  cost.backward = layer_time(fields.object("backward"));
  cost.embedding_forward = edge_time(fields.object("embedding_forward"));
  cost.embedding_backward = edge_time(fields.object("embedding_backward"));
  cost.head_backward = edge_time(fields.object("head_backward"));
  cost.optimizer_per_parameter = non_negative(fields, "optimizer_per_parameter");
  cost.transfer_latency = non_negative(fields, "transfer_latency");
  cost.transfer_per_byte = non_negative(fields, "transfer_per_byte");
  cost.fit_error = non_negative(fields, "fit_error");
  return cost;
}

}  // namespace slimpack
