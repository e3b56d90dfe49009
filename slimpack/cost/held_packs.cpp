#include "slimpack/cost/held_packs.h"

#include <cstddef>
#include <cstdint>

#include "slimpack/cost/layer_widths.h"

namespace slimpack {
namespace {

MicroPack own_share(const MicroPack& pack, const SequenceLengths& lengths, std::int32_t member) {
  MicroPack out{{}, pack.replicas};
  for (std::size_t i = 0; i < pack.slices.size(); ++i) {
    const Zone zone = pack.zone(i);
    if (!zone.has(member)) continue;
    const Slice& s = pack.slices[i];
    const std::int64_t end = s.end.count();
    const bool last = s.end == lengths[s.sequence.index()];
    out.slices.push_back({s.sequence, s.begin / zone.size,
                          Tokens(last ? share_of(end, zone.size) : end / zone.size)});
    if (!pack.zones.empty()) out.zones.push_back(zone);
  }
  return out;
}

}  // namespace

HeldPacks held_packs(const PackPlan& packs, const SequenceLengths& lengths, ReplicaId replica) {
  HeldPacks held{packs, lengths};
  for (auto* pass : {&held.packs.forward, &held.packs.backward})
    for (MicroPack& pack : *pass)
      if (pack.replicas > 1) pack = own_share(pack, lengths, replica.value() % pack.replicas);
  for (const MicroPack& pack : packs.forward) {
    if (pack.replicas == 1) continue;
    for (std::size_t i = 0; i < pack.slices.size(); ++i) {
      const std::size_t sequence = pack.slices[i].sequence.index();
      const Zone zone = pack.zone(i);
      held.lengths[sequence] = zone.has(replica.value() % pack.replicas)
                                   ? Tokens(share_of(lengths[sequence].count(), zone.size))
                                   : Tokens(0);
    }
  }
  return held;
}

std::vector<MicroPack> packs_by_zone(const MicroPack& pack) {
  std::vector<MicroPack> out;
  for (std::size_t i = 0; i < pack.slices.size(); ++i) {
    if (i == 0 || pack.zone(i) != pack.zone(i - 1)) out.push_back({{}, pack.zone(i).size});
    out.back().slices.push_back(pack.slices[i]);
  }
  return out;
}

}  // namespace slimpack
