// The typical one of recent times, whatever single ones are.
#pragma once

#include <cstddef>
#include <vector>

#include "slimpack/base/median.h"

namespace slimpack {

class TypicalTime {
 public:
  void add(double seconds) {
    if (recent_.size() < kRecent)
      recent_.push_back(seconds);
    else
      recent_[next_++ % kRecent] = seconds;
    median_ = median(recent_);
  }
  /// The median of the last fifteen; 0 without any.
  [[nodiscard]] double seconds() const { return median_; }

 private:
  static constexpr std::size_t kRecent = 15;
  std::vector<double> recent_;
  std::size_t next_ = 0;
  double median_ = 0;
};

}  // namespace slimpack
