#include "slimpack/training/stop_signal.h"

#include <atomic>
#include <csignal>

namespace slimpack {
namespace {

// A signal handler can only reach globals.
std::atomic<int> caught{0};

void request_stop(int signal) {
  caught = signal;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends at once
}

}  // namespace

void catch_stop_signals() {
  std::signal(SIGINT, request_stop);
  std::signal(SIGTERM, request_stop);
}

int stop_signal() {
  return caught;
}

}  // namespace slimpack
