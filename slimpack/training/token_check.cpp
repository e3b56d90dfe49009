#include "slimpack/training/token_check.h"

#include <array>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/data/token_range.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStopped = "stopped on request while reading tokens; nothing written";

TokenRange read_all(const IndexedDataset& dataset, const fs::path& prefix,
                    const JobAgreement& agreement, TrainingListener& listener) {
  const std::vector<Tokens> lengths = dataset.lengths();
  const Tokens all = std::accumulate(lengths.begin(), lengths.end(), Tokens(0));
  Tokens checked;
  listener.tokens_checked(prefix, checked, all);
  return token_range(dataset, [&](Tokens more) {
    if (agreement.should_stop()()) throw Interrupted(kStopped);
    checked += more;
    listener.tokens_checked(prefix, checked, all);
  });
}

/// Writes the note to the first place that can be written. If none can, the next start reads all
/// tokens again.
void note(const std::array<fs::path, 2>& places, const std::string& text) {
  for (const fs::path& place : places) {
    try {
      return write_file(place, text);
    } catch (const std::exception&) {
      continue;
    }
  }
}

/// `elsewhere`: a prefix in place of `prefix` if the note cannot be written beside the dataset.
TokenRange known_range(const IndexedDataset& dataset, const fs::path& prefix,
                       const fs::path& elsewhere, const JobAgreement& agreement,
                       TrainingListener& listener) {
  const DatasetVersion version = version_of(dataset, prefix);
  const std::array places{checked_path(prefix), checked_path(elsewhere)};
  for (const fs::path& place : places)
    if (const auto noted = noted_token_range(place, version)) return *noted;
  const TokenRange range = read_all(dataset, prefix, agreement, listener);
  note(places, token_range_to_json(range, version));
  return range;
}

}  // namespace

void check_tokens(const RunConfig& config, const DocumentReader& reader,
                  const JobAgreement& agreement, TrainingListener& listener) {
  const fs::path& prefix = config.data.prefix;
  const fs::path elsewhere = config.output.dir / "data";
  static_cast<void>(agreement.from_first([&]() -> std::string {
    reader.require_in_vocabulary(
        known_range(reader.dataset(), prefix, elsewhere, agreement, listener));
    const Documents& documents = reader.documents();
    if (documents.mask() != nullptr)
      documents.require_mask_bytes(known_range(*documents.mask(), mask_prefix(prefix),
                                               mask_prefix(elsewhere), agreement, listener));
    return "";
  }));
}

}  // namespace slimpack
