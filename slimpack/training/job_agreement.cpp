#include "slimpack/training/job_agreement.h"

#include <future>
#include <utility>
#include <vector>

#include "slimpack/base/error.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/ranks/world.h"

namespace slimpack {
namespace {

using Kind = ProcessMessage::Kind;

ProcessMessage message_of_work(const std::function<ProcessMessage()>& work) {
  try {
    return work();
  } catch (const Interrupted& e) {
    return {Kind::kStopped, "", e.what()};
  } catch (const std::exception& e) {
    return {Kind::kFailed, "", failure_text(e)};
  }
}

bool at_once(std::chrono::milliseconds /*wait*/) {
  return true;
}

}  // namespace

JobAgreement::JobAgreement(JobProcess* process, std::function<bool()> should_stop)
    : process_(process), should_stop_(std::move(should_stop)) {}

std::optional<std::string> JobAgreement::exchange(
    std::string_view what, const Ready& ready, const std::function<ProcessMessage()>& own) const {
  const std::vector<std::string> said =
      gather_when_ready(*process_, ready, [&] { return to_bytes(message_of_work(own)); });
  std::vector<ProcessMessage> all;
  for (const std::string& bytes : said)
    all.push_back(process_message_from_bytes(bytes, fmt::format("message of rank {}", all.size())));
  return agreed_content(all, what);
}

std::string JobAgreement::from_first(const std::function<std::string()>& make) const {
  if (alone()) return make();
  if (!first()) return *exchange("", at_once, [] { return ProcessMessage{}; });
  std::future<std::string> made = started("what the other processes wait for", [&] {
    return std::async(std::launch::async, std::cref(make));
  });
  const auto ready = [&](std::chrono::milliseconds wait) {
    return made.wait_for(wait) == std::future_status::ready;
  };
  return *exchange("", ready, [&] { return ProcessMessage{Kind::kReady, "", made.get()}; });
}

std::optional<std::string> JobAgreement::agree(std::string_view what, const Ready& ready,
                                               const std::function<ProcessMessage()>& own) const {
  return exchange(what, ready, [&] {
    ProcessMessage message = own();
    if (should_stop_()) throw Interrupted("stopped on request between two steps");
    return message;
  });
}

void JobAgreement::require_no_stop() const {
  if (alone()) return;
  static_cast<void>(agree("", at_once, [] { return ProcessMessage{}; }));
}

}  // namespace slimpack
