// Steps, on each rank: forwards of its first stage until the first pack is through all stages;
// pairs of forwards and backwards of both stages in turn; what is left of the backwards.
#include <algorithm>
#include <array>
#include <cstddef>

#include "slimpack/base/error.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// The list of one rank. `way` 0 is its stage on the way there, 1 the one on the way back.
class RankList {
 public:
  /// `packs`: of the whole list, of which `kept` exist.
  RankList(std::int32_t rank, std::int32_t ranks, std::int32_t packs, std::int32_t kept, bool split)
      : rank_(rank),
        ranks_(ranks),
        packs_(packs),
        kept_(kept),
        split_(split),
        stages_{StageId(rank), StageId(2 * ranks - 1 - rank)} {}

  std::vector<Action> make() {
    warm_up();
    while (forwards_[1] < forwards_[0] || forwards_[0] < packs_) {
      if (forwards_[0] < packs_) forward(0);
      whole_backward(0);
      forward(1);
      whole_backward(1);
    }
    cool_down();
    return std::move(actions_);
  }

 private:
  void warm_up() {
    for (std::int32_t i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(0);
    for (std::int32_t i = 0; i < rank_; ++i) forward(1), forward(0);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) forward(1), whole_backward(1);
  }

  /// The rank before waits for input gradients, so weight gradients come last.
  void cool_down() {
    for (std::int32_t i = 0; i < rank_; ++i) input_gradient(0), input_gradient(1);
    for (std::int32_t i = 0; i < ranks_ - rank_; ++i) {
      input_gradient(0);
      weight_gradient(0);
    }
    for (const std::size_t way : {1, 0})
      while (weights_[way] < backwards_[way]) weight_gradient(way);
  }

  void add(std::size_t way, Pass pass, std::int32_t pack) {
    if (pack < kept_) actions_.push_back({stages_[way], pass, PackId(pack)});
  }
  void forward(std::size_t way) { add(way, Pass::kForward, forwards_[way]++); }
  void input_gradient(std::size_t way) {
    add(way, split_ ? Pass::kInputGradient : Pass::kBackward, backwards_[way]++);
  }
  void weight_gradient(std::size_t way) {
    const std::int32_t pack = weights_[way]++;
    if (split_) add(way, Pass::kWeightGradient, pack);
  }
  void whole_backward(std::size_t way) {
    input_gradient(way);
    weight_gradient(way);
  }

  std::int32_t rank_, ranks_, packs_, kept_;
  bool split_;
  std::array<StageId, 2> stages_;
  std::array<std::int32_t, 2> forwards_{}, backwards_{}, weights_{};  ///< by way: packs listed
  std::vector<Action> actions_;
};

}  // namespace

Schedule zero_bubble_v(const PackPlan& packs, int ranks, bool split) {
  SLIMPACK_CHECK(packs.forward.size() == packs.backward.size() && ranks >= 2);
  const auto count = static_cast<std::int32_t>(packs.forward.size());
  Schedule schedule{{}, StagePlacement::of(PlacementStyle::kV, ranks, 2)};
  // Fewer packs leave the others' places in the list empty.
  const std::int32_t least = 2 * ranks - 1;
  for (std::int32_t r = 0; r < ranks; ++r)
    schedule.ranks.push_back(RankList(r, ranks, std::max(count, least), count, split).make());
  return schedule;
}

}  // namespace slimpack
