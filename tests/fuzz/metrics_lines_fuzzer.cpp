// Fuzzes the reader of lines that an earlier run has left in metrics.jsonl.
#include "slimpack/run/metrics_file.h"

#include <sstream>
#include <string>

#include "tests/fuzz/fuzz_input.h"

using namespace slimpack;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  std::uint64_t kept = 0;
  for (const std::int64_t step : {0, 2, 1'000'000'000})
    for (const bool evaluation : {false, true}) {
      std::istringstream lines(text);
      const std::uint64_t bytes = bytes_of_lines_before({step, evaluation}, lines);
      fuzz::require(bytes <= text.size() && (bytes == 0 || text[bytes - 1] == '\n'),
                    "whole lines are kept");
      fuzz::require(bytes >= kept, "a later line keeps no less");
      kept = bytes;
    }
  return 0;
}
