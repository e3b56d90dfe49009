#include "bench/ablation/switches.h"

#include <algorithm>

namespace slimpack::bench {
namespace {

void forget(StepJob& step, SearchDirection direction) {
  std::erase(step.choices.search.directions, direction);
}

bool merges(const StepJob& step) {
  return step.choices.most_merged > 1;
}
bool splits(const StepJob& step) {
  return step.choices.backward == BackwardKind::kSplit;
}
bool mixes(const StepJob& step) {
  return step.choices.mixed_recompute;
}
bool has_replicas(const StepJob& step) {
  return step.job.replicas > 1;
}

std::vector<Switch> cuts() {
  return {
      {"cuts", "asymmetric alone", [](StepJob& step) { step = with_cuts(step, true); }},
      {"cuts", "symmetric alone", [](StepJob& step) { step = with_cuts(step, false); }},
      {"cuts", "begin symmetric",
       [](StepJob& step) { step.choices.search.first.asymmetric = false; }},
      {"cuts", "never to fill up", [](StepJob& step) { forget(step, SearchDirection::kFill); }},
      {"cuts", "always to fill up",
       [](StepJob& step) {
         step.choices.search.first.fill = true;
         forget(step, SearchDirection::kFill);
       }},
  };
}

std::vector<Switch> micropacks() {
  const auto fixed = [](int per_stage) {
    return [=](StepJob& step) {
      step.choices.search.packs = {.per_stage = per_stage, .per_longest = 0};
      forget(step, SearchDirection::kPacks);
    };
  };
  return {
      {"M", "no finer M", [](StepJob& step) { forget(step, SearchDirection::kPacks); }},
      {"M", "≤ 4 a stage", fixed(4)},
      {"M", "≤ 16 a stage", fixed(16)},
      {"M", "≤ 64 a stage", fixed(64)},
      {"M", "128 a stage", [](StepJob& step) { step.choices.search.packs.per_stage /= 2; }},
      {"M", "512 a stage", [](StepJob& step) { step.choices.search.packs.per_stage *= 2; }},
      {"M", "longest no limit", [](StepJob& step) { step.choices.search.packs.per_longest = 0; }},
      {"M", "4 a longest", [](StepJob& step) { step.choices.search.packs.per_longest /= 2; }},
      {"M", "16 a longest", [](StepJob& step) { step.choices.search.packs.per_longest *= 2; }},
  };
}

std::vector<Switch> shapes() {
  const auto no_taper = [](StepJob& step) {
    step.choices.search.first.taper = 1;
    forget(step, SearchDirection::kTaper);
  };
  const auto none_ahead = [](StepJob& step) {
    step.choices.search.first.short_first = 0;
    forget(step, SearchDirection::kShortAhead);
  };
  return {
      {"taper", "no taper", no_taper},
      {"taper", "one taper", [](StepJob& step) { forget(step, SearchDirection::kTaper); }},
      {"taper", "begin without", [](StepJob& step) { step.choices.search.first.taper = 1; }},
      {"taper", "begin at 1/8", [](StepJob& step) { step.choices.search.first.taper /= 2; }},
      {"taper", "begin at 1/2", [](StepJob& step) { step.choices.search.first.taper *= 2; }},
      {"taper", "begin with p",
       [](StepJob& step) { step.choices.search.first.taper_per_stage /= 2; }},
      {"taper", "begin with 4p",
       [](StepJob& step) { step.choices.search.first.taper_per_stage *= 2; }},
      {"ahead", "none ahead", none_ahead},
      {"ahead", "four ahead", [](StepJob& step) { forget(step, SearchDirection::kShortAhead); }},
      {"ahead", "begin with none",
       [](StepJob& step) { step.choices.search.first.short_first = 0; }},
      {"ahead", "begin with 2", [](StepJob& step) { step.choices.search.first.short_first = 2; }},
      {"ahead", "begin with 8", [](StepJob& step) { step.choices.search.first.short_first = 8; }},
  };
}

std::vector<Switch> rounds() {
  return {
      {"rounds", "no local search", [](StepJob& step) { step.choices.search.directions.clear(); }},
      {"rounds", "two rounds", [](StepJob& step) { step.choices.effort = 2; }},
      {"rounds", "heaviest alone", [](StepJob& step) { step.choices.search.steps_per_unit = 0; },
       has_replicas},
      {"rounds", "2 steps a unit", [](StepJob& step) { step.choices.search.steps_per_unit = 2; },
       has_replicas},
  };
}

std::vector<Switch> splitting() {
  return {
      {"split", "whole backwards",
       [](StepJob& step) { step.choices.backward = BackwardKind::kWhole; }, splits},
      {"split", "all or whole", [](StepJob& step) { forget(step, SearchDirection::kSplit); },
       splits},
      {"split", "begin with 4",
       [](StepJob& step) { step.choices.search.first.split_per_stage = 4; }, splits},
  };
}

std::vector<Switch> merging() {
  const auto with = [](auto edit) {
    return [=](StepJob& step) { edit(step.choices.search.merging); };
  };
  const auto every_other = [](MergeSearch& m) {
    std::vector<double> kept;
    for (std::size_t i = 0; i < m.above.size(); i += i == 0 ? 1 : 2) kept.push_back(m.above[i]);
    m.above = kept;
  };
  std::vector<Switch> out{
      {"merging", "no merging", [](StepJob& step) { step.choices.most_merged = 1; }},
      {"merging", "no levelling", with([](MergeSearch& m) { m.levelled = false; })},
      {"merging", "levelling alone", with([](MergeSearch& m) { m.above.resize(1); })},
      {"merging", "half thresholds", with(every_other)},
      {"merging", "1 variant", with([](MergeSearch& m) { m.variants = 1; })},
      {"merging", "4 variants", with([](MergeSearch& m) { m.variants = 4; })},
      {"merging", "promise 0.5%", with([](MergeSearch& m) { m.promising = 0.995; })},
      {"merging", "promise 2%", with([](MergeSearch& m) { m.promising = 0.98; })},
      {"merging", "glance at 1", with([](MergeSearch& m) { m.glance = 1; })},
      {"merging", "glance at 6", with([](MergeSearch& m) { m.glance = 6; })},
      {"merging", "long glance at 4", with([](MergeSearch& m) { m.long_glance = 4; })},
      {"merging", "heavy at 1/4", with([](MergeSearch& m) { m.heavy /= 2; })},
      {"merging", "heavy at 1", with([](MergeSearch& m) { m.heavy *= 2; })},
      {"merging", "hindered at 2%", with([](MergeSearch& m) { m.hindered = 1.02; })},
      {"merging", "hindered at 0.5%", with([](MergeSearch& m) { m.hindered = 1.005; })},
      {"merging", "always tried", with([](MergeSearch& m) { m.hindered = 0; })},
      {"merging", "unlike at 0.5%", with([](MergeSearch& m) { m.unlike /= 2; })},
      {"merging", "unlike at 2%", with([](MergeSearch& m) { m.unlike *= 2; })},
  };
  for (Switch& s : out) s.matters = merges;
  return out;
}

std::vector<Switch> memory() {
  const auto with = [](auto edit) {
    return [=](StepJob& step) { edit(step.choices.search.caps); };
  };
  return {
      {"caps", "tight at 1.05", with([](SearchCaps& c) { c.tight = 1.05; })},
      {"caps", "tight at 1.2", with([](SearchCaps& c) { c.tight = 1.2; })},
      {"caps", "medium at 1.5", with([](SearchCaps& c) { c.medium = 1.5; }), splits},
      {"caps", "medium at 3", with([](SearchCaps& c) { c.medium = 3; }), splits},
      {"caps", "9 rungs", with([](SearchCaps& c) {
         c.rungs = 9;
         c.rung = 1.0816;
       })},
      {"caps", "36 rungs", with([](SearchCaps& c) {
         c.rungs = 36;
         c.rung = 1.0198;
       })},
      {"caps", "2 rungs", with([](SearchCaps& c) {
         c.rungs = 2;
         c.rung = 1.42;
       })},
      {"caps", "4 high rungs", with([](SearchCaps& c) {
         c.high_rungs = 4;
         c.high_rung = 1.44;
       }),
       splits},
      {"caps", "no high rungs", with([](SearchCaps& c) { c.high_rungs = 0; }), splits},
      {"caps", "backwards first", with([](SearchCaps& c) { c.forwards_first = false; })},
  };
}

std::vector<Switch> choices() {
  return {
      {"recompute", "no mixtures", [](StepJob& step) { step.choices.mixed_recompute = false; },
       mixes},
      {"recompute", "4 mixtures", [](StepJob& step) { step.choices.search.mixtures /= 2; }, mixes},
      {"recompute", "16 mixtures", [](StepJob& step) { step.choices.search.mixtures *= 2; }, mixes},
      {"recompute", "elementwise",
       [](StepJob& step) { step.choices.recompute = {Recompute::kElementwise}; }, mixes},
      {"others", "no baselines", [](StepJob& step) { step.job.context = Tokens(0); }},
      {"others", "exact too", [](StepJob& step) { step.choices.solver = SolverKind::kMilp; }},
      {"others", "baselines, 1 cap", [](StepJob& step) { step.choices.search.few_packs = 0; }},
  };
}

}  // namespace

StepJob with_cuts(StepJob step, bool asymmetric) {
  step.choices.search.first.asymmetric = asymmetric;
  forget(step, SearchDirection::kCuts);
  return step;
}

std::vector<Switch> ablation_switches() {
  std::vector<Switch> all;
  for (std::vector<Switch> group :
       {cuts(), micropacks(), shapes(), rounds(), splitting(), merging(), memory(), choices()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace slimpack::bench
