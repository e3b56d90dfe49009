#include "slimpack/spec/hardware.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace slimpack {

std::span<const HardwareField> hardware_fields() {
  using H = HardwareSpec;
  static constexpr std::array<HardwareField, 7> kFields{{
      {"linear_flops", &H::linear_flops, false, "achieved FLOP/s of large matrix products"},
      {"attention_forward_flops", &H::attention_forward_flops, false,
       "achieved FLOP/s of attention, counting the causal half"},
      {"attention_backward_flops", &H::attention_backward_flops, false,
       "likewise, of its backward pass"},
      {"layer_overhead_us", &H::layer_overhead_us, true, "microseconds per layer, MicroPack, pass"},
      {"link_bytes_per_second", &H::link_bytes_per_second, false, "stage to stage"},
      {"link_latency_us", &H::link_latency_us, true, "microseconds per message"},
      {"peak_flops", &H::peak_flops, false, "denominator of MFU"},
  }};
  return kFields;
}

std::vector<std::string> hardware_errors(const HardwareSpec& hardware) {
  std::vector<std::string> errors;
  for (const HardwareField& field : hardware_fields()) {
    const double value = hardware.*field.figure;
    const bool large_enough = field.may_be_zero ? value >= 0 : value > 0;
    if (!std::isfinite(value) || !large_enough)
      errors.push_back(fmt::format("hardware.{} is {}, must be finite and {}", field.name, value,
                                   field.may_be_zero ? "0 or more" : "above 0"));
  }
  return errors;
}

}  // namespace slimpack
