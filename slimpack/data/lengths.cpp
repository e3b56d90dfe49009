#include "slimpack/data/lengths.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"

namespace slimpack {

namespace {

constexpr std::int64_t kLongest = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kNamedLines = 5;
constexpr std::size_t kQuotedBytes = 40;

/// Without blanks and comment, and without the mark that some programs put before UTF-8. Files may
/// be joined, so that any line may begin with it.
std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r\v\f";
  constexpr std::string_view kMark = "\xef\xbb\xbf";
  if (line.starts_with(kMark)) line.remove_prefix(kMark.size());
  line = line.substr(0, line.find('#'));
  const std::size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

/// The length in `text`, or 0 if the text is not a length.
std::int64_t parse_length(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && value >= 1 && value <= kLongest ? value : 0;
}

/// The quoted beginning of a line.
std::string quoted(std::string_view text) {
  std::size_t end = std::min(text.size(), kQuotedBytes);
  while (end < text.size() && end > 0 && (text[end] & 0xc0) == 0x80) --end;  // whole characters
  return fmt::format("'{}{}'", text.substr(0, end), end < text.size() ? "…" : "");
}

double square(Tokens length) {
  const auto l = static_cast<double>(length.count());
  return l * l;
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

/// Bin w holds the lengths of w bits: 0; 1; 2 and 3; 4 to 7; …
std::vector<LengthBin> histogram_of(std::span<const Tokens> sorted) {
  const auto bits = [](Tokens length) {
    return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(length.count())));
  };
  std::vector<LengthBin> bins;
  const int first = bits(sorted.front());
  for (int w = first; w <= bits(sorted.back()); ++w) {
    const std::int64_t end = std::int64_t{1} << w;
    bins.push_back({.low = Tokens(end / 2), .high = Tokens(end - 1)});
  }
  for (const Tokens length : sorted) {
    LengthBin& bin = bins[static_cast<std::size_t>(bits(length) - first)];
    ++bin.count;
    bin.token_share += static_cast<double>(length.count());
    bin.attention_share += square(length);
  }
  return bins;
}

}  // namespace

std::vector<Tokens> parse_lengths(std::string_view text, std::string_view origin) {
  std::vector<Tokens> lengths;
  std::string bad;
  std::size_t bad_lines = 0;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty()) continue;
    if (const std::int64_t length = parse_length(line); length > 0)
      lengths.emplace_back(length);
    else if (++bad_lines <= kNamedLines)
      bad += fmt::format("{}line {}: {}", bad_lines > 1 ? ", " : "", number, quoted(line));
  }
  if (bad_lines > 0)
    invalid_input(
        "length list '{}': {}{}; every line must be one integer from 1 to {}, correct or "
        "remove these",
        origin, bad,
        bad_lines > kNamedLines ? fmt::format(" and {} more", bad_lines - kNamedLines) : "",
        kLongest);
  if (lengths.empty())
    invalid_input("length list '{}' holds no length; write one integer a line", origin);
  return lengths;
}

std::vector<Tokens> read_lengths(const std::filesystem::path& file) {
  return parse_lengths(read_stream(file, "length list"), stream_name(file));
}

LengthStatistics length_statistics(std::span<const Tokens> lengths) {
  LengthStatistics result;
  if (lengths.empty()) return result;
  std::vector<Tokens> sorted(lengths.begin(), lengths.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  double squares = 0;
  for (const Tokens length : sorted) {
    result.tokens += length;
    squares += square(length);
  }
  const auto tokens = static_cast<double>(result.tokens.count());
  // Per mille makes the rank exact: ⌈count · p / 1000⌉, counted from 1.
  const auto percentile = [&](std::size_t per_mille) {
    return sorted[(count * per_mille + 999) / 1000 - 1];
  };
  result.count = static_cast<std::int64_t>(count);
  result.mean = tokens / static_cast<double>(count);
  result.p50 = percentile(500);
  result.p90 = percentile(900);
  result.p95 = percentile(950);
  result.p99 = percentile(990);
  result.p999 = percentile(999);
  result.max = sorted.back();
  for (const Tokens length : std::span(sorted).last((count + 99) / 100)) {
    result.longest_token_share += share(static_cast<double>(length.count()), tokens);
    result.longest_attention_share += share(square(length), squares);
  }
  result.histogram = histogram_of(sorted);
  for (LengthBin& bin : result.histogram) {
    bin.token_share = share(bin.token_share, tokens);
    bin.attention_share = share(bin.attention_share, squares);
  }
  return result;
}

nlohmann::json to_json(const LengthStatistics& statistics) {
  nlohmann::json histogram = nlohmann::json::array();
  for (const LengthBin& bin : statistics.histogram)
    histogram.push_back({{"low", bin.low.count()},
                         {"high", bin.high.count()},
                         {"count", bin.count},
                         {"token_share", bin.token_share},
                         {"attention_share", bin.attention_share}});
  return {{"format", "slimpack-lengths"},
          {"version", 1},
          {"count", statistics.count},
          {"tokens", statistics.tokens.count()},
          {"mean", statistics.mean},
          {"p50", statistics.p50.count()},
          {"p90", statistics.p90.count()},
          {"p95", statistics.p95.count()},
          {"p99", statistics.p99.count()},
          {"p999", statistics.p999.count()},
          {"max", statistics.max.count()},
          {"longest_token_share", statistics.longest_token_share},
          {"longest_attention_share", statistics.longest_attention_share},
          {"histogram", std::move(histogram)}};
}

}  // namespace slimpack
