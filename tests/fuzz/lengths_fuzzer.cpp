// Length lists.
#include <nlohmann/json.hpp>

#include "slimpack/data/lengths.h"
#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto lengths =
      fuzz::accepted([&] { return parse_lengths(fuzz::text_of(data, size), "lengths.txt"); });
  if (!lengths) return 0;
  std::string written;
  std::int64_t tokens = 0;
  for (const Tokens length : *lengths) {
    written += fmt::format("{}\n", length.count());
    tokens += length.count();
  }
  fuzz::require(parse_lengths(written, "written") == *lengths, "lengths read as they are written");
  const LengthStatistics statistics = length_statistics(*lengths);
  fuzz::require(statistics.tokens.count() == tokens && statistics.max.count() <= tokens,
                "statistics count every token");
  (void)to_json(statistics).dump();
  return 0;
}
