#include "slimpack/training/job_agreement.h"

#include <gtest/gtest.h>

#include <thread>

#include "slimpack/base/error.h"
#include "tests/support/thread_processes.h"

namespace slimpack {
namespace {

using namespace std::chrono_literals;
using testing::in_processes;
using Texts = std::vector<std::string>;

bool never() {
  return false;
}

/// "bad input: …", "failed: …" or "stopped: …" for what `work` throws; else what it returns.
std::string end_of(const std::function<std::string()>& work) {
  try {
    return work();
  } catch (const InvalidInput& e) {
    return std::string("bad input: ") + e.what();
  } catch (const RunFailed& e) {
    return std::string("failed: ") + e.what();
  } catch (const Interrupted& e) {
    return std::string("stopped: ") + e.what();
  }
}

/// The text that from_first returns or throws in each of three processes.
Texts from_first(const std::function<std::string()>& make) {
  return in_processes(3, [&](JobProcess& process, std::int32_t /*rank*/) {
    const JobAgreement agreement(&process, never);
    return end_of([&] { return agreement.from_first(make); });
  });
}

TEST(JobAgreement, TakesWhatTheFirstProcessMakesInAll) {
  std::atomic<int> made = 0;
  const auto make = [&]() -> std::string {
    std::this_thread::sleep_for(500ms);  // longer than a round of waiting
    return "made " + std::to_string(++made);
  };
  EXPECT_EQ(from_first(make), (Texts{"made 1", "made 1", "made 1"}));
}

TEST(JobAgreement, EndsAllProcessesAsTheFirst) {
  EXPECT_EQ(from_first([]() -> std::string { throw InvalidInput("no such file"); }),
            Texts(3, "bad input: no such file"));
  EXPECT_EQ(from_first([]() -> std::string { throw std::runtime_error("disk full"); }),
            Texts(3, "failed: disk full"));
  EXPECT_EQ(from_first([]() -> std::string { throw Interrupted("while reading"); }),
            Texts(3, "stopped: while reading"));
}

TEST(JobAgreement, EndsAllProcessesWhereOneCannotGoOnOrWasAskedToStop) {
  const auto agree = [](const std::function<ProcessMessage(std::int32_t)>& message,
                        std::int32_t asked) {
    return in_processes(3, [&](JobProcess& process, std::int32_t rank) {
      const JobAgreement agreement(&process, [=] { return rank == asked; });
      return end_of([&] {
        const auto content = agreement.agree(
            "step 1", [](auto) { return true; }, [&] { return message(rank); });
        return content.value_or("out of time");
      });
    });
  };
  const auto fine = [](std::int32_t rank) {
    return ProcessMessage{ProcessMessage::Kind::kReady, "", std::to_string(rank)};
  };
  const auto damaged = [&](std::int32_t rank) {
    if (rank == 1) throw InvalidInput("token 257");
    return fine(rank);
  };
  EXPECT_EQ(agree(fine, -1), Texts(3, "0"));
  EXPECT_EQ(agree(fine, 2), Texts(3, "stopped: stopped on request between two steps"));
  EXPECT_EQ(agree(damaged, -1), Texts(3, "bad input: token 257"));
}

TEST(JobAgreement, OfOneProcessIsItsOwnDecision) {
  const JobAgreement alone(nullptr, [] { return true; });
  EXPECT_TRUE(alone.first());
  EXPECT_EQ(alone.from_first([] { return std::string("made"); }), "made");
  EXPECT_NO_THROW(alone.require_no_stop());  // the engine stops by itself
}

}  // namespace
}  // namespace slimpack
