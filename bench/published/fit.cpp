#include "bench/published/fit.h"

#include <array>
#include <cmath>

#include "bench/published/predict.h"
#include "bench/statistics.h"
#include "slimpack/base/random.h"

namespace slimpack::bench {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::array<double, 6> kFactors{1.5, 1.2, 1.1, 1.05, 1.02, 1.01};
/// A round that improves the error by less than this share ends its factor.
constexpr double kLeastGain = 2e-4;
/// Searches, each from the best figures so far, multiplied by up to kSpread or its inverse.
constexpr int kStarts = 12;
constexpr double kSpread = 3;

constexpr std::array<FittedProgram, 2> kPrograms{
    {{kOneNode, &Machines::megatron}, {kFoundry, &Machines::eager}}};

/// Steps that cannot be expressed are in one half or the other, too, and are not fitted.
std::vector<PublishedStep> fitted_steps(const Published& published, std::string_view set,
                                        const Machines& machines) {
  std::vector<PublishedStep> all;
  for (const PublishedStep& step : published.steps)
    if (step.set == set) all.push_back(step);
  const std::vector<bool> fitted = fitted_half(all.size());
  std::vector<PublishedStep> steps;
  for (std::size_t s = 0; s < all.size(); ++s)
    if (fitted[s] && std::holds_alternative<PublishedJob>(express(all[s], machines)))
      steps.push_back(all[s]);
  return steps;
}

double mean_error(const std::vector<PublishedStep>& steps, const Machines& machines) {
  std::vector<Compared> all;
  for (const PublishedStep& step : steps) {
    const Expressed job = express(step, machines);
    all.push_back({predict(std::get<PublishedJob>(job)).seconds, step.seconds});
  }
  return errors_of(all).mean;
}

struct Found {
  double error = 0;
  Machines machines;
};

/// Each figure of a program in turn, multiplied and divided by factors that shrink.
Found searched(const std::vector<PublishedStep>& steps, const Machines& from,
               RuntimeSpec Machines::*program) {
  Found best{mean_error(steps, from), from};
  for (const double factor : kFactors)
    for (double before = 2 * best.error; best.error < before * (1 - kLeastGain);) {
      before = best.error;
      for (const RuntimeField& field : runtime_fields())
        for (const double by : {factor, 1 / factor}) {
          Machines changed = best.machines;
          (changed.*program).*(field.figure) *= by;
          const double error = mean_error(steps, changed);
          if (error < best.error) best = {error, changed};
        }
    }
  return best;
}

Machines fitted_program(const std::vector<PublishedStep>& steps, const Machines& start,
                        RuntimeSpec Machines::*program,
                        const std::function<void(double)>& progress) {
  Rng rng(kSeed);
  Found best;
  for (int s = 0; s < kStarts; ++s) {
    Machines from = s == 0 ? start : best.machines;
    if (s > 0)
      for (const RuntimeField& field : runtime_fields())
        (from.*program).*(field.figure) *= std::pow(kSpread, 2 * rng.uniform() - 1);
    const Found found = searched(steps, from, program);
    if (s == 0 || found.error < best.error) best = found;
    progress(best.error);
  }
  return best.machines;
}

}  // namespace

std::vector<bool> fitted_half(std::size_t steps) {
  // Fisher and Yates: the first half of a random order.
  std::vector<std::size_t> order(steps);
  for (std::size_t i = 0; i < steps; ++i) order[i] = i;
  Rng rng(kSeed);
  for (std::size_t i = steps; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(rng.uniform() * double(i))]);
  std::vector<bool> fitted(steps);
  for (std::size_t i = 0; i < steps / 2; ++i) fitted[order[i]] = true;
  return fitted;
}

FittedLink fit_link(std::span<const AllReduce> times) {
  // Each equation is divided by its time: latency · a + inverse rate · b = 1.
  double aa = 0, ab = 0, bb = 0, a1 = 0, b1 = 0;
  for (const AllReduce& one : times) {
    const double a = 2 / one.seconds;
    const double b = 2.0 * (one.ranks - 1) / one.ranks * one.bytes / one.seconds;
    aa += a * a, ab += a * b, bb += b * b, a1 += a, b1 += b;
  }
  const double determinant = aa * bb - ab * ab;
  return {(a1 * bb - b1 * ab) / determinant * 1e6, determinant / (b1 * aa - a1 * ab)};
}

double all_reduce_seconds(const HardwareSpec& hardware, const AllReduce& what) {
  return 2 * hardware.node_link_latency_us * 1e-6 +
         2.0 * (what.ranks - 1) / what.ranks * what.bytes / hardware.node_link_bytes_per_second;
}

Machines fit(const Published& published, const Machines& start,
             const std::function<void(std::string_view, double)>& progress) {
  Machines machines = start;
  const FittedLink link = fit_link(published.all_reduces);
  machines.vtrain.node_link_latency_us = link.latency_us;
  machines.vtrain.node_link_bytes_per_second = link.bytes_per_second;
  for (const auto& [set, runtime] : kPrograms) {
    const std::vector<PublishedStep> steps = fitted_steps(published, set, machines);
    if (steps.empty()) continue;
    machines =
        fitted_program(steps, machines, runtime, [&](double error) { progress(set, error); });
  }
  return machines;
}

std::span<const FittedProgram> fitted_programs() {
  return kPrograms;
}

}  // namespace slimpack::bench
