// A folder for one test's files, gone with the test.
#pragma once

#include <ftw.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace slimpack {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "slimpack_test_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot create " + name);
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  // nftw: std::filesystem's directory iterators clash with symbols that libtorch exports.
  ~TempFolder() {
    const auto remove = [](const char* path, const struct stat*, int, struct FTW*) {
      return std::remove(path);
    };
    ::nftw(path_.c_str(), remove, 16, FTW_DEPTH | FTW_PHYS);
  }

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const {
    return path_ / name;
  }

  /// Files and folders below this one, this one not counted.
  [[nodiscard]] int entries() const {
    Counter::count() = -1;
    ::nftw(path_.c_str(), Counter::visit, 16, FTW_PHYS);
    return Counter::count();
  }

 private:
  /// nftw passes no context to its callback.
  struct Counter {
    static int& count() {
      thread_local int value = 0;
      return value;
    }
    static int visit(const char*, const struct stat*, int, struct FTW*) {
      ++count();
      return 0;
    }
  };

  std::filesystem::path path_;
};

/// Plain reads and writes, independent of slimpack/base/file.h.
inline void put_file(const std::filesystem::path& path, std::string_view bytes) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

inline std::string get_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace slimpack
