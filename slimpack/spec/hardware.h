// What a rank can do, in the vendor's or the user's figures; the cost model's source when no
// profile was measured.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

struct HardwareSpec {
  double linear_flops = 400e12;              ///< achieved FLOP/s of large matrix products
  double attention_forward_flops = 340e12;   ///< achieved FLOP/s, counting the causal half
  double attention_backward_flops = 250e12;  ///< likewise; backward attention is 2.5 × forward work
  double layer_overhead_us = 60;             ///< per layer, MicroPack and pass
  double link_bytes_per_second = 50e9;       ///< stage to stage
  double link_latency_us = 10;
  double peak_flops = 989e12;  ///< denominator of MFU

  bool operator==(const HardwareSpec&) const = default;
};

/// One figure of HardwareSpec: its name in files, its place, its rule and its meaning.
struct HardwareField {
  std::string_view name;
  double HardwareSpec::*figure;
  bool may_be_zero;
  std::string_view about;
};
[[nodiscard]] std::span<const HardwareField> hardware_fields();

/// One line per broken rule: every figure positive (overhead and latency may be 0), finite.
[[nodiscard]] std::vector<std::string> hardware_errors(const HardwareSpec& hardware);

}  // namespace slimpack
