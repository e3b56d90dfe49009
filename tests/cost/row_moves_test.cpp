#include "slimpack/cost/pack_sums.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace slimpack {
namespace {

MicroPack pack_of(Tokens length, const Zone& attention, const Zone& rows) {
  return {{{SequenceId(0), Tokens(0), length}}, 4, {attention}, {rows}};
}

TEST(RowMoves, CountsWhatTheBusiestMemberSendsOrGets) {
  const NodePlacement nodes{.ranks_per_node = 2, .replicas = 4};
  EXPECT_EQ(row_moves({{{SequenceId(0), Tokens(0), Tokens(80)}}, 4, {{0, 1}}}, nodes), RowMoves());
  EXPECT_EQ(row_moves(pack_of(Tokens(80), {0, 1}, {0, 1}), nodes), RowMoves());
  // All 80 rows go from rank 1 to rank 0, of the same node; from rank 3 they go to another one.
  EXPECT_EQ(row_moves(pack_of(Tokens(80), {0, 1}, {1, 1}), nodes), (RowMoves{80, 0}));
  EXPECT_EQ(row_moves(pack_of(Tokens(80), {0, 1}, {3, 1}), nodes), (RowMoves{0, 80}));
  // Every member has every fourth row, and rank 0 attends: it gets 20 from rank 1 and 40 from
  // node 1.
  EXPECT_EQ(row_moves(pack_of(Tokens(80), {0, 1}, {0, 4}), nodes), (RowMoves{20, 40}));
}

// The share of positions that two members have in common, by going through them.
RC_GTEST_PROP(RowMoves, AreThoseOfThePositions, ()) {
  const auto zone = [] {
    const int first = *rc::gen::inRange(0, 4);
    return Zone{first, *rc::gen::inRange(1, 5 - first)};
  };
  const Zone attention = zone(), rows = zone();
  const NodePlacement nodes{.ranks_per_node = *rc::gen::inRange(1, 5), .replicas = 4};
  const std::int64_t length = 12 * 7;  // every pattern of zones of up to four repeats within twelve
  std::vector<double> sent_inside(4), sent_outside(4), got_inside(4), got_outside(4);
  for (std::int64_t position = 0; position < length; ++position) {
    const auto from = static_cast<std::size_t>(rows.first + position % rows.size);
    const auto to = static_cast<std::size_t>(attention.first + position % attention.size);
    if (from == to) continue;
    const auto on_node = static_cast<std::size_t>(nodes.replicas_together());
    const bool inside = from / on_node == to / on_node;
    ++(inside ? sent_inside : sent_outside)[from];
    ++(inside ? got_inside : got_outside)[to];
  }
  const RowMoves moves = row_moves(pack_of(Tokens(length), attention, rows), nodes);
  const auto most = [](const std::vector<double>& a, const std::vector<double>& b) {
    return std::max(std::ranges::max(a), std::ranges::max(b));
  };
  RC_ASSERT(std::abs(moves.inside - most(sent_inside, got_inside)) < 1e-9);
  RC_ASSERT(std::abs(moves.outside - most(sent_outside, got_outside)) < 1e-9);
}

}  // namespace
}  // namespace slimpack
