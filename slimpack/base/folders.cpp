#include "slimpack/base/folders.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string_view>

#include "slimpack/base/destination.h"

namespace slimpack {

namespace fs = std::filesystem;

// readdir: std::filesystem's directory iterators clash with symbols that libtorch exports.
std::vector<std::string> folder_entries(const fs::path& folder) {
  std::vector<std::string> names;
  const auto close = [](DIR* d) { ::closedir(d); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  if (!open) return names;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void remove_folder(const fs::path& folder) {
  for (const std::string& name : folder_entries(folder)) {
    const fs::path path = folder / name;
    if (::unlink(path.c_str()) != 0 && (errno == EISDIR || errno == EPERM)) remove_folder(path);
  }
  ::rmdir(folder.c_str());
}

void flush_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool flushed = descriptor >= 0 && ::fsync(descriptor) == 0;
  const int cause = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!flushed) output_failed("flush folder", folder, cause);
}

void rename_path(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    output_failed(fmt::format("rename '{}' to", from.string()), to, errno);
}

namespace {

constexpr std::string_view kStepPrefix = "step-";
constexpr std::string_view kPartialPrefix = ".partial-";
constexpr std::string_view kAsidePrefix = "diverged-";

/// Removes a folder; as soon as this has begun it is no checkpoint any more.
void discard(const fs::path& folder, const std::string& name) {
  const fs::path aside = folder / fmt::format("{}removed-{}", kPartialPrefix, name);
  remove_folder(aside);
  rename_path(folder / name, aside);
  remove_folder(aside);
}

}  // namespace

std::string checkpoint_name(std::int64_t steps) {
  return fmt::format("{}{:08}", kStepPrefix, steps);
}

std::optional<std::int64_t> checkpoint_steps(std::string_view name) {
  std::int64_t steps = 0;
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kStepPrefix.size());
  std::from_chars(digits.begin(), digits.end(), steps);
  return steps >= 0 && checkpoint_name(steps) == name ? std::optional(steps) : std::nullopt;
}

std::vector<std::int64_t> checkpoints_in(const fs::path& folder) {
  std::vector<std::int64_t> all;
  for (const std::string& name : folder_entries(folder))
    if (const auto steps = checkpoint_steps(name)) all.push_back(*steps);
  std::ranges::sort(all);
  return all;
}

fs::path partial_folder(const fs::path& folder, std::int64_t steps) {
  return folder / (std::string(kPartialPrefix) + checkpoint_name(steps));
}

void publish_checkpoint(const fs::path& folder, std::int64_t steps) {
  const fs::path partial = partial_folder(folder, steps),
                 complete = folder / checkpoint_name(steps);
  flush_folder(partial);
  if (fs::exists(complete)) discard(folder, checkpoint_name(steps));
  rename_path(partial, complete);
  flush_folder(folder);
}

void prune_checkpoints(const fs::path& folder, std::int64_t steps, std::int32_t keep) {
  const std::vector<std::int64_t> all = checkpoints_in(folder);
  const auto later = std::ranges::upper_bound(all, steps);
  const auto kept = later - std::min<std::ptrdiff_t>(keep, later - all.begin());
  for (auto it = all.begin(); it != all.end(); ++it)
    if (it < kept || it >= later) discard(folder, checkpoint_name(*it));
}

std::optional<fs::path> set_aside_checkpoint(const fs::path& folder, std::int64_t steps) {
  const std::string name = checkpoint_name(steps);
  if (!fs::exists(folder / name)) return std::nullopt;
  for (const std::string& entry : folder_entries(folder))
    if (entry.starts_with(kAsidePrefix)) remove_folder(folder / entry);
  fs::path aside = folder / (std::string(kAsidePrefix) + name);
  rename_path(folder / name, aside);
  flush_folder(folder);
  return aside;
}

void remove_partial_checkpoints(const fs::path& folder) {
  for (const std::string& name : folder_entries(folder))
    if (name.starts_with(kPartialPrefix)) remove_folder(folder / name);
}

}  // namespace slimpack
