// Fits the figures of programs, and of vTrain's links, to measurements.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/published/job.h"

namespace slimpack::bench {

/// A program of which half of a set's steps are fitted.
struct FittedProgram {
  std::string_view set;
  RuntimeSpec Machines::*runtime;
};
[[nodiscard]] std::span<const FittedProgram> fitted_programs();

/// Whether a step of such a set is of the half that is fitted: a seeded choice by the step's place
/// among those of its set. The other half is held out.
[[nodiscard]] std::vector<bool> fitted_half(std::size_t steps);

/// The link of which all-reduces take 2 · latency + 2(n − 1)/n · bytes ÷ rate, as an all-gather and
/// a reduce-scatter of the cost model. Least squares of relative errors, in closed form.
struct FittedLink {
  double latency_us = 0;
  double bytes_per_second = 0;
};
[[nodiscard]] FittedLink fit_link(std::span<const AllReduce> times);
/// The seconds of an all-reduce by the formula of fit_link.
[[nodiscard]] double all_reduce_seconds(const HardwareSpec& hardware, const AllReduce& what);

/// Machines with `vtrain`'s link fitted to the all-reduces, and all figures of each fitted program
/// to the fitted half of its steps, from the figures given; a figure of 0 stays 0. Coordinate
/// search on the mean relative error, from many seeded starts: each figure in turn is multiplied
/// and divided by a factor that shrinks from 1.5 to 1.01. `progress` gets the set and the least
/// error after each start. Same data and start, same figures.
[[nodiscard]] Machines fit(const Published& published, const Machines& start,
                           const std::function<void(std::string_view, double)>& progress);

}  // namespace slimpack::bench
