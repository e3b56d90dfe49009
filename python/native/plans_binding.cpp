#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "python/native/bindings.h"
#include "python/native/views.h"
#include "slimpack/base/error.h"
#include "slimpack/base/json_text.h"
#include "slimpack/data/sequences.h"
#include "slimpack/planner/planner.h"
#include "slimpack/report/measured_step.h"
#include "slimpack/report/plan_report.h"
#include "slimpack/report/timeline_picture.h"
#include "slimpack/run/step_figures.h"
#include "slimpack/run/step_files.h"
#include "slimpack/trace/timeline.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace slimpack {
namespace {

constexpr int kReportColumns = 100;

/// Python objects for items that `owner` holds.
template <class Item>
nb::list inner_list(const std::vector<Item>& items, nb::handle owner) {
  nb::list list;
  for (const Item& item : items)
    list.append(nb::cast(item, nb::rv_policy::reference_internal, owner));
  return list;
}

/// The entry of `items` for a replica. Throws IndexError for a replica that the plan does not have.
template <class Item>
const Item& of_replica(const std::vector<Item>& items, std::int64_t replica) {
  if (replica < 0 || replica >= static_cast<std::int64_t>(items.size()))
    throw nb::index_error(fmt::format("replica {} of {}", replica, items.size()).c_str());
  return items[static_cast<std::size_t>(replica)];
}

const PlanFile& plan_in(nb::handle self) {
  return *nb::inst_ptr<PlanFile>(self);
}

template <class T, class Item>
auto view_of(std::vector<Item> SimulationResult::*values) {
  return [values](nb::handle self) { return view<T>(plan_in(self).step.prediction.*values, self); };
}

std::vector<std::string> recompute_names(const StepPlan& plan) {
  std::vector<std::string> names;
  for (std::int32_t layer = 0; layer < plan.layout.layer_begin.back(); ++layer)
    names.emplace_back(to_string(recompute_of(plan.recompute, static_cast<std::size_t>(layer))));
  return names;
}

using Exchange = std::tuple<std::string, std::string, std::int64_t>;

std::vector<Exchange> exchanges_of(const PlanFile& plan, std::int64_t replica) {
  std::vector<Exchange> exchanges;
  for (const ContextExchange& e : of_replica(plan.step.schedules, replica).exchanges)
    exchanges.emplace_back(to_string(e.giver), to_string(e.taker), e.keys.count());
  return exchanges;
}

/// The plan's sequences. `documents` and `begins` say by sequence which document it is of, and how
/// many of its tokens come before it.
std::vector<DocumentSequence> sequences_of(const PlanFile& file,
                                           const std::vector<std::int64_t>& documents,
                                           const std::vector<std::int64_t>& begins) {
  const std::size_t sequences = file.step.plan.lengths.size();
  if (documents.size() != sequences || begins.size() != sequences)
    invalid_input("{} documents and {} begins, the plan has {} sequences; give one of each",
                  documents.size(), begins.size(), sequences);
  std::vector<DocumentSequence> result;
  for (std::size_t q = 0; q < sequences; ++q)
    result.push_back(
        {static_cast<std::size_t>(documents[q]), Tokens(begins[q]), file.step.plan.lengths[q]});
  return result;
}

std::string trace_of(const PlanFile& file, const std::vector<const Timeline*>& timelines,
                     const std::vector<std::int64_t>& documents,
                     const std::vector<std::int64_t>& begins) {
  const std::vector<DocumentSequence> sequences = sequences_of(file, documents, begins);
  std::vector<Timeline> drawn;
  for (const Timeline* timeline : timelines) {
    if (timeline->replicas != static_cast<std::int32_t>(file.step.plan.replicas.size()))
      invalid_input("a timeline has {} replicas, the plan {}; give timelines of this plan",
                    timeline->replicas, file.step.plan.replicas.size());
    drawn.push_back(*timeline);
  }
  return documents_trace(file.step.plan, drawn, sequences);
}

MeasuredStep measured_step(const PlanFile& file, const Timeline& timeline, std::int64_t step,
                           std::string_view device, const std::vector<std::int64_t>& documents,
                           const std::vector<std::int64_t>& begins) {
  return {.step = step,
          .device = std::string(device),
          .planner = file.step.baseline.empty() ? "slimpack" : std::string(file.step.baseline),
          .sequences = sequences_of(file, documents, begins),
          .timeline = timeline};
}

/// measured.json of a step of this plan.
std::string measured_text(const PlanFile& file, const Timeline& timeline, std::int64_t step,
                          std::string_view device, const std::vector<std::int64_t>& documents,
                          const std::vector<std::int64_t>& begins) {
  return measured_step_to_json(measured_step(file, timeline, step, device, documents, begins));
}

void write_files(const PlanFile& file, const std::filesystem::path& folder,
                 const Timeline& timeline, std::int64_t step, std::string_view device,
                 const std::vector<std::int64_t>& documents,
                 const std::vector<std::int64_t>& begins) {
  static_cast<void>(write_step_files(
      folder, file, measured_step(file, timeline, step, device, documents, begins)));
}

/// A line of metrics.jsonl.
std::string figures_of_step(const PlanFile& file, const Timeline& timeline, std::int64_t step,
                            double loss, double gradient_norm, double learning_rate,
                            std::int64_t targets, std::int64_t left_out, std::int64_t reading_ns,
                            const std::vector<std::int64_t>& documents,
                            const std::vector<std::int64_t>& begins, std::int64_t planning_ns,
                            std::int64_t planning_wait_ns) {
  StepFigures figures =
      figures_of(sequences_of(file, documents, begins), file.cost, file.step.prediction, timeline);
  figures.step = step;
  figures.loss = loss;
  figures.gradient_norm = gradient_norm;
  figures.learning_rate = learning_rate;
  figures.targets = targets;
  figures.left_out = left_out;
  figures.reading_time = Nanos(reading_ns);
  figures.planning_time = Nanos(planning_ns);
  figures.planning_wait = Nanos(planning_wait_ns);
  return json_text(to_json(figures));
}

std::string drawing(const std::vector<std::pair<std::string, const Timeline*>>& timelines) {
  std::vector<PicturedTimeline> pictured;
  for (const auto& [title, timeline] : timelines) pictured.push_back({title, *timeline});
  return timelines_svg(pictured);
}

void bind_packs(nb::module_& m) {
  nb::class_<MicroPack>(m, "MicroPack", "Slices that run as one scheduling unit of one pass.")
      .def_ro("replicas", &MicroPack::replicas, "Replicas that run it together, usually 1.")
      .def_prop_ro("tokens", [](const MicroPack& pack) { return pack.tokens().count(); })
      .def("__len__", [](const MicroPack& pack) { return pack.slices.size(); })
      .def_prop_ro(
          "sequences",
          [](nb::handle self) {
            return field_view<std::int32_t>(nb::inst_ptr<MicroPack>(self)->slices, &Slice::sequence,
                                            self);
          },
          "By slice: index of its sequence in the step's lengths.")
      .def_prop_ro(
          "begin",
          [](nb::handle self) {
            return field_view<std::int64_t>(nb::inst_ptr<MicroPack>(self)->slices, &Slice::begin,
                                            self);
          },
          "By slice: its first token in the sequence, which is also the length of its prefix.")
      .def_prop_ro(
          "end",
          [](nb::handle self) {
            return field_view<std::int64_t>(nb::inst_ptr<MicroPack>(self)->slices, &Slice::end,
                                            self);
          },
          "By slice: the token after its last one.");

  nb::class_<ReplicaPlan>(m, "ReplicaPlan", "One replica's share of a step.")
      .def_prop_ro(
          "sequences",
          [](nb::handle self) {
            return view<std::int32_t>(nb::inst_ptr<ReplicaPlan>(self)->sequences, self);
          },
          "Indices of its sequences, ascending; merged ones are listed on every replica.")
      .def_prop_ro(
          "forward",
          [](nb::handle self) {
            return inner_list(nb::inst_ptr<ReplicaPlan>(self)->packs.forward, self);
          },
          "MicroPacks of the forward pass, in the order in which every stage runs them.")
      .def_prop_ro(
          "backward",
          [](nb::handle self) {
            return inner_list(nb::inst_ptr<ReplicaPlan>(self)->packs.backward, self);
          },
          "MicroPacks of the backward pass, likewise.");
}

void bind_orders(nb::module_& m) {
  nb::class_<Action>(m, "Action", "One pass of a MicroPack on a stage. As text: \"3F7\".")
      .def_prop_ro("stage", [](const Action& action) { return action.stage.value(); })
      .def_prop_ro(
          "passes", [](const Action& action) { return std::string(1, letter_of(action.pass)); },
          "F is forward, B is backward, I and W are the backward's parts for inputs and weights. "
          "E, H and G run embedding, head and the embedding's gradient on all ranks together.")
      .def_prop_ro(
          "pack", [](const Action& action) { return action.pack.value(); },
          "Index among the forward MicroPacks, of F and E, or among the backward ones.")
      .def("__str__", [](const Action& action) { return to_string(action); });
  nb::enum_<Operation>(m, "Operation", "What a rank does for an action.")
      .value("COMPUTE", Operation::kCompute, "Runs it.")
      .value("RECEIVE", Operation::kReceive, "Posts the receive of its input.")
      .value("SEND", Operation::kSend, "Posts the send of its output.");
  nb::class_<Instruction>(m, "Instruction", "An operation of a rank. As text: \"3RECV_F7\".")
      .def_ro("operation", &Instruction::operation)
      .def_ro("action", &Instruction::action)
      .def("__str__", [](const Instruction& instruction) { return to_string(instruction); });
}

void bind_timeline(nb::module_& m) {
  const auto column = [](auto type, auto field) {
    using T = decltype(type);
    return [field](nb::handle self) {
      return field_view<T>(nb::inst_ptr<Timeline>(self)->spans, field, self);
    };
  };
  nb::class_<Timeline>(m, "Timeline", "What every rank does when; times in nanoseconds.")
      .def_ro("ranks", &Timeline::ranks)
      .def_ro("replicas", &Timeline::replicas)
      .def_prop_ro("rank", column(std::int32_t(), &Span::rank), "By span.")
      .def_prop_ro("kind", column(std::uint8_t(), &Span::kind), "By span: index in span_kinds.")
      .def_prop_ro("pack", column(std::int32_t(), &Span::pack), "By span; -1 = none.")
      .def_prop_ro("start", column(std::int64_t(), &Span::start), "By span.")
      .def_prop_ro("end", column(std::int64_t(), &Span::end), "By span.")
      .def_prop_ro("makespan_ns",
                   [](const Timeline& timeline) { return metrics_of(timeline).makespan.count(); })
      .def_prop_ro("bubble_ratio",
                   [](const Timeline& timeline) { return metrics_of(timeline).bubble_ratio; })
      .def_prop_ro(
          "peak_activation_bytes",
          [](nb::handle self) {
            return view<std::int64_t>(nb::inst_ptr<Timeline>(self)->peak_activation, self);
          },
          "By rank; empty when not known.")
      .def_static("from_json", &timeline_from_json, "text"_a, "origin"_a)
      .def("to_json", &timeline_to_json)
      .def("to_text", &to_text, "width"_a, "One line a rank, such as 'rank 0 |FFB.BO|'.");
  m.def("timelines_svg", &drawing, "timelines"_a, nb::call_guard<nb::gil_scoped_release>(),
        "SVG of titles and Timelines, one below the other on one time axis.");
  nb::list kinds;
  for (int kind = 0; kind <= static_cast<int>(SpanKind::kWaitSend); ++kind)
    kinds.append(std::string(to_string(static_cast<SpanKind>(kind))));
  m.attr("span_kinds") = kinds;
}

/// Binds a plan's figures of the step's time and memory.
void bind_prediction_of(nb::class_<PlanFile>& plans) {
  plans
      .def_prop_ro("baseline", [](const PlanFile& plan) { return std::string(plan.step.baseline); })
      .def_prop_ro("makespan_ns",
                   [](const PlanFile& plan) { return plan.step.prediction.makespan.count(); })
      .def_prop_ro("lower_bound_ns",
                   [](const PlanFile& plan) { return plan.step.lower_bound.count(); })
      .def_prop_ro("gap", [](const PlanFile& plan) { return plan.step.gap(); })
      .def_prop_ro("bubble_ratio",
                   [](const PlanFile& plan) { return plan.step.prediction.bubble_ratio; })
      .def_prop_ro("busy_ns", view_of<std::int64_t>(&SimulationResult::busy))
      .def_prop_ro("peak_activation_bytes",
                   view_of<std::int64_t>(&SimulationResult::peak_activation))
      .def("figures",
           [](const PlanFile& plan) { return json_text(step_figures(plan.step, plan.cost)); })
      .def("report", [](const PlanFile& plan) {
        return step_report(plan.step, plan.cost, step_rows(plan.step, plan.cost), kReportColumns);
      });
}

/// Binds a plan's functions that give or take timelines of its step.
void bind_timelines_of(nb::class_<PlanFile>& plans) {
  plans
      .def(
          "predict", [](const PlanFile& plan) { return predict(plan.step, plan.cost).timeline; },
          nb::call_guard<nb::gil_scoped_release>(), "Simulates the step.")
      .def("measured_step", &measured_text, "timeline"_a, "step"_a, "device"_a, "documents"_a,
           "begins"_a, nb::call_guard<nb::gil_scoped_release>(),
           "measured.json, which a report reads beside the plan: the measured Timeline of this "
           "step.")
      .def("write_step_files", &write_files, "folder"_a, "timeline"_a, "step"_a, "device"_a,
           "documents"_a, "begins"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Writes timeline.json, plan.json and measured.json of a measured Timeline of this step.")
      .def("step_figures", &figures_of_step, "timeline"_a, "step"_a, "loss"_a, "gradient_norm"_a,
           "learning_rate"_a, "targets"_a, "left_out"_a, "reading_ns"_a, "documents"_a, "begins"_a,
           "planning_ns"_a, "planning_wait_ns"_a,
           "A line of metrics.jsonl of this step, without the time at which it is written.")
      .def("chrome_trace", &trace_of, "timelines"_a, "documents"_a, "begins"_a,
           nb::call_guard<nb::gil_scoped_release>(),
           "Chrome trace of timelines of this step; documents and begins name its sequences.");
}

}  // namespace

void bind_plans(nb::module_& m) {
  bind_packs(m);
  bind_orders(m);
  bind_timeline(m);
  nb::class_<PlanFile> plans(m, "StepPlan", "A planned step with its costs and prediction.");
  plans
      .def_static(
          "from_json",
          [](std::string_view text, std::string_view origin) {
            return plan_file_from_json(text, origin);
          },
          "text"_a, "origin"_a, nb::call_guard<nb::gil_scoped_release>())
      .def(
          "to_json",
          [](const PlanFile& plan) { return plan_file_to_json(plan.step, plan.cost, plan.limits); },
          nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro(
          "lengths",
          [](nb::handle self) { return view<std::int64_t>(plan_in(self).step.plan.lengths, self); })
      .def_prop_ro("layer_begin",
                   [](const PlanFile& plan) { return plan.step.plan.layout.layer_begin; })
      .def_prop_ro(
          "stages_per_rank",
          [](const PlanFile& plan) { return plan.step.plan.layout.placement.stages_per_rank(); })
      .def_prop_ro("spread_vocabulary",
                   [](const PlanFile& plan) { return plan.step.plan.layout.spread_vocabulary; })
      .def_prop_ro("tp", [](const PlanFile& plan) { return plan.cost.tp; })
      .def_prop_ro(
          "recompute", [](const PlanFile& plan) { return recompute_names(plan.step.plan); },
          "By layer.")
      .def_prop_ro(
          "replicas",
          [](nb::handle self) { return inner_list(plan_in(self).step.plan.replicas, self); })
      .def(
          "actions",
          [](const PlanFile& plan, std::int64_t replica) {
            return of_replica(plan.step.schedules, replica).ranks;
          },
          "replica"_a, "By rank of the pipeline.")
      .def("exchanges", &exchanges_of, "replica"_a, "Giver, taker, keys.")
      .def(
          "instructions",
          [](const PlanFile& plan, std::int64_t replica) {
            return of_replica(plan.step.lowered, replica).ranks;
          },
          "replica"_a, "By rank of the pipeline.");
  bind_prediction_of(plans);
  bind_timelines_of(plans);
}

}  // namespace slimpack
