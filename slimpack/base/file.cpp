#include "slimpack/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "slimpack/base/destination.h"
#include "slimpack/base/error.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

constexpr mode_t kMode = 0644;  // less the bits of the process's umask
constexpr std::string_view kTemporary = ".tmp";
constexpr const char* kStandardInput = "-";

[[noreturn]] void read_failed(std::string_view what, const std::string& name, int cause) {
  if (cause == ENOENT) invalid_input("{} '{}' does not exist; check the path", what, name);
  invalid_input("{} '{}' cannot be read: {}; check the path", what, name, std::strerror(cause));
}

std::string read_to_end(const Descriptor& in, std::string_view what, const std::string& name,
                        std::uint64_t max_bytes) {
  if (!in) read_failed(what, name, errno);
  std::string text;
  std::array<char, 1 << 16> part{};
  for (;;) {
    const ssize_t got = ::read(in.number(), part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) read_failed(what, name, errno);
    if (got == 0) return text;
    if (text.size() + static_cast<std::size_t>(got) > max_bytes)
      invalid_input("{} '{}' has more than {} bytes, at most so many are read", what, name,
                    max_bytes);
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

/// The file's link in /proc. linkat() gives an unnamed file its name through this link.
std::string descriptor_path(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.number());
}

void write_stream(const fs::path& path, const Destination& to, std::string_view text) {
  Descriptor opened;
  if (!to.open) {
    opened = Descriptor(::open(to.path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY));
    if (!opened) output_failed("write", path, errno);
  }
  if (!write_all(to.open ? to.open : opened, std::as_bytes(std::span(text))))
    output_failed("write", path, errno);
}

}  // namespace

std::string read_file(const fs::path& path, std::string_view what, std::uint64_t max_bytes) {
  std::error_code error;
  if (!fs::exists(path, error)) read_failed(what, path.string(), ENOENT);
  if (!fs::is_regular_file(path, error))
    invalid_input("{} '{}' is not a regular file; give the path of one", what, path.string());
  const std::uint64_t size = fs::file_size(path, error);
  if (error || size > max_bytes)
    invalid_input("{} '{}' has {} bytes, at most {} are read", what, path.string(), size,
                  max_bytes);
  return read_to_end(Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), what, path.string(),
                     max_bytes);
}

std::string read_stream(const fs::path& path, std::string_view what, std::uint64_t max_bytes) {
  const Descriptor in(path == kStandardInput ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return read_to_end(in, what, stream_name(path), max_bytes);
}

std::string stream_name(const fs::path& path) {
  return path == kStandardInput ? "standard input" : path.string();
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  const Destination to = find_destination(path_);
  if (to.kind != DestinationKind::kFile)
    invalid_input("cannot write '{}': it is not a regular file; give another path", path_.string());
  target_ = to.path;
  temporary_ = target_;
  temporary_ += fmt::format("{}{}", kTemporary, ::getpid());
  std::error_code error;
  if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
  if (error) output_failed("create", path_, error.value());
  create();
  struct stat before {};
  // May fail: some file systems keep no permissions.
  if (::stat(target_.c_str(), &before) == 0) ::fchmod(file_.number(), before.st_mode & 0777);
}

void AtomicFile::create() {
  const fs::path folder = target_.has_parent_path() ? target_.parent_path() : ".";
  constexpr int kFlags = O_WRONLY | O_CLOEXEC;
  file_ = Descriptor(::open(folder.c_str(), kFlags | O_TMPFILE, kMode));
  if (file_ && fs::exists(descriptor_path(file_))) return;
  file_ = Descriptor(::open(temporary_.c_str(), kFlags | O_CREAT | O_TRUNC, kMode));
  if (!file_) output_failed("create", path_, errno);
  named_ = true;
}

AtomicFile::~AtomicFile() {
  if (named_) ::unlink(temporary_.c_str());
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  if (!write_all(file_, bytes)) output_failed("write", path_, errno);
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::commit() {
  if (::fsync(file_.number()) != 0) output_failed("flush", path_, errno);
  if (!named_) {
    ::unlink(temporary_.c_str());  // left by a killed process with the same number
    if (::linkat(AT_FDCWD, descriptor_path(file_).c_str(), AT_FDCWD, temporary_.c_str(),
                 AT_SYMLINK_FOLLOW) != 0)
      output_failed("create", path_, errno);
    named_ = true;
  }
  named_ = false;
  if (::rename(temporary_.c_str(), target_.c_str()) == 0) return;
  const int cause = errno;
  ::unlink(temporary_.c_str());
  output_failed("rename", path_, cause);
}

bool is_left_behind(const fs::path& path, const fs::path& target) {
  const std::string name = path.filename().string();
  const std::string start = target.filename().string() + std::string(kTemporary);
  std::error_code none;
  return name.size() > start.size() && name.starts_with(start) &&
         std::all_of(name.begin() + static_cast<std::ptrdiff_t>(start.size()), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; }) &&
         fs::equivalent(fs::absolute(path).parent_path(), fs::absolute(target).parent_path(), none);
}

void require_writable_file(const fs::path& path) {
  if (find_destination(path).kind == DestinationKind::kFile) static_cast<void>(AtomicFile(path));
}

void write_file(const fs::path& path, std::string_view text) {
  if (const Destination to = find_destination(path); to.kind == DestinationKind::kStream)
    return write_stream(path, to, text);
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view what,
                       std::string_view remedy) {
  const auto fail = [&](std::string_view cause) {
    invalid_input("{} '{}' cannot be read: {}; {}", what, path.string(), cause, remedy);
  };
  // O_NONBLOCK: opening a pipe must not wait for its writer. The check below refuses pipes.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail(std::strerror(errno));
  struct stat status {};
  void* address = nullptr;
  std::string_view cause;
  if (::fstat(descriptor, &status) != 0) {
    cause = std::strerror(errno);
  } else if (!S_ISREG(status.st_mode)) {
    cause = "not a regular file";
  } else if (status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_SHARED,
                     descriptor, 0);
    if (address == MAP_FAILED) cause = std::strerror(errno);
  }
  ::close(descriptor);
  if (!cause.empty()) fail(cause);
  bytes_ = {static_cast<const std::byte*>(address), static_cast<std::size_t>(status.st_size)};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  // munmap takes a pointer to non-const, but writes nothing.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace slimpack
