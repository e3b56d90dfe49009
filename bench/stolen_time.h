// Processor time that a hypervisor gave to other machines while this one wanted it.
#pragma once

#include "slimpack/base/units.h"

namespace slimpack {

/// Counts from its construction. Wall clocks contain what was stolen, threads' processor time, and
/// so virtual time, does not.
class StolenTime {
 public:
  StolenTime() : start_(read()) {}

  /// The stolen time of all processors together, in steps of 10 ms; 0 where the system does not
  /// tell.
  [[nodiscard]] Nanos total() const { return read() - start_; }

 private:
  static Nanos read();

  Nanos start_;
};

}  // namespace slimpack
