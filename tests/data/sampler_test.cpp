#include "slimpack/data/sampler.h"
#include "slimpack/base/json_fields.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using Step = std::vector<DocumentSequence>;

std::vector<Tokens> tokens(const std::vector<std::int64_t>& counts) {
  std::vector<Tokens> lengths;
  for (const std::int64_t count : counts) lengths.emplace_back(count);
  return lengths;
}

std::vector<Step> steps(Sampler& sampler, int count) {
  std::vector<Step> drawn;
  for (int i = 0; i < count; ++i) drawn.push_back(sampler.next_step());
  return drawn;
}

std::vector<std::size_t> order(const Step& step) {
  std::vector<std::size_t> documents;
  for (const DocumentSequence& sampled : step) documents.push_back(sampled.document);
  return documents;
}

/// Lengths 0 to 49, one of them at least with a sequence, and options of that size.
struct Case {
  std::vector<Tokens> lengths;
  SamplerOptions options;
  std::uint64_t seed;
};

Case any_case() {
  auto counts = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(0, 50));
  const int context = *rc::gen::inRange(1, 60);
  counts.push_back(*rc::gen::inRange(1, std::min(50, context + 1)));  // never dropped
  return {tokens(counts),
          {{Tokens(context), *rc::gen::elementOf(kLongDocumentsKinds)},
           Tokens(*rc::gen::inRange(1, 200))},
          *rc::gen::arbitrary<std::uint64_t>()};
}

TEST(Sampler, draws_whole_documents_until_the_step_is_reached_or_passed) {
  // Four documents of 10 tokens: 25 tokens are passed with the third.
  Sampler sampler(mixture_of_one(tokens({10, 10, 10, 10})), {{Tokens(100)}, Tokens(25)},
                  {.seed = 1});
  EXPECT_EQ(sampler.next_step().size(), 3u);
  // 20 tokens are reached exactly with the second.
  Sampler exact(mixture_of_one(tokens({10, 10, 10, 10})), {{Tokens(100)}, Tokens(20)}, {.seed = 1});
  EXPECT_EQ(exact.next_step().size(), 2u);
}

TEST(Sampler, draws_all_sequences_of_documents_longer_than_the_context) {
  // A context of 5: 7 = 5 + 2 and 9 = 5 + 4.
  Sampler sampler(mixture_of_one(tokens({3, 7, 5, 9})), {{Tokens(5)}, Tokens(24)}, {});
  Step epoch = sampler.next_step();  // 24 tokens: all
  std::ranges::sort(epoch, {}, [](const auto& s) { return std::pair(s.document, s.begin); });
  EXPECT_EQ(epoch, (Step{{0, Tokens(0), Tokens(3)},
                         {1, Tokens(0), Tokens(5)},
                         {1, Tokens(5), Tokens(2)},
                         {2, Tokens(0), Tokens(5)},
                         {3, Tokens(0), Tokens(5)},
                         {3, Tokens(5), Tokens(4)}}));
}

TEST(Sampler, draws_only_the_beginning_of_long_documents_when_told_to_truncate) {
  Sampler sampler(mixture_of_one(tokens({3, 7, 5, 9})),
                  {{Tokens(5), LongDocumentsKind::kTruncate}, Tokens(18)}, {});
  Step epoch = sampler.next_step();  // 3 + 5 + 5 + 5 = 18: all four
  std::ranges::sort(epoch, {}, &DocumentSequence::document);
  EXPECT_EQ(epoch, (Step{{0, Tokens(0), Tokens(3)},
                         {1, Tokens(0), Tokens(5)},
                         {2, Tokens(0), Tokens(5)},
                         {3, Tokens(0), Tokens(5)}}));
}

TEST(Sampler, fills_a_step_from_the_next_epoch) {
  Sampler sampler(mixture_of_one(tokens({1, 1, 1})), {{Tokens(1)}, Tokens(7)}, {.seed = 5});
  const std::vector<std::size_t> drawn = order(sampler.next_step());
  ASSERT_EQ(drawn.size(), 7u);
  for (const std::size_t epoch : {0, 3})
    EXPECT_TRUE(std::is_permutation(drawn.begin() + static_cast<std::ptrdiff_t>(epoch),
                                    drawn.begin() + static_cast<std::ptrdiff_t>(epoch) + 3,
                                    std::vector<std::size_t>{0, 1, 2}.begin()));
  EXPECT_EQ(sampler.cursor(), (SamplerCursor{.seed = 5, .sources = {{2, 1}}}));
}

TEST(Sampler, skips_empty_documents) {
  Sampler sampler(mixture_of_one(tokens({0, 4, 0})), {{Tokens(10)}, Tokens(12)}, {});
  EXPECT_EQ(sampler.next_step(), (Step(3, {1, Tokens(0), Tokens(4)})));
}

/// Every sequence that a rule makes of these documents, counted without sequences.h.
std::map<std::pair<std::size_t, Tokens>, Tokens> all_sequences(const Case& c) {
  std::map<std::pair<std::size_t, Tokens>, Tokens> all;
  for (std::size_t d = 0; d < c.lengths.size(); ++d)
    for (Tokens begin; begin < c.lengths[d]; begin += c.options.sequences.context) {
      const bool longer = c.lengths[d] > c.options.sequences.context;
      if (longer && c.options.sequences.long_documents == LongDocumentsKind::kDrop) break;
      if (begin > Tokens(0) && c.options.sequences.long_documents != LongDocumentsKind::kSplit)
        break;
      all[{d, begin}] = std::min(c.options.sequences.context, c.lengths[d] - begin);
    }
  return all;
}

RC_GTEST_PROP(Sampler, gives_every_sequence_once_per_epoch, ()) {
  const Case c = any_case();
  Sampler sampler(mixture_of_one(c.lengths), c.options, {.seed = c.seed});
  const auto expected = all_sequences(c);
  Step all;
  while (all.size() < 3 * expected.size()) {
    const Step step = sampler.next_step();
    Tokens total;
    for (const DocumentSequence& sequence : step) total += sequence.length;
    // Reached, but not before the last sequence.
    RC_ASSERT(total >= c.options.step_tokens);
    RC_ASSERT(total - step.back().length < c.options.step_tokens);
    all.insert(all.end(), step.begin(), step.end());
  }
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::map<std::pair<std::size_t, Tokens>, Tokens> seen;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const DocumentSequence& s = all[epoch * expected.size() + i];
      seen[{s.document, s.begin}] = s.length;
    }
    RC_ASSERT(seen == expected);  // none twice: there are as many as were drawn
  }
}

RC_GTEST_PROP(Sampler, repeats_with_the_same_seed, ()) {
  const Case c = any_case();
  Sampler first(mixture_of_one(c.lengths), c.options, {.seed = c.seed});
  Sampler second(mixture_of_one(c.lengths), c.options, {.seed = c.seed});
  RC_ASSERT(steps(first, 8) == steps(second, 8));
}

RC_GTEST_PROP(Sampler, continues_identically_from_a_saved_cursor, ()) {
  const Case c = any_case();
  Sampler sampler(mixture_of_one(c.lengths), c.options, {.seed = c.seed});
  (void)steps(sampler, *rc::gen::inRange(0, 6));
  const std::string saved = to_json(sampler.cursor()).dump();
  const nlohmann::json loaded = nlohmann::json::parse(saved);
  const SamplerCursor cursor = sampler_cursor_from_json(JsonFields(loaded, "cursor"));
  RC_ASSERT(cursor == sampler.cursor());
  Sampler resumed(mixture_of_one(c.lengths), c.options, cursor);
  RC_ASSERT(steps(resumed, 8) == steps(sampler, 8));
  RC_ASSERT(resumed.cursor() == sampler.cursor());
}

TEST(Sampler, orders_documents_anew_for_each_seed_and_epoch) {
  // 40 documents have 40! orders, so that two equal ones are no accident.
  const std::vector<Tokens> lengths(40, Tokens(1));
  const SamplerOptions one_epoch{{Tokens(1)}, Tokens(40)};
  Sampler a(mixture_of_one(lengths), one_epoch, {.seed = 1});
  Sampler b(mixture_of_one(lengths), one_epoch, {.seed = 2});
  const auto first = order(a.next_step());
  EXPECT_NE(first, order(a.next_step()));
  EXPECT_NE(first, order(b.next_step()));
  EXPECT_FALSE(std::is_sorted(first.begin(), first.end()));
}

TEST(Sampler, has_an_order_that_never_changes_between_releases) {
  // Golden, from a separate Python implementation of splitmix64 and Fisher–Yates: a cursor saved by
  // an older release must continue with the same documents.
  Sampler sampler(mixture_of_one(std::vector<Tokens>(8, Tokens(1))), {{Tokens(1)}, Tokens(8)},
                  {.seed = 42});
  EXPECT_EQ(order(sampler.next_step()), (std::vector<std::size_t>{7, 2, 1, 4, 5, 3, 0, 6}));
}

TEST(Sampler, refuses_what_it_cannot_draw_from) {
  expect_invalid_input([] { Sampler(mixture_of_one({}), {}, {}); },
                       {"0 documents", "none with a token"});
  expect_invalid_input([] { Sampler(mixture_of_one(tokens({0, 0})), {}, {}); }, {"2 documents"});
  expect_invalid_input(
      [] {
        Sampler(mixture_of_one(tokens({1})), {{Tokens(0)}, Tokens(1)}, {});
      },
      {"context is 0"});
  expect_invalid_input(
      [] {
        Sampler(mixture_of_one(tokens({1})), {{Tokens(1)}, Tokens(-4)}, {});
      },
      {"step_tokens is -4"});
}

TEST(Sampler, refuses_a_cursor_of_another_dataset) {
  const auto with = [](SourcePlace place) {
    Sampler(mixture_of_one(tokens({1, 0, 1})), {}, {.sources = {place}});
  };
  EXPECT_NO_THROW(with({.position = 2}));  // the end of the epoch
  expect_invalid_input([&] { with({.position = 3}); }, {"position 3", "2 sequences"});
  expect_invalid_input([&] { with({.position = -1}); }, {"position -1"});
  expect_invalid_input([&] { with({.epoch = -1}); }, {"epoch -1"});
}

TEST(SamplerCursor, keeps_seeds_of_64_bits) {
  const SamplerCursor cursor{.seed = UINT64_MAX, .sources = {{3, 4}}};
  const nlohmann::json json = nlohmann::json::parse(to_json(cursor).dump());
  EXPECT_EQ(sampler_cursor_from_json(JsonFields(json, "c")), cursor);
}

TEST(SamplerCursor, names_the_wrong_field) {
  const auto read = [](const char* text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    (void)sampler_cursor_from_json(JsonFields(json, "run.json: cursor"));
  };
  expect_invalid_input([&] { read(R"({"epoch": 0, "position": 0})"); },
                       {"run.json: cursor", "\"seed\"", "missing"});
  expect_invalid_input([&] { read(R"({"seed": -1, "epoch": 0, "position": 0})"); }, {"\"seed\""});
  expect_invalid_input([&] { read(R"({"seed": "x", "epoch": 0, "position": 0})"); }, {"\"seed\""});
  expect_invalid_input([&] { read(R"({"seed": 0, "epoch": -1, "position": 0})"); }, {"\"epoch\""});
  // The epoch after it would not fit into 64 bits.
  expect_invalid_input([&] { read(R"({"seed": 0, "epoch": 9223372036854775807, "position": 0})"); },
                       {"\"epoch\""});
  expect_invalid_input([&] { read(R"({"seed": 0, "epoch": 0, "position": 1.5})"); },
                       {"\"position\""});
}

}  // namespace
}  // namespace slimpack
