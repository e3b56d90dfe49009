#include "slimpack/data/lengths.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

std::vector<Tokens> tokens(const std::vector<std::int64_t>& counts) {
  std::vector<Tokens> lengths;
  for (const std::int64_t count : counts) lengths.emplace_back(count);
  return lengths;
}

rc::Gen<std::vector<std::int64_t>> non_empty_lengths(std::int64_t low) {
  return rc::gen::nonEmpty(rc::gen::container<std::vector<std::int64_t>>(rc::gen::oneOf(
      rc::gen::inRange<std::int64_t>(low, 20), rc::gen::inRange<std::int64_t>(low, 1'000'000))));
}

TEST(ParseLengths, reads_one_integer_a_line) {
  EXPECT_EQ(parse_lengths("12\n7\n2147483647", "l"), tokens({12, 7, 2'147'483'647}));
}

TEST(ParseLengths, skips_blank_lines_and_comments) {
  EXPECT_EQ(parse_lengths("# lengths\n\n  12\t# the first\r\n   \n\t7\r\n#", "l"), tokens({12, 7}));
}

TEST(ParseLengths, skips_the_mark_of_utf8_before_a_line) {
  EXPECT_EQ(parse_lengths("\xef\xbb\xbf"
                          "12\r\n7\n\xef\xbb\xbf"
                          "5\n\xef\xbb\xbf\n",
                          "l"),
            tokens({12, 7, 5}));
  expect_invalid_input([] { (void)parse_lengths("1\n\xef\xbb\xbfx\n", "l"); }, {"line 2: 'x'"});
}

TEST(ParseLengths, names_every_bad_line_by_its_number) {
  expect_invalid_input([] { (void)parse_lengths("1\n\nx\n2\n-3\n4 5\n0\n", "my.txt"); },
                       {"my.txt", "line 3: 'x'", "line 5: '-3'", "line 6: '4 5'", "line 7: '0'",
                        "one integer from 1 to 2147483647"});
}

TEST(ParseLengths, counts_the_bad_lines_that_it_does_not_name) {
  expect_invalid_input([] { (void)parse_lengths("a\nb\nc\nd\ne\nf\ng\n", "l"); },
                       {"line 5: 'e'", "and 2 more"});
}

TEST(ParseLengths, refuses_every_kind_of_bad_number) {
  for (const char* line :
       {"2147483648", "99999999999999999999", "1.5", "1e3", "+7", "0x10", "1,000"})
    expect_invalid_input([&] { (void)parse_lengths(line, "l"); },
                         {"line 1", std::string("'") + line + "'"});
}

TEST(ParseLengths, quotes_only_the_beginning_of_a_long_line) {
  // 40 bytes end inside the second byte of the 20th é; whole characters are kept: x and 19 é.
  std::string line = "x";
  std::string kept = "x";
  for (int i = 0; i < 30; ++i) line += "é";
  for (int i = 0; i < 19; ++i) kept += "é";
  expect_invalid_input([&] { (void)parse_lengths(line, "l"); }, {"'" + kept + "…'"});
}

TEST(ParseLengths, shows_no_control_characters) {
  expect_invalid_input([] { (void)parse_lengths("a\x1b[2Jb", "l"); }, {"'a?[2Jb'"});
}

TEST(ParseLengths, refuses_a_list_without_a_length) {
  expect_invalid_input([] { (void)parse_lengths("", "empty.txt"); }, {"empty.txt", "no length"});
  expect_invalid_input([] { (void)parse_lengths("# nothing\n", "l"); }, {"no length"});
}

TEST(ReadLengths, names_a_missing_file) {
  const TempFolder folder;
  expect_invalid_input([&] { (void)read_lengths(folder / "nope.txt"); },
                       {"length list", "nope.txt", "does not exist"});
  put_file(folder / "l.txt", "3\n4\n");
  EXPECT_EQ(read_lengths(folder / "l.txt"), tokens({3, 4}));
}

RC_GTEST_PROP(ParseLengths, reads_back_any_list, ()) {
  const auto counts = *non_empty_lengths(1);
  std::string text;
  for (const std::int64_t count : counts) text += std::to_string(count) + "\n";
  RC_ASSERT(parse_lengths(text, "l") == tokens(counts));
}

RC_GTEST_PROP(ParseLengths, never_fails_in_another_way, (const std::string& text)) {
  try {
    for (const Tokens length : parse_lengths(text, "fuzz")) RC_ASSERT(length >= Tokens(1));
  } catch (const InvalidInput&) {
    RC_SUCCEED("refused");
  }
}

TEST(LengthStatistics, of_a_small_list_are_those_on_paper) {
  // Sorted 1 2 3 10: 16 tokens, mean 4, squares 1 + 4 + 9 + 100 = 114. Ranks: p50 is the 2nd.
  const LengthStatistics s = length_statistics(tokens({10, 1, 3, 2}));
  EXPECT_EQ(s.count, 4);
  EXPECT_EQ(s.tokens, Tokens(16));
  EXPECT_EQ(s.mean, 4.0);
  EXPECT_EQ(s.p50, Tokens(2));
  EXPECT_EQ(s.p90, Tokens(10));
  EXPECT_EQ(s.max, Tokens(10));
  // 1% of 4 documents, rounded up, is the longest one.
  EXPECT_DOUBLE_EQ(s.longest_token_share, 10.0 / 16);
  EXPECT_DOUBLE_EQ(s.longest_attention_share, 100.0 / 114);
  ASSERT_EQ(s.histogram.size(), 4u);
  EXPECT_EQ(s.histogram[0], (LengthBin{Tokens(1), Tokens(1), 1, 1.0 / 16, 1.0 / 114}));
  EXPECT_EQ(s.histogram[1], (LengthBin{Tokens(2), Tokens(3), 2, 5.0 / 16, 13.0 / 114}));
  EXPECT_EQ(s.histogram[2], (LengthBin{Tokens(4), Tokens(7), 0, 0, 0}));
  EXPECT_EQ(s.histogram[3], (LengthBin{Tokens(8), Tokens(15), 1, 10.0 / 16, 100.0 / 114}));
}

TEST(LengthStatistics, of_one_to_a_thousand_have_exact_percentiles) {
  std::vector<Tokens> lengths;
  for (std::int64_t l = 1000; l >= 1; --l) lengths.emplace_back(l);
  const LengthStatistics s = length_statistics(lengths);
  EXPECT_EQ(s.p50, Tokens(500));
  EXPECT_EQ(s.p90, Tokens(900));
  EXPECT_EQ(s.p95, Tokens(950));
  EXPECT_EQ(s.p99, Tokens(990));
  EXPECT_EQ(s.p999, Tokens(999));
  EXPECT_EQ(s.max, Tokens(1000));
}

TEST(LengthStatistics, of_an_empty_list_are_zero) {
  const LengthStatistics s = length_statistics({});
  EXPECT_EQ(s.count, 0);
  EXPECT_EQ(s.tokens, Tokens(0));
  EXPECT_EQ(s.max, Tokens(0));
  EXPECT_TRUE(s.histogram.empty());
}

TEST(LengthStatistics, of_empty_documents_have_shares_of_zero) {
  const LengthStatistics s = length_statistics(tokens({0, 0}));
  EXPECT_EQ(s.longest_token_share, 0);
  EXPECT_EQ(s.histogram, (std::vector{LengthBin{Tokens(0), Tokens(0), 2, 0, 0}}));
}

/// The definition, read literally: the smallest length that at least per_mille/1000 of the
/// documents do not exceed.
std::int64_t naive_percentile(const std::vector<std::int64_t>& counts, std::int64_t per_mille) {
  std::int64_t best = INT64_MAX;
  for (const std::int64_t candidate : counts) {
    const auto within = std::count_if(counts.begin(), counts.end(),
                                      [&](std::int64_t count) { return count <= candidate; });
    if (within * 1000 >= per_mille * static_cast<std::int64_t>(counts.size()))
      best = std::min(best, candidate);
  }
  return best;
}

RC_GTEST_PROP(LengthStatistics, percentiles_agree_with_their_definition, ()) {
  const auto counts = *non_empty_lengths(0);
  const LengthStatistics s = length_statistics(tokens(counts));
  RC_ASSERT(s.p50.count() == naive_percentile(counts, 500));
  RC_ASSERT(s.p90.count() == naive_percentile(counts, 900));
  RC_ASSERT(s.p95.count() == naive_percentile(counts, 950));
  RC_ASSERT(s.p99.count() == naive_percentile(counts, 990));
  RC_ASSERT(s.p999.count() == naive_percentile(counts, 999));
  RC_ASSERT(s.max.count() == naive_percentile(counts, 1000));
}

RC_GTEST_PROP(LengthStatistics, bins_hold_every_document_in_its_range, ()) {
  const auto counts = *non_empty_lengths(0);
  const LengthStatistics s = length_statistics(tokens(counts));
  std::int64_t documents = 0;
  double token_share = 0;
  double attention_share = 0;
  for (const LengthBin& bin : s.histogram) {
    RC_ASSERT(bin.count == std::count_if(counts.begin(), counts.end(), [&](std::int64_t count) {
                return bin.low.count() <= count && count <= bin.high.count();
              }));
    documents += bin.count;
    token_share += bin.token_share;
    attention_share += bin.attention_share;
  }
  RC_ASSERT(documents == s.count);
  const double whole = s.tokens > Tokens(0) ? 1.0 : 0.0;
  RC_ASSERT(std::abs(token_share - whole) < 1e-9);
  RC_ASSERT(std::abs(attention_share - whole) < 1e-9);
}

TEST(LengthStatistics, are_written_as_json) {
  const nlohmann::json json = to_json(length_statistics(tokens({3, 1})));
  EXPECT_EQ(json.at("format"), "slimpack-lengths");
  EXPECT_EQ(json.at("version"), 1);
  EXPECT_EQ(json.at("count"), 2);
  EXPECT_EQ(json.at("tokens"), 4);
  EXPECT_EQ(json.at("p50"), 1);
  EXPECT_EQ(json.at("max"), 3);
  ASSERT_EQ(json.at("histogram").size(), 2u);
  EXPECT_EQ(json.at("histogram")[1].at("low"), 2);
  EXPECT_EQ(json.at("histogram")[1].at("high"), 3);
  EXPECT_EQ(json.at("histogram")[1].at("token_share"), 0.75);
  EXPECT_EQ(json.at("histogram")[1].at("attention_share"), 0.9);  // 9 of 1 + 9
}

}  // namespace
}  // namespace slimpack
