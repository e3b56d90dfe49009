#include "slimpack/plan/pack_texts.h"

namespace slimpack {

std::vector<PackTexts> pack_texts(
    const StepPlan& plan,
    const std::function<std::string(SequenceId sequence, Tokens begin, Tokens end)>& text) {
  const auto texts_of = [&](const std::vector<MicroPack>& packs) {
    std::vector<std::vector<std::string>> texts;
    for (const MicroPack& pack : packs) {
      texts.emplace_back();
      for (const Slice& slice : pack.slices)
        texts.back().push_back(text(slice.sequence, slice.begin, slice.end));
    }
    return texts;
  };
  std::vector<PackTexts> replicas;
  for (const ReplicaPlan& replica : plan.replicas)
    replicas.push_back({texts_of(replica.packs.forward), texts_of(replica.packs.backward)});
  return replicas;
}

}  // namespace slimpack
