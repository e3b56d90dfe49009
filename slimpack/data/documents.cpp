#include "slimpack/data/documents.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

/// A link that leads nowhere is there, too, so that opening it says so.
bool is_there(const fs::path& file) {
  std::error_code none;
  return fs::exists(fs::symlink_status(file, none));
}

std::optional<IndexedDataset> open_mask(const fs::path& prefix) {
  const fs::path mask = mask_prefix(prefix);
  if (!is_there(bin_path(mask)) && !is_there(idx_path(mask))) return std::nullopt;
  return IndexedDataset::open(mask);
}

}  // namespace

fs::path mask_prefix(const fs::path& prefix) {
  return fs::path(prefix) += ".mask";
}

Documents::Documents(const fs::path& prefix)
    : prefix_(prefix), dataset_(IndexedDataset::open(prefix)), mask_(open_mask(prefix)) {
  if (mask_) check_mask();
}

Documents Documents::open(const fs::path& prefix) {
  return Documents(prefix);
}

void Documents::check_mask() const {
  const std::string name = idx_path(mask_prefix(prefix_)).string();
  constexpr std::string_view kRemedy = "write the mask again, or remove it";
  if (mask_->dtype() != TokenDtype::kUint8)
    invalid_input("'{}': dtype code {}, a mask has bytes (code 1, uint8); {}", name,
                  static_cast<int>(mask_->dtype()), kRemedy);
  if (mask_->documents() != dataset_.documents())
    invalid_input("'{}': {} documents, a mask has those of its dataset '{}', which are {}; {}",
                  name, mask_->documents(), prefix_.string(), dataset_.documents(), kRemedy);
  for (std::size_t d = 0; d < dataset_.documents(); ++d)
    if (mask_->length(d) != dataset_.length(d))
      invalid_input(
          "'{}': document {} has {} bytes, a mask has one for each token of its dataset '{}', "
          "where the document has {}; {}",
          name, d, mask_->length(d).count(), prefix_.string(), dataset_.length(d).count(), kRemedy);
}

void Documents::require_mask_byte(const TokenPlace& place) const {
  if (place.token != 0 && place.token != 1)
    invalid_input(
        "mask '{}': document {} holds {} at position {}, a byte is 1 for a target and 0 for none; "
        "write the mask again",
        mask_prefix(prefix_).string(), place.document, place.token, place.position);
}

void Documents::require_mask_bytes(const TokenRange& range) const {
  for (const auto& place : {range.smallest, range.largest})
    if (place) require_mask_byte(*place);
}

TargetMask Documents::targets(const DocumentSequence& sequence) const {
  TargetMask targets = all_targets(static_cast<std::size_t>(sequence.length.count()));
  if (!mask_) return targets;
  std::vector<std::int64_t> counted(targets.size());
  mask_->copy_tokens(sequence.document, sequence.begin, counted);
  for (std::size_t i = 0; i < counted.size(); ++i) {
    if (counted[i] > 1)
      require_mask_byte(
          {counted[i], sequence.document, sequence.begin.count() + static_cast<std::int64_t>(i)});
    if (counted[i] == 0) targets[i] = 0;
  }
  return targets;
}

SequenceTokens Documents::read(const DocumentSequence& sequence) const {
  SequenceTokens read{std::vector<std::int64_t>(static_cast<std::size_t>(sequence.length.count())),
                      targets(sequence)};
  dataset_.copy_tokens(sequence.document, sequence.begin, read.tokens);
  return read;
}

TargetStatistics target_statistics(const Documents& documents) {
  TargetStatistics statistics;
  for (std::size_t d = 0; d < documents.dataset().documents(); ++d) {
    const Tokens length = documents.dataset().length(d);
    const std::int64_t behind_others = std::max<std::int64_t>(length.count() - 1, 0);
    const std::int64_t targets = documents.mask() == nullptr
                                     ? behind_others
                                     : count_of(documents.targets({d, Tokens(0), length}));
    statistics.behind_others += behind_others;
    statistics.targets += targets;
    if (targets > 0) continue;
    ++statistics.documents_without;
    if (!statistics.first_without) statistics.first_without = d;
  }
  return statistics;
}

}  // namespace slimpack
