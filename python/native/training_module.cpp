// slimpack._training: the runtime for Python. Needs torch, which is imported first.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/native/generate_binding.h"
#include "python/native/invalid_input.h"
#include "python/native/process_run.h"
#include "python/native/train_in_python.h"

namespace nb = nanobind;

namespace {

/// The worker's command line.
struct TrainArguments {
  std::string config;
  std::vector<std::string> overrides;
  std::string against;
  std::string resume;
  std::string init;
  std::vector<std::string> log_command;

  [[nodiscard]] slimpack::RunConfig run_config() const {
    return slimpack::read_run_config(config, overrides);
  }
  [[nodiscard]] slimpack::TrainRequest request() const {
    return {run_config(), resume, init, !against.empty(), "", log_command};
  }
};

void bind_process_needs(nb::module_& m) {
  using slimpack::ProcessNeeds;
  using slimpack::RankGroup;
  nb::class_<RankGroup>(m, "RankGroup", "Ranks that talk to each other")
      .def_prop_ro("name", &RankGroup::name)
      .def_prop_ro(
          "kind", [](const RankGroup& group) { return std::string(to_string(group.kind)); },
          "what its ranks exchange, such as forward or data")
      .def_prop_ro("sums_gradients",
                   [](const RankGroup& group) { return sums_gradients(group.kind); })
      .def_prop_ro("ranks",
                   [](const RankGroup& group) {
                     std::vector<std::int32_t> ranks;
                     for (std::int32_t member = 0; member < group.size; ++member)
                       ranks.push_back(group.rank(member));
                     return ranks;
                   })
      .def_prop_ro(
          "on_cpu",
          [](const RankGroup& group) { return group.kind == slimpack::GroupKind::kWorld; },
          "whether all that its ranks exchange is on the CPU");

  nb::class_<ProcessNeeds>(m, "ProcessNeeds")
      .def_ro("timeout", &ProcessNeeds::timeout, "seconds")
      .def_ro("device", &ProcessNeeds::device, "cpu or cuda")
      .def_ro("groups", &ProcessNeeds::groups, "in the order to make them");
}

}  // namespace

NB_MODULE(_training, m) {
  using slimpack::RankGroup;

  slimpack::translate_invalid_input(nb::module_::import_("slimpack._planner").attr("InvalidInput"));

  slimpack::bind_generation(m);
  bind_process_needs(m);

  nb::class_<TrainArguments>(m, "TrainArguments")
      .def(nb::init<>())
      .def_rw("config", &TrainArguments::config)
      .def_rw("overrides", &TrainArguments::overrides)
      .def_rw("against", &TrainArguments::against)
      .def_rw("resume", &TrainArguments::resume)
      .def_rw("init", &TrainArguments::init)
      .def_rw("log_command", &TrainArguments::log_command);

  m.def(
      "process_needs",
      [](const TrainArguments& arguments, std::int32_t rank, std::int32_t ranks) {
        return slimpack::process_needs(arguments.run_config(), rank, ranks);
      },
      nb::arg("arguments"), nb::arg("rank"), nb::arg("ranks"));
  m.def(
      "train",
      [](const TrainArguments& arguments, const nb::object& on_step,
         const nb::object& on_evaluation) {
        return slimpack::train_in_python(arguments.request(), on_step, on_evaluation);
      },
      nb::arg("arguments"), nb::arg("on_step").none(), nb::arg("on_evaluation").none(),
      "Trains with a thread for each rank.");
  m.def(
      "run_process",
      [](const TrainArguments& arguments, std::int32_t rank, const std::vector<RankGroup>& groups,
         const std::vector<std::string>& names) {
        std::map<RankGroup, std::string> by_group;
        for (std::size_t g = 0; g < groups.size(); ++g) by_group.emplace(groups[g], names.at(g));
        slimpack::run_process(arguments.request(), rank, by_group);
      },
      nb::arg("arguments"), nb::arg("rank"), nb::arg("groups"), nb::arg("names"),
      nb::call_guard<nb::gil_scoped_release>(),
      "Trains as one of the job's processes; names are those of torch's process groups. Ends the "
      "process where the job fails.");
}
