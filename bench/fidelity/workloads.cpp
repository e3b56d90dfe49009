#include "bench/fidelity/workloads.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

#include "slimpack/base/random.h"

namespace slimpack::bench {
namespace {

constexpr std::array kLengths{Lengths::kShort, Lengths::kLongTailed, Lengths::kOneGiant,
                              Lengths::kEqual};

std::string_view to_string(Lengths lengths) {
  constexpr std::array<std::string_view, 4> kNames{"short", "long-tailed", "one giant", "equal"};
  return kNames[static_cast<std::size_t>(lengths)];
}

Tokens log_normal(Rng& rng, double mean_of_log, double deviation_of_log, Tokens most) {
  const double drawn = std::exp(mean_of_log + deviation_of_log * rng.normal());
  return std::min(most, Tokens(1 + static_cast<std::int64_t>(drawn)));
}

}  // namespace

std::string Workload::name() const {
  return fmt::format("pp {} × dp {}{}, {}, {}", pp, dp, most_merged > 1 ? " merged" : "",
                     to_string(lengths), slimpack::to_string(dtype));
}

std::vector<Workload> workloads() {
  constexpr std::array kGrids{
      Workload{.pp = 1, .clock = ClockKind::kWall},
      Workload{.pp = 2, .clock = ClockKind::kWall},
      Workload{.pp = 4, .clock = ClockKind::kVirtual},
      Workload{.pp = 8, .clock = ClockKind::kVirtual},
      Workload{.pp = 2, .dp = 2, .clock = ClockKind::kVirtual},
      Workload{.dp = 4, .most_merged = 4, .clock = ClockKind::kVirtual},
  };
  std::vector<Workload> all;
  for (std::size_t g = 0; g < kGrids.size(); ++g)
    for (std::size_t i = 0; i <= kLengths.size(); ++i) {
      Workload workload = kGrids[g];
      const bool bf16 = i == kLengths.size();
      workload.lengths = kLengths[bf16 ? g % kLengths.size() : i];
      workload.dtype = bf16 ? Dtype::kBf16 : Dtype::kFp32;
      workload.seed = all.size();
      all.push_back(workload);
    }
  return all;
}

SequenceLengths lengths_of(const Workload& workload, Tokens tokens, Tokens context) {
  Rng rng(workload.seed);
  SequenceLengths lengths;
  Tokens sum(0);
  const auto add = [&](Tokens length) {
    lengths.push_back(length);
    sum = sum + length;
  };
  const Tokens eighth(context.count() / 8);
  if (workload.lengths == Lengths::kOneGiant) add(context);
  while (sum < tokens) {
    switch (workload.lengths) {
      case Lengths::kShort:
      case Lengths::kOneGiant:
        add(log_normal(rng, 5.0, 1.0, eighth));
        break;
      case Lengths::kLongTailed:
        add(log_normal(rng, 6.5, 1.5, context));
        break;
      case Lengths::kEqual:
        add(eighth);
        break;
    }
  }
  return lengths;
}

StepTokens random_bytes(const SequenceLengths& lengths, std::uint64_t seed) {
  constexpr std::int64_t kBytes = 256;
  Rng rng(seed);
  std::vector<std::vector<std::int64_t>> sequences;
  for (const Tokens length : lengths) {
    auto& sequence = sequences.emplace_back();
    for (std::int64_t t = 0; t < length.count(); ++t)
      sequence.push_back(static_cast<std::int64_t>(rng.below(kBytes)));
  }
  return make_step_tokens(sequences, kBytes);
}

}  // namespace slimpack::bench
