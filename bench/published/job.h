// A published step as a job of the cost model and the simulator.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "bench/published/runtime.h"
#include "bench/published/steps.h"
#include "slimpack/plan/plan.h"
#include "slimpack/spec/decoder.h"
#include "slimpack/spec/hardware.h"

namespace slimpack::bench {

/// Predictions start from these figures of GPUs and of programs.
struct Machines {
  HardwareSpec vtrain;   ///< its A100s (fit.h)
  RuntimeSpec megatron;  ///< of 2021 and 2022, fitted
  RuntimeSpec fused;     ///< of Megatron Core with fused kernels
  RuntimeSpec eager;     ///< of PyTorch without a compiler, fitted
  HardwareSpec a100, h100, b200;
  /// GPUs of programs whose RuntimeSpec counts the bytes besides products.
  HardwareSpec a100_products, h100_products, h100_500w;
};
/// Reads the figures from hardware/ and bench/data/published below `root`.
[[nodiscard]] Machines read_machines(const std::filesystem::path& root);

/// The tensors that a layer keeps from forward to backward.
enum class Kept : std::uint8_t {
  kEverything,
  kAllButAttention,  ///< scores are computed again (Megatron's selective recomputation)
  kEverySecond,      ///< every second product is computed again (torchtitan's selective op)
  kInput,            ///< the whole forward runs again
};

/// The parts of the model's state that replicas share out.
enum class Shared : std::uint8_t {
  kNothing,     ///< gradients are all-reduced after the last backward, in the weights' format
  kOptimizer,   ///< ZeRO-1
  kGradients,   ///< ZeRO-2
  kEverything,  ///< ZeRO-3, fully sharded
};

/// The accounting of activations and of the model's state (accounting.h), by the program that has
/// it.
enum class Accounting : std::uint8_t {
  kMegatron2022,  ///< GPT, scores kept whole (arXiv:2205.05198)
  kMegatron2023,  ///< gated MLP, flash attention, SwiGLU of separate kernels
  kFused,         ///< likewise, of one kernel
  kFullySharded,  ///< likewise; weights, gradients and moments in fp32, shared out
};

struct PublishedJob {
  Decoder shape;
  HardwareSpec hardware;
  RuntimeSpec runtime;
  std::int32_t tp = 1, dp = 1;
  bool sequence_sharded = true;  ///< what tensor-parallel ranks do not split by heads or columns
  Kept kept = Kept::kInput;
  Shared shared = Shared::kNothing;
  PackPlan packs;           ///< of one replica; all are alike
  SequenceLengths lengths;  ///< by SequenceId
  StageLayout layout;
  Accounting accounting = Accounting::kFused;
};

/// The figures that a prediction is made from.
enum class Figures : std::uint8_t {
  kOfProgram,       ///< the GPU's, and what the program does besides products
  kOfHardwareFile,  ///< those of hardware/ alone, as plans without a profile have them
};

/// The job, or why the model cannot express the step.
using Expressed = std::variant<PublishedJob, std::string>;
[[nodiscard]] Expressed express(const PublishedStep& step, const Machines& machines,
                                Figures figures = Figures::kOfProgram);

}  // namespace slimpack::bench
