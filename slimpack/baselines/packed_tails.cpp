// Steps (DSPP, milestone A; Cuiym715/Megatron-LM):
//  1. Each tail opens a pack. Add empty packs up to the least number that can hold everything.
//  2. Put the short sequences in, the longest first, each into the pack with the least work among
//     those that have room; of equals into the fullest, then the oldest.
//  3. One that finds no room opens a pack. If any did, begin again with as many packs as that made.
#include "slimpack/baselines/packed_tails.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <functional>
#include <queue>
#include <set>
#include <utility>

namespace slimpack {
namespace {

/// The step's sequences by what becomes of them, longest first.
struct Sorted {
  std::vector<SequenceId> whole_slices;  ///< long, without a tail
  std::vector<Slice> tails;
  std::vector<Slice> shorts;
};

Sorted sorted(const SequenceLengths& lengths, Tokens slice) {
  std::vector<SequenceId> order = all_sequences(lengths);
  sort_longest_first(lengths, order);
  Sorted out;
  for (const SequenceId id : order) {
    const Tokens length = lengths[id.index()];
    const Tokens tail(length.count() % slice.count());
    if (length <= slice)
      out.shorts.push_back({id, Tokens(0), length});
    else if (tail > Tokens(0))
      out.tails.push_back({id, length - tail, length});
    else
      out.whole_slices.push_back(id);
  }
  return out;
}

/// No fewer packs hold all: a pack has one tail at most and `slice` tokens at most. None of the i
/// longest parts is shorter than the i-th, so a pack has at most slice ÷ the i-th's length of them.
std::size_t least_packs(const Sorted& sequences, Tokens slice) {
  std::vector<std::int64_t> parts;
  for (const auto* kind : {&sequences.tails, &sequences.shorts})
    for (const Slice& part : *kind) parts.push_back(part.length().count());
  std::sort(parts.begin(), parts.end(), std::greater<>());
  const auto divided = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t least = std::ssize(sequences.tails);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    tokens += parts[i];
    const std::int64_t in_a_pack = slice.count() / parts[i];
    least = std::max(least, divided(static_cast<std::int64_t>(i) + 1, in_a_pack));
  }
  return static_cast<std::size_t>(std::max(least, divided(tokens, slice.count())));
}

/// A pack while it is filled: the work that it holds, and the room that it has left.
struct Open {
  double work = 0;
  Tokens room;
  std::size_t pack = 0;

  auto operator<=>(const Open&) const = default;
};
struct ByRoom {
  bool operator()(const Open& a, const Open& b) const { return a.room < b.room; }
};

/// Fills `count` packs, and more where a sequence finds no room. Lengths fall, so a pack without
/// room for one sequence waits until it has room for another.
SequencePacks filled(const Sorted& sequences, Tokens slice, const PackCost& cost,
                     std::size_t count) {
  SequencePacks packs(count);
  std::set<Open> open;
  std::priority_queue<Open, std::vector<Open>, ByRoom> waiting;
  for (std::size_t i = 0; i < sequences.tails.size(); ++i) {
    const Slice& tail = sequences.tails[i];
    packs[i].push_back(tail.sequence);
    waiting.push({cost(tail), slice - tail.length(), i});
  }
  for (std::size_t i = sequences.tails.size(); i < count; ++i) waiting.push({0, slice, i});
  for (const Slice& whole : sequences.shorts) {
    for (; !waiting.empty() && waiting.top().room >= whole.length(); waiting.pop())
      open.insert(waiting.top());
    if (open.empty()) {
      open.insert({0, slice, packs.size()});
      packs.emplace_back();
    }
    Open lightest = open.extract(open.begin()).value();
    packs[lightest.pack].push_back(whole.sequence);
    lightest.work += cost(whole);
    lightest.room = lightest.room - whole.length();
    waiting.push(lightest);
  }
  return packs;
}

}  // namespace

SequencePacks tail_groups(const SequenceLengths& lengths, Tokens slice, const PackCost& cost) {
  const Sorted sequences = sorted(lengths, slice);
  std::size_t count = least_packs(sequences, slice);
  SequencePacks packs = filled(sequences, slice, cost, count);
  while (packs.size() > count) {
    count = packs.size();
    packs = filled(sequences, slice, cost, count);
  }
  SequencePacks groups;
  for (const SequenceId id : sequences.whole_slices) groups.push_back({id});
  for (auto& pack : packs)
    if (!pack.empty()) groups.push_back(std::move(pack));
  const auto long_first = [&](const std::vector<SequenceId>& group) {
    const Tokens length = lengths[group.front().index()];
    return length > slice ? length : Tokens(0);
  };
  std::stable_sort(groups.begin(), groups.end(),
                   [&](const auto& a, const auto& b) { return long_first(a) > long_first(b); });
  return groups;
}

}  // namespace slimpack
