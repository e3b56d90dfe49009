#include "slimpack/base/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>

#include "slimpack/base/error.h"

namespace slimpack {
namespace {

std::string unwritten_output(int cause) {
  return fmt::format("cannot write to standard output: {}; redirect it elsewhere",
                     std::strerror(cause));
}

}  // namespace

void open_standard_streams() {
  // stdin opens for writing and stdout for reading, so that using them fails. open() takes the
  // lowest free number, so in ascending order each stream gets its own.
  constexpr std::array<int, 3> kModes{O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0)
      static_cast<void>(::open("/dev/null", kModes[static_cast<std::size_t>(stream)]));
}

void flush_standard_output() {
  errno = EIO;  // for a write that failed earlier: its cause is no longer known
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
    run_failed("{}", unwritten_output(errno));
}

std::string message_of(const std::exception& failure) {
  const auto* const error = dynamic_cast<const std::system_error*>(&failure);
  const bool printing = error != nullptr && std::ferror(stdout) != 0;
  return printing ? unwritten_output(error->code().value()) : failure.what();
}

int exit_code(const std::exception& cause) {
  if (dynamic_cast<const InvalidInput*>(&cause) != nullptr) return 2;
  return dynamic_cast<const Interrupted*>(&cause) != nullptr ? 130 : 1;
}

void say(const std::string& text) {
  std::fputs(("slimpack: " + text + "\n").c_str(), stderr);
}

}  // namespace slimpack
