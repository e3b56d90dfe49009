#include "slimpack/baselines/baseline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"
#include "slimpack/baselines/karmarkar_karp.h"
#include "slimpack/baselines/makers.h"
#include "slimpack/baselines/packed.h"

namespace slimpack {
namespace {

constexpr std::array kBaselines{
    Baseline{.name = "first-fit",
             .about = "first-fit decreasing packs, 1F1B (NeMo, axolotl)",
             .packs = first_fit_packs,
             .plan = whole_plan,
             .tunings = packing_tunings,
             .traits = {.interleaves = true, .turns_back = true}},
    Baseline{.name = "best-fit",
             .about = "best-fit decreasing packs, 1F1B (TRL)",
             .packs = best_fit_packs,
             .plan = whole_plan,
             .tunings = packing_tunings,
             .traits = {.interleaves = true, .turns_back = true}},
    Baseline{.name = "concatenated",
             .about = "packs in dataset order, 1F1B (NeMo-RL, Megatron dp_balanced)",
             .packs = concatenated_packs,
             .plan = whole_plan,
             .tunings = packing_tunings,
             .traits = {.interleaves = true, .turns_back = true}},
    Baseline{.name = "balanced",
             .about = "Karmarkar-Karp balanced micro-batches, 1F1B (verl)",
             .shares = balanced_shares,
             .plan = whole_plan,
             .tunings = balanced_tunings,
             .order = PackOrder::kLightAtBothEnds,
             .traits = {.interleaves = true, .turns_back = true}},
    Baseline{.name = "dynapipe",
             .about = "micro-batches by dynamic programming, adaptive schedule (DynaPipe)",
             .packs = dynapipe_packs,
             .plan = dynapipe_plan,
             .tunings = dynapipe_tunings,
             .dealing = Dealing::kByTime,
             .traits = {.mixes = false}},
    Baseline{.name = "seq1f1b",
             .about = "packs cut into slices of equal FLOPs, sequence-level 1F1B (Seq1F1B)",
             .packs = best_fit_packs,
             .plan = seq1f1b_plan,
             .tunings = seq1f1b_tunings,
             .traits = {.cuts = true, .interleaves = true}},
    Baseline{.name = "slimpipe",
             .about = "slices of equal tokens, interleaved 1F1B, context exchange (SlimPipe)",
             .packs = slimpipe_packs,
             .plan = slimpipe_plan,
             .tunings = slimpipe_tunings,
             .traits = {.cuts = true, .interleaves = true, .exchanges = true}},
    Baseline{.name = "infinipipe",
             .about = "slices of long sequences, packs of short ones, 1F1B (InfiniPipe)",
             .packs = infinipipe_packs,
             .plan = infinipipe_plan,
             .tunings = infinipipe_tunings,
             .traits = {.cuts = true}},
    Baseline{.name = "context-parallel",
             .about = "context parallelism by sequence length, 1F1B (Megatron hybrid CP)",
             .plan = context_parallel_plan,
             .tunings = context_parallel_tunings,
             .traits = {.merges = true}},
    Baseline{.name = "dynamic-cp",
             .about = "context parallelism by microbatch, interleaved 1F1B (Megatron dynamic CP)",
             .plan = dynamic_cp_plan,
             .tunings = dynamic_cp_tunings,
             .traits = {.merges = true, .interleaves = true}},
    Baseline{.name = "fcp",
             .about = "context parallelism by dynamic programming, interleaved 1F1B (FCP)",
             .plan = fcp_plan,
             .tunings = context_parallel_tunings,
             .traits = {.merges = true, .interleaves = true}},
    Baseline{.name = "token-balanced",
             .about = "context parallelism of one size for all packs, 1F1B (Megatron CP)",
             .packs = best_fit_packs,
             .plan = token_balanced_plan,
             .tunings = token_balanced_tunings,
             .traits = {.merges = true, .interleaves = true},
             .group = token_balanced_group},
    Baseline{
        .name = "zeppelin",
        .about = "one rank, a node or several nodes by sequence length, 1F1B (Zeppelin)",
        .packs = zeppelin_packs,
        .plan = zeppelin_plan,
        .tunings = zeppelin_tunings,
        .traits = {.merges = true, .remaps = true, .interleaves = true, .packs_for_group = true},
        .group = zeppelin_group},
};

/// The packs of each share, by index.
std::vector<std::vector<std::size_t>> dealt_indices(std::span<const std::int64_t> costs,
                                                    std::size_t shares, Dealing dealing) {
  SLIMPACK_CHECK(dealing != Dealing::kPublished);
  if (dealing == Dealing::kByTime) return karmarkar_karp(costs, shares);
  std::vector<std::vector<std::size_t>> dealt(shares);
  for (std::size_t i = 0; i < costs.size(); ++i) dealt[i % shares].push_back(i);
  return dealt;
}

/// By pack: forward and backward on all stages, in nanoseconds, with what a pack costs by itself.
std::vector<std::int64_t> pack_costs(const BaselineInput& input, const SequencePacks& packs) {
  const PackCost step = step_cost(input.table);
  std::vector<std::int64_t> costs;
  costs.reserve(packs.size());
  for (const auto& pack : packs) {
    double cost = step.per_pack;
    for (const SequenceId id : pack) cost += step(Slice{id, Tokens(0), input.lengths[id.index()]});
    costs.push_back(std::llround(std::ceil(cost)));
  }
  return costs;
}

/// The packs in an order by their costs.
SequencePacks ordered(const BaselineInput& input, const SequencePacks& packs, PackOrder order) {
  if (order == PackOrder::kPublished || packs.size() < 2) return packs;
  SequencePacks out;
  for (const std::size_t i : ordered_items(pack_costs(input, packs), order))
    out.push_back(packs[i]);
  return out;
}

/// The packs of each share, in the given order.
std::vector<SequencePacks> deal(const SequencePacks& packs, std::span<const std::int64_t> costs,
                                std::int32_t shares, Dealing dealing) {
  std::vector<SequencePacks> out;
  for (const auto& own : dealt_indices(costs, static_cast<std::size_t>(shares), dealing)) {
    SequencePacks& share = out.emplace_back();
    for (const std::size_t pack : own) share.push_back(packs[pack]);
  }
  return out;
}

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

void require_packable(Tokens context, std::int32_t replicas, const SequenceLengths& lengths) {
  if (replicas < 1) invalid_input("a step has {} replicas, the least is 1", replicas);
  if (context < Tokens(1))
    invalid_input("the context is {} tokens, the least is 1; packs are filled up to it",
                  context.count());
  for (std::size_t q = 0; q < lengths.size(); ++q) {
    if (lengths[q] < Tokens(1))
      invalid_input("sequence {} has {} tokens, the least is 1; leave empty sequences out", q,
                    lengths[q].count());
    if (lengths[q] > context)
      invalid_input(
          "sequence {} has {} tokens, but a pack holds {}; raise the context or cut the sequence",
          q, lengths[q].count(), context.count());
  }
}

MadePacks made_packs(const Baseline& baseline, const BaselineInput& input) {
  MadePacks made;
  if (baseline.packs != nullptr) made.all = baseline.packs(input);
  if (baseline.shares == nullptr) return made;
  made.shares = baseline.shares(input);
  for (const SequencePacks& share : made.shares)
    made.all.insert(made.all.end(), share.begin(), share.end());
  return made;
}

std::vector<SequencePacks> dealt_packs(const Baseline& baseline, const BaselineInput& input,
                                       const MadePacks& made) {
  const Tuning& tuning = input.tuning;
  const PackOrder order = tuning.order == PackOrder::kPublished ? baseline.order : tuning.order;
  std::vector<SequencePacks> shares;
  if (baseline.packs != nullptr) {
    const std::int32_t group = baseline.group == nullptr ? 1 : baseline.group(input);
    shares = deal(made.all, pack_costs(input, made.all), input.replicas() / group,
                  tuning.dealing == Dealing::kPublished ? baseline.dealing : tuning.dealing);
  } else {
    shares = made.shares;
  }
  for (SequencePacks& share : shares) share = ordered(input, share, order);
  return shares;
}

BaselinePlan baseline_plan(const Baseline& baseline, const BaselineInput& input) {
  require_packable(input.context, input.replicas(), input.lengths);
  return baseline.plan(input, dealt_packs(baseline, input, made_packs(baseline, input)));
}

std::vector<std::size_t> ordered_items(std::span<const std::int64_t> costs, PackOrder order) {
  std::vector<std::size_t> items(costs.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  if (order == PackOrder::kPublished) return items;
  std::stable_sort(items.begin(), items.end(),
                   [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  if (order == PackOrder::kLightestFirst) std::reverse(items.begin(), items.end());
  if (order != PackOrder::kLightAtBothEnds) return items;
  std::vector<std::size_t> ends;
  for (std::size_t i = (items.size() + 1) / 2; i-- > 0;) ends.push_back(items[2 * i]);
  for (std::size_t i = 1; i < items.size(); i += 2) ends.push_back(items[i]);
  return ends;
}

}  // namespace slimpack
