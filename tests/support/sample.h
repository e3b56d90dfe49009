// Samples: which of a test's many cases run.
#pragma once

#include <cstdlib>

namespace slimpack::testing {

/// All cases, or with SLIMPACK_SAMPLE=N in the environment every N-th, the first among them: what
/// `make check` has time for.
class Sample {
 public:
  /// Whether the next case is to run.
  [[nodiscard]] bool next() { return cases_++ % every_ == 0; }

 private:
  static int every() {
    const char* const text = std::getenv("SLIMPACK_SAMPLE");
    const int n = text == nullptr ? 1 : std::atoi(text);
    return n < 1 ? 1 : n;
  }

  int every_ = every();
  int cases_ = 0;
};

}  // namespace slimpack::testing
