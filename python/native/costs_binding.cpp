#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

#include "python/native/bindings.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_text.h"
#include "slimpack/cost/cost_fields.h"
#include "slimpack/cost/cost_model.h"
#include "slimpack/cost/fit.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

/// Tokens, prefix, number of slices, and what was measured; or the first and the last.
using Point = std::vector<double>;

std::pair<std::string, double> fit_packs(const std::vector<Point>& points, std::int64_t window,
                                         bool attends) {
  std::vector<LayerMeasurement> measurements;
  for (const Point& p : points) {
    if (p.size() != 4 || p[0] < 1 || p[1] < 0 || p[2] < 1 || !(p[3] > 0))
      invalid_input(
          "a measurement must be tokens, prefix, slices and a positive figure; leave others out");
    const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
    measurements.push_back({Tokens(whole(p[0])), Tokens(whole(p[1])), static_cast<int>(p[2]),
                            Nanos(std::max<std::int64_t>(1, whole(p[3])))});
  }
  if (measurements.empty()) invalid_input("a fit needs measurements; give at least one");
  const LayerFit fit =
      fit_layer_cost(measurements, {.prefix = attends, .window = Tokens(attends ? window : 0)});
  return {json_text(pack_cost_to_json(fit.time)), fit.errors.largest};
}

std::pair<std::string, double> fit_edge(const std::vector<Point>& points) {
  std::vector<EdgeMeasurement> measurements;
  for (const Point& p : points) {
    if (p.size() != 2 || p[0] < 1 || !(p[1] > 0))
      invalid_input("a measurement must be tokens and a positive figure; leave others out");
    measurements.push_back({Tokens(static_cast<std::int64_t>(p[0])),
                            Nanos(std::max<std::int64_t>(1, static_cast<std::int64_t>(p[1])))});
  }
  if (measurements.empty()) invalid_input("a fit needs measurements; give at least one");
  const EdgeFit fit = fit_edge_time(measurements);
  return {json_text(edge_time_to_json(fit.time)), fit.largest_error};
}

}  // namespace

void bind_costs(nb::module_& m) {
  m.def("fit_packs", &fit_packs, "points"_a, "window"_a, "attends"_a = true,
        "The coefficients that fit (tokens, prefix, slices, figure) best, as JSON text, and their "
        "largest error. A window of 0 is none. Where nothing attends, pairs and prefixes cost "
        "nothing.");
  m.def("fit_edge", &fit_edge, "points"_a, "As fit_packs, of (tokens, figure).");
  m.def(
      "checked_cost",
      [](const std::string& text, const std::string& origin) {
        return cost_to_json(cost_from_json(text, origin));
      },
      "text"_a, "origin"_a, "A cost file as `slimpack profile` writes it, of one that is checked.");
}

}  // namespace slimpack
