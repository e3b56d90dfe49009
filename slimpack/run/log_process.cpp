#include "slimpack/run/log_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <thread>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/base/progress.h"

namespace slimpack {
namespace {

constexpr std::string_view kReady = "ready\n";
constexpr const char* kEnded = "ended\n";
/// The child's number of this process's standard error, which it takes once it is ready.
constexpr int kOwnErrors = 3;

/// Two ends of a connection. Numbers are above kOwnErrors, so that none is overwritten in a child.
std::array<Descriptor, 2> connected() {
  std::array<int, 2> low{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, low.data()) != 0)
    throw RunFailed(fmt::format("cannot connect to a child process: {}", std::strerror(errno)));
  std::array<Descriptor, 2> ends;
  for (std::size_t i = 0; i < 2; ++i) {
    const Descriptor given(low[i]);
    ends[i] = Descriptor(::fcntl(low[i], F_DUPFD_CLOEXEC, kOwnErrors + 1));
  }
  return ends;
}

/// Ignores errors: a child that has ended says why with its exit code.
void send_text(const Descriptor& socket, std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(socket.number(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

/// The attributes of a child in a session of its own: a Ctrl-C at the terminal is not for it.
class ChildAttributes {
 public:
  ChildAttributes() {
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    ::sigfillset(&defaults);
    ::posix_spawnattr_setsigdefault(&attributes_, &defaults);
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~ChildAttributes() { ::posix_spawnattr_destroy(&attributes_); }
  ChildAttributes(const ChildAttributes&) = delete;
  ChildAttributes& operator=(const ChildAttributes&) = delete;

  [[nodiscard]] const ::posix_spawnattr_t* get() const { return &attributes_; }

 private:
  ::posix_spawnattr_t attributes_{};
};

/// Makes the socket the standard streams of a child.
class ChildFiles {
 public:
  explicit ChildFiles(int socket) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, STDERR_FILENO, kOwnErrors);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      ::posix_spawn_file_actions_adddup2(&actions_, socket, stream);
  }
  ~ChildFiles() { ::posix_spawn_file_actions_destroy(&actions_); }
  ChildFiles(const ChildFiles&) = delete;
  ChildFiles& operator=(const ChildFiles&) = delete;

  [[nodiscard]] const ::posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  ::posix_spawn_file_actions_t actions_{};
};

/// The last line that is not empty, without the name of a program before it.
std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  text.remove_prefix(text.rfind('\n') + 1);
  constexpr std::string_view kName = "slimpack: ";
  if (text.starts_with(kName)) text.remove_prefix(kName.size());
  return std::string(text);
}

std::string ended_text(int code) {
  return code < 0 ? fmt::format("signal {}", -code) : fmt::format("exit code {}", code);
}

}  // namespace

LogProcess::LogProcess(const LogOrder& order, Nanos patience) : patience_(patience) {
  start(order);
  await_ready();
}

LogProcess::~LogProcess() {
  static_cast<void>(finish(false));
}

void LogProcess::start(const LogOrder& order) {
  auto [own, childs] = connected();
  std::vector<std::string> words = order.command;
  words.insert(words.end(), {order.folder.string(), "--to",
                             fmt::format("{}", fmt::join(order.names, ",")), "--child"});
  const ChildAttributes attributes;
  const ChildFiles files(childs.number());
  const int error = ::posix_spawnp(&child_, words.front().c_str(), files.get(), attributes.get(),
                                   pointers(words).data(), environ);
  if (error != 0) {
    child_ = -1;
    invalid_input("cannot start '{}', which sends metrics to {}: {}; set output.log to nothing",
                  words.front(), fmt::join(order.names, " and "), std::strerror(error));
  }
  socket_ = std::move(own);
  send_text(socket_, json_text(nlohmann::json{{"settings", order.settings}}) + "\n");
}

void LogProcess::await_ready() {
  const Nanos end = monotonic_now() + patience_;
  std::string said;
  while (!said.ends_with(kReady)) {
    const std::int64_t left = (end - monotonic_now()).count() / 1'000'000;
    if (left <= 0) return;  // it may yet begin
    ::pollfd waiting{socket_.number(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(left)) <= 0) continue;
    std::array<char, 4096> text{};
    const ssize_t size = ::recv(socket_.number(), text.data(), text.size(), 0);
    if (size > 0) {
      said.append(text.data(), static_cast<std::size_t>(size));
      continue;
    }
    if (size < 0 && errno == EINTR) continue;
    const std::optional<int> code = awaited();
    const std::string line = last_line(said);
    invalid_input("{}", !line.empty() ? line
                                      : fmt::format("the process that sends metrics ended with {}; "
                                                    "set output.log to nothing",
                                                    ended_text(code.value_or(0))));
  }
}

std::optional<int> LogProcess::awaited() {
  const Nanos end = monotonic_now() + patience_;
  for (;;) {
    int status = 0;
    const ::pid_t found = ::waitpid(child_, &status, WNOHANG);
    if (found != 0 && !(found < 0 && errno == EINTR)) {
      child_ = -1;
      if (found < 0) return 0;  // somebody else has waited for it
      return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (monotonic_now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ::kill(-child_, SIGKILL);
  ::waitpid(std::exchange(child_, -1), nullptr, 0);
  return std::nullopt;
}

std::string LogProcess::finish(bool well) {
  if (child_ < 0) return "";
  if (well) send_text(socket_, kEnded);
  socket_ = Descriptor();
  if (const std::optional<int> code = awaited()) {
    if (*code == 0) return "";
    return fmt::format("the process that sends metrics ended with {}", ended_text(*code));
  }
  return fmt::format("the process that sends metrics has not sent all within {}",
                     human_duration(patience_));
}

}  // namespace slimpack
