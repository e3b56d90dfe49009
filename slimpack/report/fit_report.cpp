#include "slimpack/report/fit_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "slimpack/base/error.h"
#include "slimpack/base/human.h"
#include "slimpack/base/table.h"
#include "slimpack/cost/parameter_counts.h"
#include "slimpack/report/plan_report.h"

namespace slimpack {
namespace {

constexpr std::string_view kPlan = "plan.";
constexpr std::string_view kParallel = "parallel.";

/// Numbers as they are, names quoted.
std::string python_value(std::string_view value) {
  const bool number =
      std::ranges::all_of(value, [](char digit) { return digit >= '0' && digit <= '9'; });
  return fmt::format("{0}{1}{0}", number ? "" : "\"", value);
}

std::string job_call(const std::vector<std::string>& settings, const ParallelGrid& grid) {
  std::string text = "Job(...";
  bool regrouped = false;
  for (const std::string_view setting : settings) {
    if (setting.starts_with(kParallel)) {
      regrouped = true;
      continue;
    }
    SLIMPACK_CHECK(setting.starts_with(kPlan));
    const std::size_t equals = setting.find('=');
    text += fmt::format(", {}={}", setting.substr(kPlan.size(), equals - kPlan.size()),
                        python_value(setting.substr(equals + 1)));
  }
  if (regrouped)
    text += fmt::format(", parallel={{\"pp\": {}, \"dp\": {}, \"tp\": {}{}{}{}}}", grid.pp, grid.dp,
                        grid.tp, grid.zero != 1 ? fmt::format(", \"zero\": {}", grid.zero) : "",
                        grid.shard_replicas ? ", \"shard_replicas\": True" : "",
                        grid.offload_optimizer ? ", \"offload_optimizer\": True" : "");
  return text + ")";
}

}  // namespace

std::string setting_text(const std::vector<std::string>& settings, const ParallelGrid& grid,
                         Reader reader) {
  if (reader == Reader::kPython) return job_call(settings, grid);
  return fmt::format("--set {}", fmt::join(settings, " --set "));
}

namespace {

std::string signed_bytes(Bytes bytes) {
  return bytes < Bytes(0) ? fmt::format("-{}", human_bytes(Bytes(-bytes.count())))
                          : human_bytes(bytes);
}

std::string memory_line(const FitReport& wish, Reader reader) {
  std::string text;
  if (wish.budget)
    text =
        fmt::format("memory of a rank: {}, {}% of it ({}) kept free (known error {:g}%: {})",
                    human_bytes(wish.budget->memory), wish.budget->reserved_percent,
                    human_bytes(wish.budget->reserve), wish.known.memory, wish.known.memory_from);
  if (wish.budget && wish.budget->gpu != GpuShare())
    text +=
        fmt::format(", CUDA's context {}, unfilled pages of the allocator {}, NCCL's buffers {}",
                    human_bytes(wish.budget->gpu.context), human_bytes(wish.budget->gpu.allocator),
                    human_bytes(wish.budget->gpu.communicators));
  if (wish.parameters.frozen > 0)
    text += fmt::format("{}{}", text.empty() ? "" : "; ", describe(wish.parameters));
  if (wish.job.memory_cap)
    text += fmt::format("{}activations capped at {} ({})", text.empty() ? "" : "; ",
                        human_bytes(*wish.job.memory_cap),
                        reader == Reader::kPython ? "memory_cap" : "plan.memory_cap");
  return text;
}

/// How people call a rank of the pipeline: it is its stage's where it has one.
const char* rank_word(const FitReport& report) {
  return report.job.grid.stages_per_rank > 1 ? "rank" : "stage";
}

std::string rank_table(const FitReport& report, int columns) {
  Table table({{rank_word(report)},
               {"layers", Align::kRight, 2},
               {"weights, gradients"},
               {"optimizer"},
               {"activations"},
               {"total"},
               {"capacity", Align::kRight, 1},
               {"headroom"}});
  for (std::size_t s = 0; s < report.ranks.size(); ++s) {
    const RankMemoryUse& rank = report.ranks[s];
    table.add_row({std::to_string(s), std::to_string(rank.layers),
                   human_bytes(rank.states.weights + rank.states.gradients),
                   human_bytes(rank.states.optimizer), human_bytes(rank.activations),
                   human_bytes(rank.total()), human_bytes(*rank.capacity),
                   signed_bytes(rank.headroom())});
  }
  return table.text(columns);
}

/// A table of the bytes that activations have on a GPU; empty on a CPU.
std::string gpu_table(const FitReport& report, int columns) {
  if (std::ranges::all_of(report.ranks,
                          [](const RankMemoryUse& s) { return s.gpu == GpuActivations(); }))
    return {};
  Table table({{rank_word(report)},
               {"tensors of layers"},
               {"attention kernel"},
               {"messages"},
               {"sums of gradients"}});
  for (std::size_t s = 0; s < report.ranks.size(); ++s) {
    const RankMemoryUse& rank = report.ranks[s];
    table.add_row({std::to_string(s), human_bytes(rank.activations - rank.gpu.total()),
                   human_bytes(rank.gpu.kernels), human_bytes(rank.gpu.messages),
                   human_bytes(rank.gpu.reductions)});
  }
  return fmt::format("the activations, by what adds to their highest:\n\n{}\n",
                     table.text(columns));
}

std::string verdict(const FitReport& wish) {
  const std::size_t worst = wish.worst();
  const Bytes headroom = wish.ranks[worst].headroom();
  const char* const which = wish.job.grid.stages_per_rank > 1 ? "number" : "of stage";
  std::string step = fmt::format("{} {}, computed again: {}", human_duration(wish.makespan),
                                 time_range(wish.known), describe(wish.recompute));
  if (wish.host > Bytes(0))
    step += fmt::format(", host memory of a rank: {}", human_bytes(wish.host));
  if (wish.fits)
    return fmt::format("fits: the fullest rank, {} {}, has {} to spare; a step takes {}", which,
                       worst, human_bytes(headroom), step);
  if (headroom >= Bytes(0))
    return fmt::format(
        "does not fit: the cap is one for all stages, and too low for the step that needs least, "
        "shown above ({})",
        step);
  return fmt::format(
      "does not fit: the fullest rank, {} {}, is {} bytes ({}) over in the step that needs least, "
      "shown above ({})",
      which, worst, grouped(-headroom.count()), human_bytes(Bytes(-headroom.count())), step);
}

double relative_time(const FitAdvice& advice, const FitOption& option) {
  return static_cast<double>(option.report.makespan.count()) /
         static_cast<double>(advice.unlimited.count());
}

std::string option_table(const FitAdvice& advice, int columns, Reader reader) {
  Table table({{"change", Align::kLeft},
               {"ranks"},
               {"step"},
               {"relative"},
               {"headroom", Align::kRight, 1}});
  for (const FitOption& option : advice.options) {
    const FitReport& report = option.report;
    table.add_row({setting_text(option.settings, report.job.grid, reader),
                   grouped(report.job.grid.ranks()), human_duration(report.makespan),
                   fmt::format("{:.2f} ×", relative_time(advice, option)),
                   human_bytes(report.ranks[report.worst()].headroom())});
  }
  return table.text(columns);
}

std::string longest_text(const FitReport& wish, Reader reader) {
  if (wish.longest_that_fits == Tokens(0))
    return "none of the changes tried fits, alone or with another, and as it is not even a "
           "sequence of one token fits";
  if (wish.longest_that_fits == wish.longest)
    return "none of the changes tried fits, alone or with another; each sequence fits alone, so "
           "fewer tokens per step would fit";
  return fmt::format(
      "none of the changes tried fits, alone or with another; the longest sequence has {} tokens, "
      "one of up to {} fits: {}",
      grouped(wish.longest.count()), grouped(wish.longest_that_fits.count()),
      reader == Reader::kPython ? "split the documents first (slimpack.split_documents)"
                                : "lower data.context");
}

nlohmann::json report_figures(const FitReport& report) {
  nlohmann::json stages = nlohmann::json::array();
  for (const RankMemoryUse& rank : report.ranks)
    stages.push_back({{"layers", rank.layers},
                      {"weight_bytes", rank.states.weights.count()},
                      {"gradient_bytes", rank.states.gradients.count()},
                      {"optimizer_bytes", rank.states.optimizer.count()},
                      {"activation_bytes", rank.activations.count()},
                      {"kernel_bytes", rank.gpu.kernels.count()},
                      {"message_bytes", rank.gpu.messages.count()},
                      {"reduction_bytes", rank.gpu.reductions.count()},
                      {"total_bytes", rank.total().count()},
                      {"capacity_bytes", rank.capacity->count()},
                      {"headroom_bytes", rank.headroom().count()}});
  return {{"fits", report.fits},
          {"pp", report.job.grid.pp},
          {"dp", report.job.grid.dp},
          {"tp", report.job.grid.tp},
          {"ranks", report.job.grid.ranks()},
          {"recompute", recompute_figures(report.recompute)},
          {"host_bytes", report.host.count()},
          {"makespan_ns", report.makespan.count()},
          {"worst_stage", report.worst()},
          {"stages", std::move(stages)}};
}

}  // namespace

std::string fit_text(const FitAdvice& advice, std::string_view fixed_tp, int columns,
                     Reader reader) {
  const FitReport& wish = advice.wish;
  std::string text = fmt::format("{}\n\n{}\n{}{}\n", folded(memory_line(wish, reader), columns),
                                 rank_table(wish, columns), gpu_table(wish, columns),
                                 folded(verdict(wish), columns));
  if (wish.fits) return text;
  if (!fixed_tp.empty()) text += folded(fixed_tp, columns) + "\n";
  if (advice.options.empty()) return text + folded(longest_text(wish, reader), columns) + "\n";
  const std::string intro = fmt::format(
      "What would fit, fewest ranks and mildest first; times relative to the {} that this job's "
      "step takes where memory does not matter:",
      human_duration(advice.unlimited));
  return text +
         fmt::format("\n{}\n\n{}", folded(intro, columns), option_table(advice, columns, reader));
}

nlohmann::json fit_figures(const FitAdvice& advice) {
  const FitReport& wish = advice.wish;
  nlohmann::json figures = report_figures(wish);
  figures["format"] = "slimpack-fit";
  figures["version"] = 2;
  figures["known_error"] = to_json(wish.known);
  figures["parameters"] = wish.parameters.all();
  figures["trained_parameters"] = wish.parameters.trained;
  figures["memory_bytes"] = nullptr;
  figures["reserve_bytes"] = nullptr;
  figures["context_bytes"] = nullptr;
  figures["allocator_bytes"] = nullptr;
  figures["communicator_bytes"] = nullptr;
  if (wish.budget) {
    figures["memory_bytes"] = wish.budget->memory.count();
    figures["reserve_bytes"] = wish.budget->reserve.count();
    figures["context_bytes"] = wish.budget->gpu.context.count();
    figures["allocator_bytes"] = wish.budget->gpu.allocator.count();
    figures["communicator_bytes"] = wish.budget->gpu.communicators.count();
  }
  figures["unlimited_makespan_ns"] = advice.unlimited.count();
  figures["tokens"] = wish.tokens.count();
  figures["longest"] = wish.longest.count();
  figures["longest_that_fits"] = wish.longest_that_fits.count();
  figures["options"] = nlohmann::json::array();
  for (const FitOption& option : advice.options) {
    nlohmann::json one = report_figures(option.report);
    one["settings"] = option.settings;
    one["relative_time"] = relative_time(advice, option);
    figures["options"].push_back(std::move(one));
  }
  return figures;
}

std::string prompt_text(const PromptQuestion& question) {
  const PromptMemory memory = prompt_memory(question);
  Table table({{"memory of generating", Align::kLeft}, {"bytes"}});
  table.add_row({fmt::format("{} weights in {}",
                             human_count(static_cast<double>(question.shape.parameters())),
                             to_string(question.dtype)),
                 human_bytes(memory.weights)});
  table.add_row({fmt::format("keys and values of {} + {} tokens", grouped(question.prompt.count()),
                             grouped(question.answer.count())),
                 human_bytes(memory.cache)});
  table.add_row({"rope's cosines and sines", human_bytes(memory.angles)});
  table.add_row({fmt::format("a layer, {} tokens at once", grouped(question.slice.count())),
                 human_bytes(memory.slice)});
  table.add_row({"together, beside the program itself", human_bytes(memory.total())});
  return table.text();
}

nlohmann::json prompt_figures(const PromptQuestion& question) {
  const PromptMemory memory = prompt_memory(question);
  return {{"format", "slimpack-fit-prompt"},           {"version", 1},
          {"dtype", to_string(question.dtype)},        {"prompt_tokens", question.prompt.count()},
          {"max_new_tokens", question.answer.count()}, {"prefill_slice", question.slice.count()},
          {"weight_bytes", memory.weights.count()},    {"cache_bytes", memory.cache.count()},
          {"angle_bytes", memory.angles.count()},      {"slice_bytes", memory.slice.count()},
          {"total_bytes", memory.total().count()}};
}

}  // namespace slimpack
