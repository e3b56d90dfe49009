#include "slimpack/training/process_message.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

#include "slimpack/base/error.h"
#include "tests/support/expect_error.h"

namespace slimpack {
namespace {

using Kind = ProcessMessage::Kind;
using Messages = std::vector<ProcessMessage>;

const ProcessMessage kGoesOn{Kind::kReady, "a1", ""};
const ProcessMessage kHandsOver{Kind::kReady, "a1", "the plan"};
const ProcessMessage kStopped{Kind::kStopped, "", "stopped on request"};
const ProcessMessage kOutOfTime{Kind::kOutOfTime};

ProcessMessage failed(const std::exception& failure) {
  return {Kind::kFailed, "", failure_text(failure)};
}

RC_GTEST_PROP(ProcessMessages, ReadAsTheyAreWritten, (const std::string& content)) {
  const ProcessMessage message{
      *rc::gen::element(Kind::kReady, Kind::kOutOfTime, Kind::kStopped),
      *rc::gen::container<std::string>(*rc::gen::inRange(0, 256), rc::gen::character<char>()),
      content};
  RC_ASSERT(process_message_from_bytes(to_bytes(message), "written") == message);
}

TEST(ProcessMessages, OfAnotherVersionAreRefused) {
  // Too short for a head; an unknown kind; more documents than bytes; a failure that says nothing.
  for (const std::string& bytes :
       {std::string(), std::string(1, '\0'), std::string("\4\0", 2), std::string("plan 0123"),
        std::string("\0\3a1", 4), std::string("\3\0", 2)})
    expect_invalid_input([&] { (void)process_message_from_bytes(bytes, "message of rank 2"); },
                         {"message of rank 2", "same version"});
}

TEST(AgreedContent, IsWhatTheFirstProcessHandsOver) {
  EXPECT_EQ(agreed_content(Messages{kHandsOver, kGoesOn, kGoesOn}, "step 1"), "the plan");
}

TEST(AgreedContent, IsNoneWhenTimeIsOverInAnyProcess) {
  EXPECT_EQ(agreed_content(Messages{kHandsOver, kOutOfTime}, "step 1"), std::nullopt);
}

TEST(AgreedContent, IsAStopWhenAnyWasAsked) {
  EXPECT_THROW((void)agreed_content(Messages{kOutOfTime, kStopped}, "step 1"), Interrupted);
}

TEST(AgreedContent, IsTheFirstFailureOfItsKindWhateverTheOthersSay) {
  expect_invalid_input(
      [] {
        (void)agreed_content(
            Messages{kStopped, failed(InvalidInput("token 257")), failed(RunFailed("disk full"))},
            "step 1");
      },
      {"token 257"});
  EXPECT_THROW((void)agreed_content(Messages{kGoesOn, failed(std::bad_alloc())}, ""), RunFailed);
}

TEST(AgreedContent, NamesRanksWithOtherDocuments) {
  const ProcessMessage other{Kind::kReady, "b2", ""};
  expect_invalid_input(
      [&] {
        (void)agreed_content(Messages{kHandsOver, kGoesOn, other}, "step 7");
      },
      {"step 7", "ranks 0 and 2", "a1", "b2", "same configuration"});
}

}  // namespace
}  // namespace slimpack
