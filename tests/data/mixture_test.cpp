// Draws from several datasets together.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "slimpack/base/json_fields.h"
#include "slimpack/data/sampler.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using Step = std::vector<DocumentSequence>;

/// Two to four sources of documents of 1 to 40 tokens, at any context.
struct Case {
  Mixture mixture;
  SamplerOptions options;
  SamplerCursor start;
};

std::vector<Tokens> any_lengths() {
  auto counts = *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange(1, 40));
  counts.push_back(*rc::gen::inRange(1, 40));
  std::vector<Tokens> lengths;
  for (const std::int64_t count : counts) lengths.emplace_back(count);
  return lengths;
}

Case any_case() {
  Case c;
  const int sources = *rc::gen::inRange(2, 5);
  for (int i = 0; i < sources; ++i)
    c.mixture.sources.push_back({fmt::format("source {}", i), any_lengths()});
  c.options = {{Tokens(*rc::gen::inRange(1, 50))}, Tokens(*rc::gen::inRange(1, 150))};
  c.start.seed = *rc::gen::arbitrary<std::uint64_t>();
  return c;
}

/// So many shares, each from a tenth to four.
std::vector<double> any_shares(std::size_t sources) {
  std::vector<double> shares;
  while (shares.size() < sources) shares.push_back(*rc::gen::inRange(1, 41) / 10.0);
  return shares;
}

SamplerCursor read_again(const SamplerCursor& cursor) {
  const nlohmann::json saved = nlohmann::json::parse(to_json(cursor).dump());
  return sampler_cursor_from_json(JsonFields(saved, "cursor"));
}

/// At least so many sequences, with random resumes from the saved cursor.
Step drawn(const Case& c, std::size_t count) {
  Step all;
  SamplerCursor cursor = c.start;
  while (all.size() < count) {
    Sampler sampler(c.mixture, c.options, cursor);
    for (int left = *rc::gen::inRange(1, 8); left > 0; --left)
      for (const DocumentSequence& sequence : sampler.next_step()) all.push_back(sequence);
    cursor = read_again(sampler.cursor());
    RC_ASSERT(cursor == sampler.cursor());
  }
  return all;
}

/// By source, how many documents the sources before it have.
std::vector<std::size_t> first_documents(const Mixture& mixture) {
  std::vector<std::size_t> first;
  std::size_t documents = 0;
  for (const MixtureSource& source : mixture.sources) {
    first.push_back(documents);
    documents += source.lengths.size();
  }
  return first;
}

std::size_t source_of(const std::vector<std::size_t>& first, const DocumentSequence& sequence) {
  std::size_t source = 0;
  while (source + 1 < first.size() && first[source + 1] <= sequence.document) ++source;
  return source;
}

/// Every (document, begin) of a source, with documents numbered through.
std::vector<std::pair<std::size_t, std::int64_t>> sequences_of(const Case& c, std::size_t source) {
  std::vector<std::pair<std::size_t, std::int64_t>> all;
  const auto& lengths = c.mixture.sources[source].lengths;
  const std::size_t first = first_documents(c.mixture)[source];
  for (std::size_t d = 0; d < lengths.size(); ++d)
    for (std::int64_t begin = 0; begin < lengths[d].count();
         begin += c.options.sequences.context.count())
      all.emplace_back(first + d, begin);
  return all;
}

RC_GTEST_PROP(Mixture, AnEpochGivesEverySequenceAsOftenAsItSaysAlsoOverResumes, ()) {
  Case c = any_case();
  c.mixture.epochs = any_shares(c.mixture.sources.size());
  std::vector<std::int64_t> all_of, per_epoch;
  for (std::size_t i = 0; i < c.mixture.sources.size(); ++i) {
    all_of.push_back(std::ssize(sequences_of(c, i)));
    const auto rounded = [&] {
      return std::llround(c.mixture.epochs[i] * static_cast<double>(all_of[i]));
    };
    if (rounded() == 0) c.mixture.epochs[i] = 1;
    per_epoch.push_back(rounded());
  }
  std::int64_t in_epoch = 0;
  for (const std::int64_t count : per_epoch) in_epoch += count;
  constexpr std::int64_t kEpochs = 3;
  const Step all = drawn(c, static_cast<std::size_t>(kEpochs * in_epoch));
  std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> times;
  for (std::int64_t e = 1; e <= kEpochs; ++e) {
    for (std::int64_t k = (e - 1) * in_epoch; k < e * in_epoch; ++k) {
      const DocumentSequence& sequence = all[static_cast<std::size_t>(k)];
      ++times[{sequence.document, sequence.begin.count()}];
    }
    for (std::size_t i = 0; i < per_epoch.size(); ++i) {
      std::int64_t given = 0;
      for (const auto& sequence : sequences_of(c, i)) {
        given += times[sequence];
        // After e epochs: floor or ceiling of all draws ÷ sequences.
        RC_ASSERT(times[sequence] >= e * per_epoch[i] / all_of[i]);
        RC_ASSERT(times[sequence] <= (e * per_epoch[i] + all_of[i] - 1) / all_of[i]);
      }
      RC_ASSERT(given == e * per_epoch[i]);
    }
  }
}

RC_GTEST_PROP(Mixture, WeightsHoldAtEveryMomentUpToASequence, ()) {
  Case c = any_case();
  c.mixture.weights = any_shares(c.mixture.sources.size());
  const auto first = first_documents(c.mixture);
  std::vector<double> given(first.size());
  double all_weights = 0, furthest = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    all_weights += c.mixture.weights[i];
    const Tokens longest =
        std::min(std::ranges::max(c.mixture.sources[i].lengths), c.options.sequences.context);
    furthest = std::max(furthest, static_cast<double>(longest.count()) / c.mixture.weights[i]);
  }
  // The source that gives next has the fewest tokens for its weight. So no two sources are further
  // apart in these than the longest sequence takes one.
  double tokens = 0;
  for (const DocumentSequence& sequence : drawn(c, 200)) {
    const auto length = static_cast<double>(sequence.length.count());
    given[source_of(first, sequence)] += length;
    tokens += length;
    for (std::size_t i = 0; i < first.size(); ++i)
      RC_ASSERT(std::abs(given[i] / c.mixture.weights[i] - tokens / all_weights) <=
                furthest * (1 + 1e-9));
  }
}

RC_GTEST_PROP(Mixture, AUsedUpSourceBeginsAnewUnderWeights, ()) {
  Case c = any_case();
  c.mixture.weights = any_shares(c.mixture.sources.size());
  const auto first = first_documents(c.mixture);
  std::map<std::size_t, std::map<std::pair<std::size_t, std::int64_t>, std::int64_t>> times;
  for (const DocumentSequence& sequence : drawn(c, 300))
    ++times[source_of(first, sequence)][{sequence.document, sequence.begin.count()}];
  for (auto& [source, counts] : times) {
    std::int64_t fewest = INT64_MAX, most = 0;
    for (const auto& sequence : sequences_of(c, source)) {
      fewest = std::min(fewest, counts[sequence]);
      most = std::max(most, counts[sequence]);
    }
    RC_ASSERT(most - fewest <= 1);
  }
}

RC_GTEST_PROP(Mixture, ASourceAloneIsDrawnAsItsDatasetWhateverItsShare, ()) {
  Case c = any_case();
  c.mixture.sources.resize(1);
  Sampler plain(c.mixture, c.options, c.start);
  c.mixture.weights = any_shares(1);
  Sampler weighted(c.mixture, c.options, c.start);
  c.mixture.weights.clear();
  c.mixture.epochs = {*rc::gen::inRange(10, 41) / 10.0};
  Sampler repeated(c.mixture, c.options, c.start);
  for (int i = 0; i < 8; ++i) {
    const Step step = plain.next_step();
    RC_ASSERT(weighted.next_step() == step);
    RC_ASSERT(repeated.next_step() == step);
    RC_ASSERT(weighted.cursor() == plain.cursor());
    RC_ASSERT(repeated.cursor() == plain.cursor());
  }
}

Mixture two_of_two(std::vector<double> weights, std::vector<double> epochs) {
  return {{{"'a'", {Tokens(4), Tokens(4)}}, {"'b'", {Tokens(2), Tokens(2)}}},
          std::move(weights),
          std::move(epochs)};
}

TEST(Mixture, TakesTurnsByTokensOfAShare) {
  // Weights 1 and 2. Given tokens ÷ weight, after each draw: 4|0, 4|1, 4|2, 4|3, 4|4, then 'a' of
  // two equal ones.
  const SamplerOptions one{{Tokens(8)}, Tokens(1)};
  Sampler sampler(two_of_two({1, 2}, {}), one, {});
  std::vector<bool> from_b;
  for (int i = 0; i < 6; ++i) from_b.push_back(sampler.next_step().front().document >= 2);
  EXPECT_EQ(from_b, (std::vector<bool>{false, true, true, true, true, false}));
}

TEST(Mixture, SourcesHaveUnrelatedOrders) {
  const std::vector<Tokens> forty(40, Tokens(1));
  const Mixture same{{{"a", forty}, {"b", forty}}};
  Sampler sampler(same, {{Tokens(1)}, Tokens(80)}, {.seed = 1});
  std::vector<std::size_t> a, b;
  for (const DocumentSequence& sequence : sampler.next_step())
    sequence.document < 40 ? a.push_back(sequence.document) : b.push_back(sequence.document - 40);
  EXPECT_EQ(a.size(), 40U);
  EXPECT_NE(a, b);
}

TEST(Mixture, RefusesSharesThatGiveNothing) {
  const auto with = [](std::vector<double> weights, std::vector<double> epochs) {
    Sampler(two_of_two(std::move(weights), std::move(epochs)), {}, {});
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {0.0, -1.0, kNan, std::numeric_limits<double>::infinity(), 1e-7, 1e7}) {
    expect_invalid_input(
        [&] {
          with({1, bad}, {});
        },
        {"weights of 'b'", "from 0.000001 to 1000000"});
    expect_invalid_input(
        [&] {
          with({}, {bad, 1});
        },
        {"epochs of 'a'", "from 0.000001 to 1000000"});
  }
  expect_invalid_input([&] { with({1}, {}); }, {"1 weights for 2 sources"});
  expect_invalid_input([&] { with({}, {1, 1, 1}); }, {"3 epochs for 2 sources"});
  expect_invalid_input([&] { with({1, 1}, {1, 1}); }, {"weights and epochs"});
  // 0.2 × 2 sequences round to 0.
  expect_invalid_input(
      [&] {
        with({}, {1, 0.2});
      },
      {"epochs of 'b' are 0.2", "2 sequences", "none"});
  expect_invalid_input([] { Sampler({}, {}, {}); }, {"no dataset"});
  expect_invalid_input(
      [] {
        Sampler({{{"'a'", {Tokens(1)}}, {"'b'", {Tokens(0)}}}}, {}, {});
      },
      {"'b' has 1 documents and none with a token"});
}

TEST(Mixture, RefusesACursorOfOtherSources) {
  const auto at = [](std::vector<SourcePlace> places) {
    Sampler(two_of_two({}, {1, 2}), {}, {.sources = std::move(places)});
  };
  EXPECT_NO_THROW(at({{1, 1}, {3, 0}}));  // in the second epoch of the mixture: 3 of 2, 6 of 4
  expect_invalid_input([&] { at({{0, 0}}); }, {"1 sources", "there are 2"});
  expect_invalid_input([&] { at({{0, 3}, {0, 0}}); }, {"position 3", "'a'"});
  // The second source is in its second epoch, the first not at its first one's end.
  expect_invalid_input([&] { at({{0, 1}, {2, 1}}); }, {"different epochs of the mixture"});
}

TEST(SamplerCursor, OfSeveralSourcesNamesTheWrongField) {
  const auto read = [](const char* text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    (void)sampler_cursor_from_json(JsonFields(json, "run.json: cursor"));
  };
  expect_invalid_input([&] { read(R"({"seed": 0, "sources": 3})"); }, {"\"sources\""});
  expect_invalid_input([&] { read(R"({"seed": 0, "sources": [3]})"); }, {"sources[0]"});
  expect_invalid_input(
      [&] { read(R"({"seed": 0, "sources": [{"epoch": 0, "position": 0}, {"epoch": 0}]})"); },
      {"sources[1]", "\"position\"", "missing"});
}

}  // namespace
}  // namespace slimpack
