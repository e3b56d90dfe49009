#include "slimpack/packflow/step/step_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "slimpack/base/random.h"

namespace slimpack {
namespace {

TEST(WaitingBytes, AnInputWaitsFromItsPutUntilItIsTaken) {
  // 100 bytes in [10, 30), 20 in [20, 40), 3 in [30, 50): from 10 on 100, from 20 on 120, from 30
  // on 23, from 40 on 3, from 50 on none.
  const std::vector<WaitedInput> inputs{{Nanos(10), Nanos(30), Bytes(100)},
                                        {Nanos(20), Nanos(40), Bytes(20)},
                                        {Nanos(30), Nanos(50), Bytes(3)}};
  const WaitingBytes waiting(inputs);
  EXPECT_EQ(waiting.at(Nanos(9)), Bytes(0));
  EXPECT_EQ(waiting.at(Nanos(10)), Bytes(100));
  EXPECT_EQ(waiting.at(Nanos(29)), Bytes(120));
  EXPECT_EQ(waiting.at(Nanos(30)), Bytes(23));
  EXPECT_EQ(waiting.at(Nanos(50)), Bytes(0));
  EXPECT_EQ(waiting.most(Nanos(0), Nanos(10)), Bytes(0));  // what comes at the end comes after it
  EXPECT_EQ(waiting.most(Nanos(0), Nanos(11)), Bytes(100));
  EXPECT_EQ(waiting.most(Nanos(15), Nanos(60)), Bytes(120));
  EXPECT_EQ(waiting.most(Nanos(35), Nanos(60)), Bytes(23));
  EXPECT_EQ(waiting.most(Nanos(35), Nanos(35)), Bytes(23));
}

TEST(WaitingBytes, WithoutInputsNothingWaits) {
  EXPECT_EQ(WaitingBytes({}).at(Nanos(5)), Bytes(0));
  EXPECT_EQ(WaitingBytes({}).most(Nanos(0), Nanos(5)), Bytes(0));
}

TEST(WaitingBytes, TheMostIsThatOfEveryMomentInTurn) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    const auto below = [&](std::uint64_t end) { return static_cast<std::int64_t>(rng.below(end)); };
    std::vector<WaitedInput> inputs;
    for (std::int64_t i = below(12); i > 0; --i) {
      const std::int64_t put = below(30);
      inputs.push_back({Nanos(put), Nanos(put + below(10)), Bytes(1 + below(100))});
    }
    const auto counted = [&](std::int64_t time) {
      Bytes sum;
      for (const WaitedInput& input : inputs)
        if (input.put <= Nanos(time) && Nanos(time) < input.taken) sum += input.bytes;
      return sum;
    };
    const std::int64_t begin = below(40), end = begin + below(10);
    Bytes most = counted(begin);
    for (std::int64_t time = begin; time < end; ++time) most = std::max(most, counted(time));
    EXPECT_EQ(WaitingBytes(inputs).most(Nanos(begin), Nanos(end)), most) << "seed " << seed;
  }
}

}  // namespace
}  // namespace slimpack
