#include "slimpack/baselines/baseline.h"

#include <array>

#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"
#include "slimpack/baselines/makers.h"

namespace slimpack {
namespace {

constexpr std::array kBaselines{
    Baseline{"first-fit", "first-fit decreasing packs, 1F1B (NeMo, axolotl)", first_fit_baseline},
    Baseline{"best-fit", "best-fit decreasing packs, 1F1B (TRL)", best_fit_baseline},
    Baseline{"concatenated", "packs in dataset order, 1F1B (NeMo-RL, Megatron dp_balanced)",
             concatenated_baseline},
    Baseline{"balanced", "Karmarkar-Karp balanced micro-batches, 1F1B (verl)", balanced_baseline},
    Baseline{"dynapipe", "micro-batches by dynamic programming, adaptive schedule (DynaPipe)",
             dynapipe_baseline},
    Baseline{"seq1f1b", "packs cut into slices of equal FLOPs, sequence-level 1F1B (Seq1F1B)",
             seq1f1b_baseline, /*cuts=*/true},
    Baseline{"slimpipe", "packs cut into slices of equal tokens, 1F1B over slices (SlimPipe)",
             slimpipe_baseline, /*cuts=*/true},
    Baseline{"context-parallel",
             "context parallelism by sequence length, 1F1B (Megatron hybrid CP)",
             context_parallel_baseline, /*cuts=*/false, /*merges=*/true},
    Baseline{"token-balanced", "context parallelism of one size for all packs, 1F1B (Megatron CP)",
             token_balanced_baseline, /*cuts=*/false, /*merges=*/true},
};

}  // namespace

std::span<const Baseline> baselines() {
  return kBaselines;
}

const Baseline& baseline_named(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Baseline& baseline : kBaselines) {
    if (baseline.name == name) return baseline;
    known.push_back(baseline.name);
  }
  invalid_input("\"{}\" is no baseline; {}", name, suggestion(name, known));
}

const Baseline& packed_baseline() {
  return baseline_named("best-fit");
}

BaselinePlan baseline_plan(const Baseline& baseline, const Job& job, const SequenceLengths& lengths,
                           const RecomputingCosts& cost) {
  if (job.replicas < 1) invalid_input("a step has {} replicas, the least is 1", job.replicas);
  if (job.context < Tokens(1))
    invalid_input("the context is {} tokens, the least is 1; packs are filled up to it",
                  job.context.count());
  for (std::size_t q = 0; q < lengths.size(); ++q) {
    if (lengths[q] < Tokens(1))
      invalid_input("sequence {} has {} tokens, the least is 1; leave empty sequences out", q,
                    lengths[q].count());
    if (lengths[q] > job.context)
      invalid_input(
          "sequence {} has {} tokens, but a pack holds {}; raise the context or cut the sequence",
          q, lengths[q].count(), job.context.count());
  }
  return baseline.plan(job, lengths, cost);
}

}  // namespace slimpack
