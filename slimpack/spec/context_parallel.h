// Context parallelism: how replicas that share sequences exchange rows.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace slimpack {

/// The rows that travel between the replicas. Names are those of Megatron's cp_comm_type where
/// Megatron has the same.
enum class CpCommType : std::uint8_t {
  /// Queries and their results, or keys and values where these have fewer bytes, from each member
  /// straight to each other one, while attention computes.
  kDirect,
  /// Keys and values, from each member to the next one, which passes them on (ring attention,
  /// arXiv:2310.01889), while attention computes.
  kP2P,
  /// Keys and values of all members, before attention begins (arXiv:2407.21783).
  kAllGather,
};
inline constexpr std::array kCpCommTypes{CpCommType::kDirect, CpCommType::kP2P,
                                         CpCommType::kAllGather};
[[nodiscard]] std::string_view to_string(CpCommType type);

struct ContextParallel {
  CpCommType type = CpCommType::kDirect;
  /// A transfer between nodes is spread over the network cards of both (Zeppelin,
  /// arXiv:2509.21841).
  bool route = false;

  bool operator==(const ContextParallel&) const = default;
};

}  // namespace slimpack
