// The speeds of a rank and of the links between ranks, as the vendor or the user states them, and
// which rank reaches which at what bandwidth. The cost model is made from them when no profile was
// measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "slimpack/base/units.h"

namespace slimpack {

/// The kinds of devices that compute.
enum class DeviceKind : std::uint8_t {
  kCpu,
  kCuda,  ///< one GPU for each process
};

[[nodiscard]] constexpr std::string_view to_string(DeviceKind kind) {
  return kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

/// Speeds are achieved, not peaks. The defaults are the figures of hardware/h100.toml.
struct HardwareSpec {
  std::string name;            ///< for people: "H100 SXM"; may be empty
  double peak_flops = 989e12;  ///< denominator of MFU

  double linear_flops = 600e12;  ///< FLOP/s of large matrix products
  /// Rows of which a product with bf16 weights takes twice as long as linear_flops says: it reads
  /// its weights for however few rows, and takes as much longer with many rows.
  double linear_half_rows = 98;
  double attention_forward_flops = 655e12;   ///< FLOP/s, counting the causal half
  double attention_backward_flops = 579e12;  ///< likewise; backward attention is 2.5 × forward work
  double attention_slice_us = 23.56;         ///< per layer, slice and pass: a kernel launch
  /// Forward attention's time per query token and query head beyond its pairs (partly filled tiles,
  /// reading Q and writing O). For backward it is multiplied by 2.5, as the work is.
  double attention_token_head_ns = 0.235;
  double forward_overhead_us = 60;    ///< per layer and MicroPack
  double backward_overhead_us = 120;  ///< likewise

  Bytes memory_bytes{80'000'000'000};
  double memory_bandwidth = 3.35e12;  ///< bytes per second
  /// One GPU has so many. FlashAttention-2's sums of dQ are as many copies as keep them at work.
  std::int32_t multiprocessors = 132;
  /// The release of FlashAttention that runs: what it takes for itself depends on it.
  std::int32_t flash_attention = 2;
  /// Whether the build has the fused kernels; else libtorch's operators run.
  bool fused_kernels = true;
  /// Bytes that CUDA takes for itself, with all kernels loaded.
  Bytes context_bytes{1'440'000'000};
  /// Bytes that libtorch's allocator leaves unfilled at the ends of its segments, for each queue.
  Bytes allocator_page_bytes{23'068'672};
  /// Bytes that NCCL takes for each rank of the node that a rank exchanges messages with, in each
  /// group.
  Bytes peer_buffer_bytes{402'653'184};
  /// Bytes per second between a rank and pinned host memory, in one direction; 0 = not known.
  double host_bandwidth = 50e9;
  /// Bytes of its machine's memory that each rank may take for pinned rows.
  Bytes host_memory_bytes{250'000'000'000};

  std::int32_t ranks_per_node = 8;
  /// Network cards (NICs) of a node, which its ranks share.
  std::int32_t nics_per_node = 8;
  /// Between ranks of one node: what one rank sends, and the latency of a collective.
  double node_link_bytes_per_second = 450e9;
  double node_link_latency_us = 12;
  /// Between nodes: likewise, while all ranks of the node send.
  double link_bytes_per_second = 50e9;
  double link_latency_us = 20;

  bool operator==(const HardwareSpec&) const = default;
};

/// One figure of HardwareSpec: its name in files, its place, its rule and its meaning.
struct HardwareField {
  std::string_view name;
  std::variant<double HardwareSpec::*, Bytes HardwareSpec::*, std::int32_t HardwareSpec::*,
               bool HardwareSpec::*>
      figure;
  bool may_be_zero;
  std::string_view about;
};
/// Every field but the name, in the order of the struct.
[[nodiscard]] std::span<const HardwareField> hardware_fields();

/// Releases of FlashAttention that the runtime may take.
inline constexpr std::int32_t kFirstFlashRelease = 2, kLastFlashRelease = 4;

/// The bounds of figures that are no bytes and no counts, but for those that may be 0. Beyond them
/// times would leave the range of numbers.
inline constexpr double kLeastFigure = 1e-9;
inline constexpr double kLargestFigure = 1e30;

/// One line per broken rule: every figure is within the bounds; overheads, latencies and
/// host_bandwidth may be 0; flash_attention is 2, 3 or 4. Empty for a valid specification.
[[nodiscard]] std::vector<std::string> hardware_errors(const HardwareSpec& hardware);

/// Reads a hardware file: TOML with the names of HardwareSpec's fields at top level. Absent fields
/// keep their defaults. Throws InvalidInput naming `origin`, line, key, value, rule and remedy.
[[nodiscard]] HardwareSpec hardware_from_toml(std::string_view text, std::string_view origin);
[[nodiscard]] HardwareSpec read_hardware(const std::filesystem::path& file);

/// A link as one rank sees it: nanoseconds, and nanoseconds per byte.
struct Link {
  double latency = 0;
  double per_byte = 0;
};

/// A map of which rank reaches which at what bandwidth. Ranks stand in nodes, in their order. Those
/// of a node reach each other over its links; those of different nodes over network cards (NICs),
/// each of which neighbouring ranks of a node share.
struct LinkMap {
  std::int32_t ranks_per_node = 8;
  std::int32_t nics_per_node = 8;
  double node_latency = 0;   ///< nanoseconds
  double node_per_byte = 0;  ///< nanoseconds per byte that one rank sends inside its node
  double nic_latency = 0;
  double nic_per_byte = 0;  ///< of one NIC, in each direction

  [[nodiscard]] std::int32_t node(std::int32_t rank) const { return rank / ranks_per_node; }
  /// The number of nodes on which so many ranks stand.
  [[nodiscard]] std::int32_t nodes(std::int32_t ranks) const { return node(ranks - 1) + 1; }

  /// The link of a rank while all ranks of its node send, each over its part of the cards.
  [[nodiscard]] Link link(bool in_node) const {
    if (in_node) return {node_latency, node_per_byte};
    return {nic_latency, nic_per_byte * ranks_per_node / nics_per_node};
  }

  bool operator==(const LinkMap&) const = default;
};

/// The links of a machine. Its NICs carry together what all its ranks send (link_bytes_per_second).
/// A rank with several of these NICs uses them as one.
[[nodiscard]] LinkMap link_map(const HardwareSpec& hardware);

/// Nodes are filled in the order of the runtime's ranks (packflow/ranks/rank_grid.h): first the
/// tensor-parallel ranks of a stage, then the stages of a replica, then the replicas.
struct NodePlacement {
  std::int32_t ranks_per_node = 0;  ///< 0 = one node holds all
  std::int32_t tensor = 1;
  std::int32_t stages = 1;
  std::int32_t replicas = 1;

  [[nodiscard]] bool holds_tensor() const { return holds(tensor); }
  /// Whether every stage boundary is inside a node.
  [[nodiscard]] bool holds_stages() const { return holds(std::int64_t{tensor} * stages); }
  /// Whether groups of `group` neighbouring replicas are inside a node.
  [[nodiscard]] bool holds_replicas(std::int64_t group) const {
    return holds(group * stages * tensor);
  }
  /// The stages of a replica, and the whole replicas, that one node holds at most; at least 1.
  [[nodiscard]] std::int32_t stages_together() const;
  [[nodiscard]] std::int32_t replicas_together() const;
  /// How many neighbouring replicas sum their gradients before these leave the node: the largest
  /// power of two that divides both a node and the job into such neighbours; 1 if one node has all.
  [[nodiscard]] std::int32_t replicas_summed_in_node() const;

 private:
  /// Whether no node divides a block of so many neighbours.
  [[nodiscard]] bool holds(std::int64_t ranks) const;
};

}  // namespace slimpack
