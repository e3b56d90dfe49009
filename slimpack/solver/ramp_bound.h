// Ramp bound: what filling and draining a pipeline costs a replica at least, however its MicroPacks
// are cut and ordered.
#pragma once

namespace slimpack {

/// One pass on a stage and on those before it in the pipeline.
struct RampPass {
  double overhead = 0;  ///< nanoseconds of a MicroPack by itself on the stage
  double first = 0;    ///< a MicroPack's time on the first stage ÷ its time on the stage, at least
  double between = 0;  ///< its times on the stages between the two ÷ its time on the stage
  double most_other = 0;  ///< the other pass's work on a sequence ÷ this pass's, at most
};

/// The least time, in nanoseconds, that one end of a step adds to the work of both passes on the
/// stage. For forward this is the begin of the step, for backward its end. `work`: nanoseconds of
/// the pass on the stage that belong to this end. What both ends have of a pass, as their own work
/// and as the other pass of those sequences, is no more than all of it.
///
/// A stage's i-th forward MicroPack comes after all before it have passed the first stage, and it
/// has passed the stages between itself. Until then the stage can run the forwards before it and
/// the backwards of their sequences alone. So it waits, unless each MicroPack is small beside those
/// before it: with times fᵢ, (first + between) · fᵢ ≤ wait + (most_other + 1 − first) · Σ_{k<i} fₖ.
/// Few MicroPacks wait long, many have their overheads; the bound is the least sum over their
/// number. Backward is the same in reversed time: a stage runs the MicroPacks of each pass in the
/// order in which they pass the pipeline (check_schedule). Cost: O(log(work ÷ overhead)).
[[nodiscard]] double ramp_bound(const RampPass& pass, double work);

}  // namespace slimpack
