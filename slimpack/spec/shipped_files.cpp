#include "slimpack/spec/shipped_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "slimpack/base/error.h"
#include "slimpack/base/nearest.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

/// The program, or the Python module, that this code is in.
fs::path own_file() {
  Dl_info info{};
  std::error_code none;
  const bool found = ::dladdr(reinterpret_cast<const void*>(&own_file), &info) != 0;
  const fs::path library = found && info.dli_fname != nullptr ? info.dli_fname : "";
  return library.extension() == ".so" ? fs::canonical(library, none)
                                      : fs::read_symlink("/proc/self/exe", none);
}

/// From the folder of the program or module: of the Python module itself, of a program in the
/// installed package's bin, of a program in a build folder with the Python package, and without it.
constexpr std::array<std::string_view, 4> kPlaces{".", "..", "python/slimpack", "../.."};

fs::path folder_of(const Shipped& kind) {
  const fs::path own = own_file().parent_path();
  std::error_code none;
  for (const std::string_view place : kPlaces) {
    const fs::path folder = own / place / kind.folder;
    if (!fs::is_directory(folder, none)) continue;
    for (const fs::directory_entry& file : fs::directory_iterator(folder, none))
      if (file.path().extension() == kind.ending) return folder;
  }
  return {};
}

bool is_name(std::string_view given, const Shipped& kind) {
  return !given.empty() && given.find('/') == std::string_view::npos &&
         !given.ends_with(kind.ending);
}

}  // namespace

std::vector<std::string> shipped_names(const Shipped& kind) {
  std::vector<std::string> names;
  const fs::path folder = folder_of(kind);
  std::error_code none;
  if (folder.empty()) return names;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, none))
    if (file.path().extension() == kind.ending) names.push_back(file.path().stem().string());
  std::ranges::sort(names);
  return names;
}

fs::path shipped_or(const fs::path& path, std::string_view given, const Shipped& kind) {
  std::error_code none;
  if (fs::exists(path, none))
    return kind.ending == ".json" && fs::is_directory(path, none) ? path / "config.json" : path;
  if (!is_name(given, kind)) return path;
  const std::vector<std::string> names = shipped_names(kind);
  if (std::ranges::find(names, given) != names.end())
    return (folder_of(kind) / (std::string(given) + std::string(kind.ending))).lexically_normal();
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (!nearest(given, known).empty())
    invalid_input("{} \"{}\" is no file and no name of one that comes with slimpack; {}", kind.what,
                  given, suggestion(given, known));
  return path;
}

}  // namespace slimpack
