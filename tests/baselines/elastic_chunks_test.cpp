#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <utility>

#include "slimpack/baselines/elastic_chunks.h"
#include "slimpack/schedule/schedule.h"
#include "tests/baselines/cases.h"

namespace slimpack {
namespace {

using testing::ids;
using testing::job_of;
using testing::made_by;
using testing::tokens;

constexpr SliceWeight kPairs{0, 1};

TEST(ChunkEnds, GiveTheLongestSequenceSlicesOfEqualWeight) {
  // 20 tokens have 210 causal pairs, 70 a slice: 12 tokens have 78, 17 have 153.
  EXPECT_EQ(chunk_ends(tokens({3, 20, 19}), kPairs, 3), tokens({12, 17, 20}));
  EXPECT_EQ(chunk_ends(tokens({3, 2}), kPairs, 1), tokens({3}));
}

TEST(ElasticGroups, PutShortSequencesBesideTailsWhereTheyFit) {
  // Tokens weigh 1, and a chunk has 5. Sequence 1 leaves a tail of 2, which has room for 3 and not
  // for 4. The pack of 4 has no room for 2.
  const SliceWeight weight;
  EXPECT_EQ(elastic_groups(tokens({10, 7, 4, 3, 2}), weight, tokens({5, 10})),
            (SequencePacks{ids({0}), ids({1, 3}), ids({2}), ids({4})}));
}

TEST(ElasticGroups, LoosenTheWeightWhereTheTokensHaveRoom) {
  // 12 tokens have 78 pairs, 39 a chunk, and the first chunk 9 tokens. Of 10 tokens the last one is
  // the tail: 10 pairs. 8 tokens have 36: 46 are more than 39, but 9 tokens fit. 7 and 2 have 9
  // tokens; the last 1 finds no room. Of the groups with two chunks the one of 55 + 36 pairs leads.
  EXPECT_EQ(elastic_groups(tokens({12, 10, 8, 7, 2, 1}), kPairs, tokens({9, 12})),
            (SequencePacks{ids({1, 2}), ids({0}), ids({3, 4}), ids({5})}));
}

TEST(ElasticGroups, TakeTheBucketWithTheLeastWeightPerToken) {
  // The tail of 10 takes 6: 31 pairs in 7 tokens. 5 finds no room there. 2 would fit both: 31 / 7
  // is more than 15 / 5.
  EXPECT_EQ(elastic_groups(tokens({12, 10, 6, 5, 2}), kPairs, tokens({9, 12})),
            (SequencePacks{ids({0}), ids({1, 2}), ids({3, 4})}));
}

/// The paper's algorithm, bucket by bucket. Result: the sequences of each bucket.
SequencePacks plain_buckets(const SequenceLengths& lengths, const SliceWeight& weight,
                            const std::vector<Tokens>& ends) {
  struct Bucket {
    double weight;
    Tokens tokens;
    std::vector<SequenceId> sequences;
  };
  std::vector<SequenceId> order = all_sequences(lengths);
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](SequenceId id) { return lengths[id.index()]; });
  double most = weight(Slice{SequenceId(), Tokens(0), ends.back()}) / std::ssize(ends);
  std::vector<Bucket> buckets;
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    Tokens begin;
    for (const Tokens end : ends)
      if (end <= length) begin = end;
    const Slice rest{id, begin, length};
    const auto has_room = [&](const Bucket& b) { return b.tokens + length <= ends.front(); };
    if (begin == length) continue;
    if (begin > Tokens(0) || std::ranges::none_of(buckets, has_room)) {
      buckets.push_back({weight(rest), rest.length(), {id}});
      continue;
    }
    for (Bucket* best = nullptr; best == nullptr;) {
      double least = 1e300;
      for (Bucket& b : buckets) {
        if (!has_room(b)) continue;
        least = std::min(least, b.weight);
        const auto ratio = [](const Bucket& of) {
          return of.weight / static_cast<double>(of.tokens.count());
        };
        if (b.weight + weight(rest) <= most && (best == nullptr || ratio(b) < ratio(*best)))
          best = &b;
      }
      if (best == nullptr) {
        most = least + weight(rest);
        continue;
      }
      best->weight += weight(rest);
      best->tokens += length;
      best->sequences.push_back(id);
    }
  }
  SequencePacks out;
  for (Bucket& b : buckets) out.push_back(std::move(b.sequences));
  return out;
}

RC_GTEST_PROP(ElasticGroups, AreTheBucketsOfThePaper, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 200))));
  const SliceWeight weight{static_cast<double>(*rc::gen::inRange(1, 100)), 1};
  const auto ends = chunk_ends(lengths, weight, *rc::gen::inRange(1, 9));
  SequencePacks groups = elastic_groups(lengths, weight, ends);
  std::erase_if(groups, [&](const auto& group) {  // without a tail
    return group.size() == 1 && std::ranges::count(ends, lengths[group[0].index()]) > 0;
  });
  SequencePacks plain = plain_buckets(lengths, weight, ends);
  std::ranges::sort(groups);
  std::ranges::sort(plain);
  RC_ASSERT(groups == plain);
}

RC_GTEST_PROP(InfiniPipeBaseline, CutsWhereChunksEndAndRunsLongSequencesFirst, ()) {
  const auto lengths = tokens(*rc::gen::nonEmpty(
      rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(1, 200))));
  const Costs cost = testing::round_cost();
  const std::int32_t stages = *rc::gen::inRange(1, 5);
  const Job job = job_of(testing::one_layer_each(stages), *rc::gen::inRange(1, 4), Tokens(200));
  Tuning tuning;
  if (*rc::gen::arbitrary<bool>()) tuning = {.slices = *rc::gen::inRange(1, 9), .tails = true};
  const BaselinePlan made = made_by("infinipipe", job, lengths, cost, tuning);
  RC_ASSERT(check_plan(made.plan).empty());
  for (const ReplicaPlan& replica : made.plan.replicas) {
    // Slices of a pack that is no sequence's last follow each other, so their number is the chunks.
    std::size_t chunks = lengths.size() * 200, run = 0;
    for (const MicroPack& pack : replica.packs.forward) {
      ++run;
      const Slice& first = pack.slices.front();
      if (first.end < lengths[first.sequence.index()]) continue;
      RC_ASSERT(run <= chunks);
      chunks = std::exchange(run, 0);
    }
    RC_ASSERT(check_schedule(replica.packs, sliced_one_f_one_b(replica.packs, stages, 1, 1)) ==
              std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace slimpack
