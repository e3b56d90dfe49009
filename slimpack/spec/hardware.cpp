#include "slimpack/spec/hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace slimpack {

std::span<const HardwareField> hardware_fields() {
  using H = HardwareSpec;
  static constexpr std::array<HardwareField, 25> kFields{{
      {"peak_flops", &H::peak_flops, false, "denominator of MFU"},
      {"linear_flops", &H::linear_flops, false, "achieved FLOP/s of large matrix products"},
      {"linear_half_rows", &H::linear_half_rows, true,
       "rows of which a product takes twice as long as linear_flops says"},
      {"attention_forward_flops", &H::attention_forward_flops, false,
       "achieved FLOP/s of attention, counting the causal half"},
      {"attention_backward_flops", &H::attention_backward_flops, false,
       "likewise, of its backward pass"},
      {"attention_slice_us", &H::attention_slice_us, true, "microseconds per layer, slice, pass"},
      {"attention_token_head_ns", &H::attention_token_head_ns, true,
       "nanoseconds per query token and head, forward, beyond its pairs"},
      {"forward_overhead_us", &H::forward_overhead_us, true, "microseconds per layer, MicroPack"},
      {"backward_overhead_us", &H::backward_overhead_us, true, "microseconds per layer, MicroPack"},
      {"memory_bytes", &H::memory_bytes, false, "of one rank"},
      {"memory_bandwidth", &H::memory_bandwidth, false, "bytes per second"},
      {"multiprocessors", &H::multiprocessors, false, "of one GPU"},
      {"flash_attention", &H::flash_attention, false,
       "release of FlashAttention that runs: 2, 3 or 4"},
      {"fused_kernels", &H::fused_kernels, true,
       "whether the build has the fused kernels; else libtorch's operators run"},
      {"context_bytes", &H::context_bytes, false, "of CUDA on one GPU, with all kernels loaded"},
      {"allocator_page_bytes", &H::allocator_page_bytes, false,
       "that libtorch's allocator leaves unfilled"},
      {"peer_buffer_bytes", &H::peer_buffer_bytes, false,
       "of NCCL, for each rank of the node in each group"},
      {"host_bandwidth", &H::host_bandwidth, true,
       "bytes per second to or from pinned host memory; 0 = not known"},
      {"host_memory_bytes", &H::host_memory_bytes, false,
       "of the machine, for each rank's pinned rows"},
      {"ranks_per_node", &H::ranks_per_node, false, "GPUs of a machine"},
      {"nics_per_node", &H::nics_per_node, false, "network cards of a machine"},
      {"node_link_bytes_per_second", &H::node_link_bytes_per_second, false,
       "of one rank within its node, one direction"},
      {"node_link_latency_us", &H::node_link_latency_us, true,
       "microseconds per message or collective"},
      {"link_bytes_per_second", &H::link_bytes_per_second, false,
       "of one rank to other nodes, while all send"},
      {"link_latency_us", &H::link_latency_us, true, "likewise, between nodes"},
  }};
  return kFields;
}

namespace {

bool in_range(double value) {
  return value >= kLeastFigure && value <= kLargestFigure;
}
bool in_range(Bytes value) {
  return value > Bytes(0);
}
bool in_range(std::int32_t value) {
  return value > 0;
}
bool in_range(bool) {
  return true;
}

double number(double value) {
  return value;
}
double number(Bytes value) {
  return static_cast<double>(value.count());
}

}  // namespace

std::vector<std::string> hardware_errors(const HardwareSpec& hardware) {
  std::vector<std::string> errors;
  for (const HardwareField& field : hardware_fields()) {
    const auto [value, good] = std::visit(
        [&](const auto figure) {
          return std::pair(number(hardware.*figure), in_range(hardware.*figure));
        },
        field.figure);
    if (!good && !(field.may_be_zero && value == 0))
      errors.push_back(fmt::format("hardware.{} is {}, must be finite and {}, from {:g} to {:g}",
                                   field.name, value, field.may_be_zero ? "0 or more" : "above 0",
                                   kLeastFigure, kLargestFigure));
  }
  if (in_range(hardware.flash_attention) && (hardware.flash_attention < kFirstFlashRelease ||
                                             hardware.flash_attention > kLastFlashRelease))
    errors.push_back(
        fmt::format("hardware.flash_attention is {}, must be 2, 3 or 4", hardware.flash_attention));
  return errors;
}

namespace {

constexpr double kNanosPerSecond = 1e9;
constexpr double kNanosPerMicro = 1e3;

}  // namespace

LinkMap link_map(const HardwareSpec& hardware) {
  const std::int32_t nics = std::min(hardware.nics_per_node, hardware.ranks_per_node);
  return {.ranks_per_node = hardware.ranks_per_node,
          .nics_per_node = nics,
          .node_latency = hardware.node_link_latency_us * kNanosPerMicro,
          .node_per_byte = kNanosPerSecond / hardware.node_link_bytes_per_second,
          .nic_latency = hardware.link_latency_us * kNanosPerMicro,
          .nic_per_byte =
              kNanosPerSecond / hardware.link_bytes_per_second * nics / hardware.ranks_per_node};
}

bool NodePlacement::holds(std::int64_t ranks) const {
  const std::int64_t all = std::int64_t{tensor} * stages * replicas;
  if (ranks_per_node == 0 || all <= ranks_per_node) return true;
  return ranks <= ranks_per_node && ranks_per_node % ranks == 0;
}

std::int32_t NodePlacement::stages_together() const {
  if (ranks_per_node == 0) return stages;
  return std::clamp(ranks_per_node / tensor, 1, stages);
}

std::int32_t NodePlacement::replicas_together() const {
  if (ranks_per_node == 0) return replicas;
  const std::int64_t each = std::int64_t{tensor} * stages;
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(ranks_per_node / each, 1, replicas));
}

std::int32_t NodePlacement::replicas_summed_in_node() const {
  if (holds_replicas(replicas)) return 1;
  std::int32_t summed = 1;
  while (replicas % (2 * summed) == 0 && holds_replicas(2 * summed)) summed *= 2;
  return summed;
}

}  // namespace slimpack
