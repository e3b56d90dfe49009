#include "slimpack/base/output_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "slimpack/base/destination.h"
#include "slimpack/base/error.h"

namespace slimpack {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLockFile = "slimpack.lock";

std::string elsewhere(const std::string& setting) {
  return fmt::format("set {} to another folder", setting);
}

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {"an unknown machine"};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  std::array<char, 32> since{};  // fmt/chrono.h would compile for seconds
  std::strftime(since.data(), since.size(), "%Y-%m-%d %H:%M:%S", ::gmtime_r(&now, &utc));
  return fmt::format("process {} on {} since {} UTC", ::getpid(), host.data(), since.data());
}

}  // namespace

OutputLock::CreatedFolders::CreatedFolders(const fs::path& folder, const std::string& remedy) {
  std::error_code error;
  fs::path at = fs::absolute(folder);
  if (!at.has_filename()) at = at.parent_path();  // without the slash at its end
  for (; !fs::exists(at, error) && at.has_relative_path(); at = at.parent_path())
    created_.push_back(at);
  fs::create_directories(folder, error);
  if (error) output_failed("create", folder, error.value(), remedy);
}

OutputLock::CreatedFolders::~CreatedFolders() {
  for (const fs::path& folder : created_)
    if (::rmdir(folder.c_str()) != 0) return;  // not empty
}

OutputLock::OutputLock(const fs::path& folder, std::string setting,
                       const std::function<void(const std::string&)>& warn)
    : folder_(folder), path_(folder / kLockFile), setting_(std::move(setting)) {
  while (!take(warn)) {
  }
}

OutputLock::~OutputLock() {
  if (file_) ::unlink(path_.c_str());
}

bool OutputLock::take(const std::function<void(const std::string&)>& warn) {
  folders_.emplace(folder_, elsewhere(setting_));
  constexpr int kFlags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  file_ = Descriptor(::open(path_.c_str(), kFlags, 0644));
  if (!file_ && errno == ENOENT) return false;
  if (!file_) output_failed("create", path_, errno, elsewhere(setting_));
  if (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) refuse();
    if (errno == EINTR) return false;
    warn(fmt::format("warning: '{}' cannot be locked: {}; take care that no other run uses {}",
                     path_.string(), std::strerror(errno), setting_));
  }
  // The run that held the lock removes the file at its end. If that happened just now, our lock is
  // on a file without a name and keeps nobody out.
  struct stat ours {};
  struct stat named {};
  if (::fstat(file_.number(), &ours) != 0 || ::lstat(path_.c_str(), &named) != 0 ||
      ours.st_dev != named.st_dev || ours.st_ino != named.st_ino)
    return false;
  write_holder();
  return true;
}

void OutputLock::refuse() const {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file_.number(), text.data(), text.size(), 0);
  const std::string_view holder(text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  invalid_input(
      "{} '{}' is in use by {}; wait until that run has ended, or {}", setting_, folder_.string(),
      holder.empty() ? "another run" : holder.substr(0, holder.find('\n')), elsewhere(setting_));
}

void OutputLock::write_holder() const {
  const std::string text = this_process() + "\n";
  if (::ftruncate(file_.number(), 0) == 0 && write_all(file_, std::as_bytes(std::span(text))))
    return;
  const int cause = errno;
  ::unlink(path_.c_str());
  output_failed("write", path_, cause, elsewhere(setting_));
}

void require_writable_folder(const fs::path& folder, const std::string& setting) {
  std::error_code error;
  fs::path existing = fs::absolute(folder);
  while (!fs::exists(existing, error) && existing.has_relative_path())
    existing = existing.parent_path();
  const char* const cause = !fs::is_directory(existing, error)             ? "is not a folder"
                            : ::access(existing.c_str(), W_OK | X_OK) != 0 ? "cannot be written"
                                                                           : nullptr;
  if (cause != nullptr)
    invalid_input("cannot write into '{}': '{}' {}; {}", folder.string(), existing.string(), cause,
                  elsewhere(setting));
}

}  // namespace slimpack
