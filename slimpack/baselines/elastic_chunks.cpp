// Steps of elastic_groups:
//  1. Each tail of a long sequence opens a bucket.
//  2. Put the short sequences in, longest first. A bucket may have ends.front() tokens and the
//     weight of a slice. Of the buckets with room take the one with the least weight per token: it
//     has the least of long sequences.
//  3. Where no bucket has room for the tokens, the sequence opens one. Where one has, but all would
//     be too heavy, buckets may be as heavy as the lightest of them with the sequence from now on.
#include "slimpack/baselines/elastic_chunks.h"

#include <algorithm>
#include <queue>
#include <set>
#include <utility>

namespace slimpack {
namespace {

/// A tail or a pack of short sequences while it is filled.
struct Bucket {
  double weight = 0;
  Tokens tokens;
  std::vector<SequenceId> sequences = {};
};

class Buckets {
 public:
  Buckets(Tokens most_tokens, double most_weight)
      : most_tokens_(most_tokens), most_weight_(most_weight) {}

  /// REQUIRES: no longer than the sequences before.
  void put(SequenceId id, Tokens length, double weight) {
    for (; !waiting_.empty() && waiting_.top().first >= length; waiting_.pop())
      enter(waiting_.top().second);
    std::size_t bucket = buckets_.size();
    if (!by_weight_.empty()) {
      bucket = lightest_per_token(weight);
      by_ratio_.erase({ratio(bucket), bucket});
      for (auto* set : {&by_weight_, &heavy_}) set->erase({buckets_[bucket].weight, bucket});
    }
    add(bucket, id, length, weight);
  }

  /// Opens a bucket.
  void open(SequenceId id, Tokens length, double weight) {
    add(buckets_.size(), id, length, weight);
  }

  [[nodiscard]] std::vector<Bucket> take() { return std::move(buckets_); }

 private:
  [[nodiscard]] double ratio(std::size_t bucket) const {
    return buckets_[bucket].weight / static_cast<double>(buckets_[bucket].tokens.count());
  }

  void enter(std::size_t bucket) {
    by_ratio_.emplace(ratio(bucket), bucket);
    by_weight_.emplace(buckets_[bucket].weight, bucket);
  }

  /// The bucket is one of those with room for the tokens. Where none has room for the weight, all
  /// may have more from now on.
  [[nodiscard]] std::size_t lightest_per_token(double weight) {
    const auto [least, lightest] = *by_weight_.begin();
    if (least + weight > most_weight_) {
      most_weight_ = least + weight;
      return lightest;
    }
    const auto has_room = [&](std::size_t bucket) {
      return buckets_[bucket].weight + weight <= most_weight_;
    };
    for (; !heavy_.empty() && has_room(heavy_.begin()->second); heavy_.erase(heavy_.begin()))
      by_ratio_.emplace(ratio(heavy_.begin()->second), heavy_.begin()->second);
    for (; !has_room(by_ratio_.begin()->second); by_ratio_.erase(by_ratio_.begin()))
      heavy_.emplace(buckets_[by_ratio_.begin()->second].weight, by_ratio_.begin()->second);
    return by_ratio_.begin()->second;
  }

  void add(std::size_t bucket, SequenceId id, Tokens length, double weight) {
    if (bucket == buckets_.size()) buckets_.emplace_back();
    Bucket& to = buckets_[bucket];
    to.weight += weight;
    to.tokens += length;
    to.sequences.push_back(id);
    waiting_.emplace(most_tokens_ - to.tokens, bucket);
  }

  Tokens most_tokens_;
  double most_weight_;
  std::vector<Bucket> buckets_;
  std::set<std::pair<double, std::size_t>> by_weight_;  ///< with room for a sequence's tokens
  /// The first has all that also have room for its weight, the second those that had none for a
  /// heavier sequence.
  std::set<std::pair<double, std::size_t>> by_ratio_, heavy_;
  std::priority_queue<std::pair<Tokens, std::size_t>> waiting_;  ///< by room
};

/// A group, and by what it is sorted.
struct Chunked {
  std::size_t chunks = 1;
  double weight = 0;
  std::vector<SequenceId> sequences = {};
};

}  // namespace

std::vector<Tokens> chunk_ends(const SequenceLengths& lengths, const SliceWeight& weight,
                               std::int32_t chunks) {
  if (lengths.empty()) return {};
  const Tokens longest = std::ranges::max(lengths);
  std::vector<Tokens> ends;
  for (const MicroPack& slice :
       cut_pack({{Slice{SequenceId(), Tokens(0), longest}}}, weight, chunks))
    ends.push_back(slice.slices.front().end);
  return ends;
}

SequencePacks elastic_groups(const SequenceLengths& lengths, const SliceWeight& weight,
                             const std::vector<Tokens>& ends) {
  if (lengths.empty()) return {};
  std::vector<SequenceId> order = all_sequences(lengths);
  sort_longest_first(lengths, order);
  const auto whole = [&](SequenceId id) {
    return weight(Slice{id, Tokens(0), lengths[id.index()]});
  };
  std::vector<Chunked> groups;
  Buckets buckets(ends.front(), whole(order.front()) / static_cast<double>(ends.size()));
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    const auto behind = std::ranges::upper_bound(ends, length);
    const Tokens tail = behind == ends.begin() ? length : length - *(behind - 1);
    if (behind == ends.begin())
      buckets.put(id, length, whole(id));
    else if (tail == Tokens(0))
      groups.push_back({static_cast<std::size_t>(behind - ends.begin()), whole(id), {id}});
    else
      buckets.open(id, tail, weight(Slice{id, length - tail, length}));
  }
  for (Bucket& bucket : buckets.take()) {
    Chunked& group = groups.emplace_back();
    const auto reached = std::ranges::upper_bound(ends, lengths[bucket.sequences.front().index()]);
    group.chunks = 1 + static_cast<std::size_t>(reached - ends.begin());
    for (const SequenceId id : bucket.sequences) group.weight += whole(id);
    group.sequences = std::move(bucket.sequences);
  }
  std::ranges::stable_sort(groups, std::ranges::greater(), [](const Chunked& group) {
    return std::pair(group.chunks, group.weight);
  });
  SequencePacks out;
  for (Chunked& group : groups) out.push_back(std::move(group.sequences));
  return out;
}

}  // namespace slimpack
