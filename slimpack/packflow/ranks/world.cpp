#include "slimpack/packflow/ranks/world.h"

#include <algorithm>
#include <optional>

namespace slimpack {
namespace {

/// The wait before each all_gather: far shorter than any timeout, far longer than an all_gather.
constexpr std::chrono::milliseconds kRound{200};
constexpr char kReady = '+';

}  // namespace

std::vector<std::string> gather_when_ready(
    JobProcess& process, const std::function<bool(std::chrono::milliseconds)>& ready,
    const std::function<std::string()>& own) {
  std::optional<std::string> given;
  for (;;) {
    if (!given && ready(kRound)) given = kReady + own();
    std::vector<std::string> all = process.all_gather(given.value_or(""));
    if (std::ranges::any_of(all, &std::string::empty)) continue;
    for (std::string& text : all) text.erase(0, 1);
    return all;
  }
}

std::vector<std::string> gather_when_ready(JobProcess& process,
                                           const std::shared_future<std::string>& own) {
  return gather_when_ready(
      process,
      [&](std::chrono::milliseconds wait) {
        return own.wait_for(wait) == std::future_status::ready;
      },
      [&] { return own.get(); });
}

}  // namespace slimpack
