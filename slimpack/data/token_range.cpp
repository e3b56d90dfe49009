#include "slimpack/data/token_range.h"

#include <nlohmann/json.hpp>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/json_text.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kFormat = "slimpack-checked-tokens";
constexpr std::int64_t kRangeVersion = 1;
constexpr Tokens kAdvance(1 << 22);

nlohmann::json to_json(const std::optional<TokenPlace>& place) {
  if (!place) return nullptr;
  return {{"token", place->token}, {"document", place->document}, {"position", place->position}};
}

std::optional<TokenPlace> place_from_json(const JsonFields& fields, const char* key) {
  if (!fields.has(key)) return std::nullopt;
  const JsonFields place = fields.object(key);
  return TokenPlace{place.integer("token"), static_cast<std::size_t>(place.integer("document", 0)),
                    place.integer("position", 0)};
}

}  // namespace

TokenRange token_range(const IndexedDataset& dataset, const std::function<void(Tokens)>& advance) {
  TokenRange range;
  const auto note = [&](std::optional<TokenPlace>& place, std::size_t document,
                        std::int64_t token) {
    place = {token, document, dataset.position_of(document, token)};
  };
  Tokens read;
  for (std::size_t d = 0; d < dataset.documents(); ++d) {
    const std::optional<TokenExtremes> found = dataset.extremes(d);
    if (!found) continue;
    if (!range.smallest || found->smallest < range.smallest->token)
      note(range.smallest, d, found->smallest);
    if (!range.largest || found->largest > range.largest->token)
      note(range.largest, d, found->largest);
    read += dataset.length(d);
    if (read < kAdvance) continue;
    advance(read);
    read = Tokens(0);
  }
  advance(read);
  return range;
}

DatasetVersion version_of(const IndexedDataset& dataset, const fs::path& prefix) {
  std::error_code error;
  const auto modified = fs::last_write_time(bin_path(prefix), error);
  const auto bytes = fs::file_size(bin_path(prefix), error);
  if (error)
    invalid_input("dataset '{}' cannot be read: {}; check the path", bin_path(prefix).string(),
                  error.message());
  return {dataset.index_checksum(), static_cast<std::int64_t>(bytes),
          std::chrono::nanoseconds(modified.time_since_epoch()).count()};
}

fs::path checked_path(const fs::path& prefix) {
  return fs::path(prefix) += ".checked.json";
}

std::string token_range_to_json(const TokenRange& range, const DatasetVersion& version) {
  const nlohmann::ordered_json json{{"format", kFormat},
                                    {"version", kRangeVersion},
                                    {"index_checksum", version.index_checksum},
                                    {"bin_bytes", version.bin_bytes},
                                    {"bin_modified_ns", version.bin_modified_ns},
                                    {"smallest", to_json(range.smallest)},
                                    {"largest", to_json(range.largest)}};
  return json_text(json, 2) + "\n";
}

std::optional<TokenRange> noted_token_range(const fs::path& file, const DatasetVersion& version) {
  constexpr std::uint64_t kMaxBytes = 1 << 16;
  try {
    const nlohmann::json json = parse_json(read_file(file, "note", kMaxBytes), file.string());
    const JsonFields fields(json, file.string());
    fields.require_format(kFormat, kRangeVersion);
    if (DatasetVersion{fields.text("index_checksum"), fields.integer("bin_bytes"),
                       fields.integer("bin_modified_ns")} != version)
      return std::nullopt;
    return TokenRange{place_from_json(fields, "smallest"), place_from_json(fields, "largest")};
  } catch (const InvalidInput&) {
    return std::nullopt;  // whatever is wrong, the tokens are read and noted again
  }
}

}  // namespace slimpack
