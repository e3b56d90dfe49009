#include "slimpack/packflow/ranks/gather_when_ready.h"

#include <algorithm>
#include <chrono>

namespace slimpack {
namespace {

/// Far shorter than any timeout, far longer than a round takes.
constexpr std::chrono::milliseconds kRound{200};
constexpr char kReady = '+';

}  // namespace

std::vector<std::string> gather_when_ready(JobProcess& process,
                                           const std::shared_future<std::string>& own) {
  for (;;) {
    const bool ready = own.wait_for(kRound) == std::future_status::ready;
    std::vector<std::string> all = process.all_gather(ready ? kReady + own.get() : "");
    if (std::ranges::any_of(all, &std::string::empty)) continue;
    for (std::string& given : all) given.erase(0, 1);
    return all;
  }
}

}  // namespace slimpack
