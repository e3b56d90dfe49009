#include "slimpack/job/configured_cost.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/cost/abilities.h"

namespace slimpack {

namespace {

/// The costs, with the model's state where `parallel` says.
Costs with_placed_state(Costs cost, const RunConfig& config, const std::string& name) {
  cost.shard_replicas = config.parallel.shard_replicas;
  if (cost.shard_replicas && !abilities(cost).own_layers)
    invalid_input(
        "parallel.shard_replicas is true, but the costs ({}) are of SlimPack's own runtime, whose "
        "replicas share the optimizer out in any case; set it to false",
        name);
  if (!config.parallel.offload_optimizer) return cost;
  if (!abilities(cost).offloads_optimizer)
    invalid_input(
        "parallel.offload_optimizer is true, but {} has no host_optimizer to say what that takes: "
        "slimpack.torch.profile measures it, for slimpack.torch.pipeline; set it to false",
        name);
  return with_optimizer_on_host(std::move(cost));
}

}  // namespace

Costs on_device(Costs cost, DeviceKind device) {
  if (device == DeviceKind::kCpu) {
    cost.host.per_byte = 0;
    cost.host.optimizer_per_parameter = 0;
    cost.device.gpu.reset();
  }
  return cost;
}

Costs over_links(Costs measured, const RunConfig& config) {
  if (config.train.links.empty()) return measured;
  const ParallelConfig& p = config.parallel;
  return with_links(std::move(measured), read_hardware(config.train.links), p.dp, p.pp,
                    p.context());
}

std::optional<Costs> configured_cost(const RunConfig& config, const Decoder& shape) {
  if (!config.cost.file.empty()) {
    const std::string name = config.cost.file.string();
    if (config.model.adapter_rank > 0)
      invalid_input(
          "model.adapter_rank is {}, but {} was measured, and says itself what is trained; leave "
          "adapter_rank out, and profile the model with its adapters",
          config.model.adapter_rank, name);
    Costs cost = cost_from_json(read_file(config.cost.file, "cost file"), name);
    const Abilities able = abilities(cost);
    if (able.own_layers && !shape.edges)
      invalid_input(
          "{}: measured by slimpack.torch.profile for slimpack.torch.pipeline, which runs the "
          "model's own layers; train with that, or measure with 'slimpack profile'",
          name);
    if (!able.own_layers && cost.trained)
      invalid_input(
          "{}: counts adapters of a frozen model, which PackFlow does not run; set "
          "model.adapter_rank "
          "in place of cost.file",
          name);
    cost.shape.rope_scaling = shape.rope_scaling;  // which changes no cost
    if (cost.shape != shape)
      invalid_input("{}: measured for another model than {}; profile this one again", name,
                    config.model.config.string());
    if (cost.dtype != config.train.dtype)
      invalid_input("{}: measured in {}, train.dtype is {}; profile again or change train.dtype",
                    name, to_string(cost.dtype), to_string(config.train.dtype));
    if (cost.tp != config.parallel.tp)
      invalid_input(
          "{}: measured with tp {}, parallel.tp is {}; profile again or change parallel.tp", name,
          cost.tp, config.parallel.tp);
    if (std::ranges::find(able.zero, config.parallel.zero) == able.zero.end())
      invalid_input(
          "parallel.zero is {}, but {} was measured for slimpack.torch.pipeline, which knows {}; "
          "use one of these",
          config.parallel.zero, name, fmt::join(able.zero, " and "));
    if (cost.cp_comm_type != config.parallel.cp_comm_type && !cost.kinds.front().merge.empty())
      invalid_input(
          "{}: measured with cp_comm_type {}, parallel.cp_comm_type is {}; profile again or change "
          "parallel.cp_comm_type",
          name, to_string(cost.cp_comm_type), to_string(config.parallel.cp_comm_type));
    cost.zero = config.parallel.zero;
    // A measurement does not find what a device could do at best.
    if (config.hardware && cost.device.peak_flops == 0)
      cost.device.peak_flops = config.hardware->peak_flops;
    cost = on_device(std::move(cost), config.train.device);
    return over_links(with_placed_state(std::move(cost), config, name), config);
  }
  if (!config.hardware) return std::nullopt;
  Costs cost =
      cost_from_hardware(shape, config.train.dtype, *config.hardware, config.parallel.tp,
                         config.parallel.dp, config.parallel.pp, config.parallel.context());
  if (config.model.adapter_rank > 0)
    cost = with_adapters(std::move(cost), config.model.adapter_rank, *config.hardware);
  if (config.train.device == DeviceKind::kCuda) cost = with_gpu(std::move(cost), *config.hardware);
  cost.zero = config.parallel.zero;
  return with_placed_state(on_device(std::move(cost), config.train.device), config,
                           config.hardware->name);
}

Costs required_cost(const RunConfig& config, const Decoder& shape, std::string_view origin) {
  std::optional<Costs> cost = configured_cost(config, shape);
  if (!cost)
    invalid_input(
        "{}: nothing says what a step costs; set cost.file (written by 'slimpack profile') "
        "or add a [hardware] section",
        origin);
  if (config.data.target_share > 0) cost->ends.target_share = config.data.target_share;
  return std::move(*cost);
}

}  // namespace slimpack
