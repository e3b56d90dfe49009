// Random valid plans, costs and memory for property tests, from one seed that rapidcheck prints.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "slimpack/base/random.h"
#include "slimpack/cost/task_costs.h"
#include "slimpack/plan/plan.h"

namespace slimpack::testing {

/// `count` distinct numbers below `bound`, ascending.
inline std::vector<std::size_t> choose(Rng& rng, std::size_t count, std::size_t bound) {
  std::vector<std::size_t> all(bound);
  std::iota(all.begin(), all.end(), 0);
  rng.shuffle(std::span(all));
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

/// Every sequence in a random number of slices, each in a MicroPack of its own; MicroPacks that got
/// none are left out.
inline std::vector<MicroPack> random_packs(Rng& rng, const SequenceLengths& lengths,
                                           std::size_t packs, Pass pass) {
  std::vector<MicroPack> out(packs);
  for (std::size_t q = 0; q < lengths.size(); ++q) {
    const auto length = static_cast<std::size_t>(lengths[q].count());
    const std::size_t slices = 1 + rng.below(std::min(packs, length));
    std::vector<std::size_t> cuts = choose(rng, slices - 1, length - 1);
    for (std::size_t& cut : cuts) ++cut;
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(length);
    const std::vector<std::size_t> places = choose(rng, slices, packs);
    for (std::size_t i = 0; i < slices; ++i)
      out[places[pass == Pass::kBackward ? slices - 1 - i : i]].slices.push_back(
          {SequenceId(q), Tokens(static_cast<std::int64_t>(cuts[i])),
           Tokens(static_cast<std::int64_t>(cuts[i + 1]))});
  }
  std::erase_if(out, [](const MicroPack& pack) { return pack.slices.empty(); });
  return out;
}

inline StepPlan random_plan(Rng& rng, int stages, std::size_t most_packs = 12) {
  StepPlan plan;
  plan.lengths.resize(1 + rng.below(6));
  for (Tokens& length : plan.lengths) length = Tokens(1 + static_cast<std::int64_t>(rng.below(40)));
  for (int s = 0; s <= stages; ++s) plan.layout.layer_begin.push_back(2 * s);
  ReplicaPlan& replica = plan.replicas.emplace_back();
  replica.sequences = all_sequences(plan.lengths);
  replica.packs.forward =
      random_packs(rng, plan.lengths, 1 + rng.below(most_packs), Pass::kForward);
  replica.packs.backward =
      random_packs(rng, plan.lengths, 1 + rng.below(most_packs), Pass::kBackward);
  return plan;
}

template <class Quantity>
std::vector<Quantity> random_quantities(Rng& rng, std::size_t count, std::uint64_t below) {
  std::vector<Quantity> out(count);
  for (Quantity& value : out) value = Quantity(static_cast<std::int64_t>(rng.below(below)));
  return out;
}

/// Small numbers, zeros included, so that ties are common.
inline TaskTimes random_times(Rng& rng, const PackPlan& packs, int stages) {
  TaskTimes times;
  for (int s = 0; s < stages; ++s) {
    times.forward.push_back(random_quantities<Nanos>(rng, packs.forward.size(), 20));
    times.backward.push_back(random_quantities<Nanos>(rng, packs.backward.size(), 30));
    times.input_gradient.push_back(random_quantities<Nanos>(rng, packs.backward.size(), 20));
    times.weight_gradient.push_back(random_quantities<Nanos>(rng, packs.backward.size(), 15));
  }
  times.forward_transfer = random_quantities<Nanos>(rng, packs.forward.size(), 6);
  times.backward_transfer = random_quantities<Nanos>(rng, packs.backward.size(), 6);
  times.reduce = random_quantities<Nanos>(rng, static_cast<std::size_t>(stages), 10);
  times.step_end = random_quantities<Nanos>(rng, static_cast<std::size_t>(stages), 10);
  return times;
}

/// Random bytes for packs of `sequences` sequences.
inline TaskBytes random_bytes(Rng& rng, const PackPlan& packs, std::size_t sequences, int stages) {
  TaskBytes bytes;
  for (int s = 0; s < stages; ++s) {
    for (auto* stores : {&bytes.rows, &bytes.kv, &bytes.dkv}) {
      const bool by_pack = stores == &bytes.rows;
      stores->push_back(random_quantities<Bytes>(rng, by_pack ? packs.forward.size() : sequences,
                                                 by_pack ? 150 : 60));
    }
    bytes.forward_transient.push_back(random_quantities<Bytes>(rng, packs.forward.size(), 10));
    bytes.backward_transient.push_back(random_quantities<Bytes>(rng, packs.backward.size(), 10));
    // At the end of a backward whatever it opens is there.
    for (std::size_t p = 0; p < packs.backward.size(); ++p)
      for (const Slice& slice : packs.backward[p].slices)
        bytes.backward_transient.back()[p] += bytes.dkv.back()[slice.sequence.index()];
    bytes.weight_operands.push_back(random_quantities<Bytes>(rng, packs.backward.size(), 30));
    // At the end of input gradients so are all operands.
    bytes.input_transient.push_back(random_quantities<Bytes>(rng, packs.backward.size(), 10));
    for (std::size_t p = 0; p < packs.backward.size(); ++p) {
      bytes.input_transient.back()[p] += bytes.weight_operands.back()[p];
      for (const Slice& slice : packs.backward[p].slices)
        bytes.input_transient.back()[p] += bytes.dkv.back()[slice.sequence.index()];
    }
    bytes.weight_transient.push_back(random_quantities<Bytes>(rng, packs.backward.size(), 10));
  }
  bytes.forward_input = random_quantities<Bytes>(rng, packs.forward.size(), 8);
  bytes.backward_input = random_quantities<Bytes>(rng, packs.backward.size(), 8);
  return bytes;
}

/// Random bytes for the first replica's packs.
inline TaskBytes random_bytes(Rng& rng, const StepPlan& plan, int stages) {
  return random_bytes(rng, plan.replicas.front().packs, plan.lengths.size(), stages);
}

}  // namespace slimpack::testing
