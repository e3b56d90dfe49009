// Cold caches: a layer of a step finds caches that other layers have filled since its last turn.
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <vector>

namespace slimpack {

/// Displaces what the calling thread's processor has in its own caches. A profile runs one layer
/// again and again, so weights and rows would wait in the caches as they never do in a step.
class ColdCaches {
 public:
  /// Displaces caches for ranks on this device; does nothing unless it is a CPU.
  explicit ColdCaches(c10::Device device);

  /// Cost: about a millisecond.
  void displace();

 private:
  std::vector<unsigned char> others_;
};

}  // namespace slimpack
