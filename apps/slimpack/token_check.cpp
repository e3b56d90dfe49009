#include "apps/slimpack/token_check.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/progress.h"
#include "slimpack/data/token_range.h"
#include "slimpack/packflow/ranks/gather_when_ready.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStopped = "stopped on request while reading tokens; nothing written";
constexpr Nanos kWorthTelling(1'000'000'000);

TokenRange read_all(const IndexedDataset& dataset, const fs::path& prefix,
                    const std::function<bool()>& should_stop) {
  std::int64_t tokens = 0;
  for (const Tokens length : dataset.lengths()) tokens += length.count();
  Progress progress(stderr, progress_style(stderr),
                    fmt::format("checking tokens of {}", prefix.string()), tokens);
  const Nanos start = monotonic_now();
  const TokenRange range = token_range(dataset, [&](Tokens more) {
    if (should_stop()) throw Interrupted(kStopped);
    progress.advance(more.count());
  });
  if (monotonic_now() - start >= kWorthTelling) progress.finish();
  return range;
}

/// In the first place that can be written. Where none can, the next start reads again.
void note(const std::array<fs::path, 2>& places, const std::string& text) {
  for (const fs::path& place : places) {
    try {
      return write_file(place, text);
    } catch (const std::exception&) {
      continue;
    }
  }
}

TokenRange known_range(const RunConfig& config, const IndexedDataset& dataset,
                       const std::function<bool()>& should_stop) {
  const fs::path& prefix = config.data.prefix;
  const DatasetVersion version = version_of(dataset, prefix);
  const std::array places{checked_path(prefix), checked_path(config.output.dir / "data")};
  for (const fs::path& place : places)
    if (const auto noted = noted_token_range(place, version)) return *noted;
  const TokenRange range = read_all(dataset, prefix, should_stop);
  note(places, token_range_to_json(range, version));
  return range;
}

}  // namespace

void check_tokens(const RunConfig& config, const DocumentReader& reader, JobProcess* process,
                  const std::function<bool()>& should_stop) {
  const auto check = [&] {
    reader.require_in_vocabulary(known_range(config, reader.dataset(), should_stop));
  };
  if (process == nullptr) return check();
  // What the first finds, all say: else the others would only know that it has gone.
  const bool first = process->ranks().front() == 0;
  const std::shared_future<std::string> own = std::async(std::launch::async, [&]() -> std::string {
    try {
      if (first) check();
      return "";
    } catch (const std::runtime_error& e) {  // InvalidInput or Interrupted
      return e.what();
    }
  });
  const std::string found = gather_when_ready(*process, own).front();
  if (found == kStopped) throw Interrupted(kStopped);
  if (!found.empty()) invalid_input("{}", found);
}

}  // namespace slimpack
