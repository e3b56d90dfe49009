#include "slimpack/report/page.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/json_text.h"
#include "slimpack/baselines/baseline.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/report/page_parts.h"
#include "slimpack/report/rivals.h"
#include "slimpack/report/span_style.h"

namespace slimpack {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPageFormat = "slimpack-report";
constexpr std::int64_t kPageVersion = 1;
constexpr std::size_t kMostErrors = 12;
constexpr std::size_t kMostSteps = 4'000;

std::string layers_text(const StageLayout& layout) {
  std::string text;
  for (std::int32_t s = 0; s < layout.stages(); ++s)
    text += fmt::format("{}{}", s == 0 ? "" : " + ", layout.layers(StageId(s)));
  return text;
}

/// Only models that this version trains have a family.
std::string model_text(const Costs& cost) {
  const bool known = cost.shape.config.empty();
  return fmt::format("{}{}", known ? fmt::format("{}, ", to_string(cost.shape.family)) : "",
                     describe(model_parameters(cost)));
}

std::string ranks_text(const ReportSource& source) {
  const StepPlan& plan = source.plan.step.plan;
  return fmt::format("pp {} × dp {} × tp {} = {} ranks", plan.layout.ranks(), plan.replicas.size(),
                     source.plan.cost.tp, source.ranks());
}

/// "llama, 804 k parameters, on 2 ranks".
std::string title_of(const ReportSource& source) {
  return fmt::format("{}, on {}", model_text(source.plan.cost), counted(source.ranks(), "rank"));
}

std::string planner_of(const ReportSource& source) {
  return source.measured ? source.measured->planner : "this plan";
}

Json about(const ReportSource& source) {
  const StepPlan& plan = source.plan.step.plan;
  const Costs& cost = source.plan.cost;
  Json rows = Json::array();
  const auto add = [&](const char* what, std::string text) {
    rows.push_back({what, std::move(text)});
  };
  add("model", fmt::format("{}, {} layers", model_text(cost), layers_text(plan.layout)));
  add("ranks", ranks_text(source));
  add("number format", std::string(to_string(cost.dtype)));
  if (source.measured) {
    add("device", source.measured->device);
    add("clock", std::string(to_string(source.measured->clock)));
    add("planner", source.measured->planner);
    add("step", grouped(source.measured->step));
  }
  add("sequences",
      fmt::format("{} with {}", grouped(static_cast<std::int64_t>(plan.lengths.size())),
                  counted(total_tokens(plan.lengths).count(), "token")));
  add("context", grouped(source.limits().context.count()) + " tokens");
  if (const auto cap = source.limits().memory_cap)
    add("memory cap", human_bytes(*cap) + " of activations on a rank");
  add("costs from", cost.origin.source);
  add("made from", source.name);
  return rows;
}

Json all_kinds() {
  Json kinds = Json::array();
  for (int i = 0; i <= static_cast<int>(SpanKind::kWaitSend); ++i) {
    const auto kind = static_cast<SpanKind>(i);
    const SpanStyle style = style_of(kind);
    kinds.push_back({{"name", to_string(kind)}, {"title", style.title}, {"colour", style.colour}});
  }
  return kinds;
}

Json documents_of(const ReportSource& source) {
  if (!source.measured) return nullptr;
  Json documents = Json::array();
  for (const DocumentSequence& sequence : source.measured->sequences)
    documents.push_back({sequence.document, sequence.begin.count()});
  return documents;
}

Json bill_of(const std::optional<RunTerms>& run, const std::vector<ComparedPlanner>& rivals,
             const std::optional<Bytes>& cap, const Costs& cost) {
  if (!run) return nullptr;
  return to_json(RunBill{*run, run_speeds(rivals, cap), known_error(cost)});
}

}  // namespace

std::int64_t page_work() {
  return static_cast<std::int64_t>(baselines().size()) + 1;
}

Json page_data(const ReportSource& source, const PageOptions& options) {
  const PlanFile& file = source.plan;
  const std::function<void()> advance = options.advance ? options.advance : [] {};
  const RatedPlan packed = packed_rival(file, source.limits());
  const Timeline packed_timeline = predict(packed, file.cost).timeline;
  Timeline predicted = predict(file.step, file.cost).timeline;
  const auto timeline = [&](const Timeline& shown, const Timeline& expected) {
    return timeline_for_page(shown, expected, options.limits);
  };
  const auto memory = [&](const Timeline& shown) { return memory_for_page(shown, options.limits); };
  Json timelines{{"packed", timeline(packed_timeline, packed_timeline)}};
  Json memories{{"packed", memory(packed_timeline)}};
  Json loads{{"measured", nullptr}};
  Json errors = nullptr;
  if (source.measured) {  // what is measured has every tensor-parallel rank
    const Timeline& measured = source.measured->timeline;
    predicted = with_tensor_ranks(predicted, measured.tensor);
    timelines["measured"] = timeline(measured, predicted);
    memories["measured"] = memory(measured);
    loads["measured"] = loads_for_page(measured, file.step.plan);
    errors = largest_errors(predicted, measured, kMostErrors);
  }
  timelines["predicted"] = timeline(predicted, predicted);
  memories["predicted"] = memory(predicted);
  loads["predicted"] = loads_for_page(predicted, file.step.plan);
  advance();
  const std::optional<Bytes> cap = source.limits().memory_cap;
  const auto rivals = rivals_of(file, source.limits(), planner_of(source), advance, options.tick);
  const std::optional<std::size_t> best = best_rival(rivals, cap);
  const Verdict verdict = verdict_of(source, rivals);
  return {{"format", kPageFormat},
          {"version", kPageVersion},
          {"name", source.name},
          {"title", title_of(source)},
          {"headline", verdict.headline},
          {"figures", verdict.figures},
          {"program", options.program},
          {"about", about(source)},
          {"kinds", all_kinds()},
          {"tokens", total_tokens(file.step.plan.lengths).count()},
          {"lower_bound_ns", file.step.lower_bound.count()},
          {"memory_cap_bytes", cap ? Json(cap->count()) : Json(nullptr)},
          {"ranks_per_row", file.cost.tp / predicted.tensor},
          {"timelines", std::move(timelines)},
          {"memory", std::move(memories)},
          {"loads", std::move(loads)},
          {"packs",
           {{"plan", packs_for_page(file.step.plan)}, {"packed", packs_for_page(packed.plan)}}},
          {"documents", documents_of(source)},
          {"lengths", lengths_for_page(file.step.plan.lengths)},
          {"errors", std::move(errors)},
          {"compared", source.measured && source.measured->compared
                           ? to_json(*source.measured->compared)
                           : Json(nullptr)},
          {"curve", source.curve ? curve_for_page(*source.curve, kMostSteps) : Json(nullptr)},
          {"rivals", rivals_for_page(rivals, cap)},
          {"best_rival", best ? Json(*best) : Json(nullptr)},
          {"run", bill_of(options.run, rivals, cap, file.cost)}};
}

namespace {

/// The scripts in the order in which the browser runs them.
constexpr std::array kScripts{"uplot/uPlot.iife.min.js",
                              "format.js",
                              "scheme.js",
                              "time_axis.js",
                              "timeline.js",
                              "tooltip.js",
                              "charts.js",
                              "tables.js",
                              "main.js"};
constexpr std::array kStyles{"uplot/uPlot.min.css", "page.css"};

/// JSON that may stand in a script element, which ends at the first "</".
std::string json_in_script(const nlohmann::ordered_json& data) {
  const std::string text = json_text(data);
  std::string out;
  out.reserve(text.size());
  for (const char c : text)
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  return out;
}

template <std::size_t n>
std::string joined(const std::array<const char*, n>& names) {
  std::string text;
  for (const char* name : names) text += std::string(page_source(name)) + "\n";
  return text;
}

/// Puts `text` in place of the only `mark`.
void fill(std::string& page, std::string_view mark, std::string_view text) {
  const std::size_t place = page.find(mark);
  SLIMPACK_CHECK(place != std::string::npos, "page.html has no {}", mark);
  page.replace(place, mark.size(), text);
}

}  // namespace

std::string page_html(const nlohmann::ordered_json& data) {
  std::string page(page_source("page.html"));
  fill(page, "{{style}}", joined(kStyles));
  fill(page, "{{script}}", joined(kScripts));
  fill(page, "{{data}}", json_in_script(data));
  return page;
}

}  // namespace slimpack
