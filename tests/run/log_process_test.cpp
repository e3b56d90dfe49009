#include "slimpack/run/log_process.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temp_folder.h"

namespace slimpack {
namespace {

/// A child that is a shell's script. Its arguments are those of python/slimpack/log.py: $1 is the
/// folder.
LogOrder order_of(const TempFolder& folder, const std::string& script) {
  return {.command = {"/bin/sh", "-c", script, "sh"},
          .names = {"wandb", "tensorboard"},
          .folder = folder.path(),
          .settings = "[train]\nsteps = 3\n"};
}

std::string text_in(const TempFolder& folder, const char* name) {
  return read_file(folder.path() / name, "what the child wrote");
}

constexpr Nanos kMoment(200'000'000);

TEST(LogProcess, IsToldFolderLogsSettingsAndTheEndOfTheRun) {
  const TempFolder folder;
  LogProcess log(
      order_of(folder,
               "read -r line; printf '%s\\n' \"$2 $3 $4: $line\" > \"$1/told\"; echo ready;"
               "read -r line; echo \"$line\" >> \"$1/told\""));
  EXPECT_EQ(log.finish(), "");
  EXPECT_EQ(text_in(folder, "told"),
            "--to wandb,tensorboard --child: {\"settings\":\"[train]\\nsteps = 3\\n\"}\nended\n");
}

TEST(LogProcess, SeesNoEndOfARunThatFails) {
  const TempFolder folder;
  { const LogProcess log(order_of(folder, "echo ready; cat > \"$1/told\"")); }
  EXPECT_EQ(text_in(folder, "told"), "{\"settings\":\"[train]\\nsteps = 3\\n\"}\n");
}

TEST(LogProcess, RefusesWithTheLastLineOfAChildThatIsNeverReady) {
  const TempFolder folder;
  expect_invalid_input(
      [&] {
        const LogProcess log(
            order_of(folder, "echo noise; echo 'slimpack: no library; install it' >&2; exit 2"));
      },
      {"no library; install it"});
  expect_invalid_input([&] { const LogProcess log(order_of(folder, "kill -9 $$")); },
                       {"ended with signal 9", "output.log"});
  LogOrder missing = order_of(folder, "");
  missing.command = {"/no/such/program"};
  expect_invalid_input([&] { const LogProcess log(missing); },
                       {"/no/such/program", "wandb and tensorboard", "No such file"});
}

TEST(LogProcess, TellsOfAChildThatDied) {
  const TempFolder folder;
  LogProcess log(order_of(folder, "echo ready; exit 3"));
  EXPECT_EQ(log.finish(), "the process that sends metrics ended with exit code 3");
  EXPECT_EQ(log.finish(), "");
}

TEST(LogProcess, GoesOnWithoutAChildThatHangs) {
  const TempFolder folder;
  LogProcess late(order_of(folder, "sleep 600"), kMoment);  // never ready
  EXPECT_EQ(late.finish(), "the process that sends metrics has not sent all within 200 ms");
}

TEST(LogProcess, LeavesNoChildBehind) {
  const TempFolder folder;
  {
    const LogProcess log(
        order_of(folder, "trap '' TERM INT; echo $$ > \"$1/child\"; echo ready; sleep 600"),
        kMoment);
  }
  EXPECT_NE(::kill(std::stoi(text_in(folder, "child")), 0), 0);
}

}  // namespace
}  // namespace slimpack
