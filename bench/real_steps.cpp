#include "bench/real_steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/program.h"
#include "slimpack/base/error.h"
#include "slimpack/base/file.h"
#include "slimpack/schedule/lowered_schedule.h"
#include "slimpack/schedule/schedule.h"

namespace slimpack {
namespace {

/// Python's own shuffle: another language's would choose other documents.
constexpr const char* kListFiles = R"(import pathlib, random, sysconfig
root = pathlib.Path(sysconfig.get_paths()['stdlib'])
files = sorted(p for p in root.rglob('*.py') if 'site-packages' not in p.parts)
random.Random({}).shuffle(files)
print('\n'.join(str(p) for p in files[:2000])))";

}  // namespace

std::vector<std::vector<std::int64_t>> standard_library_documents(Tokens context,
                                                                  Tokens step_tokens,
                                                                  std::int64_t seed) {
  const std::string script = fmt::format(kListFiles, seed);
  std::vector<std::vector<std::int64_t>> documents;
  Tokens total{0};
  for (const std::string& path : lines_of(fmt::format("python3 -c \"{}\"", script))) {
    if (total >= step_tokens) break;
    const std::string text = read_file(path, "document");
    if (text.size() < 2) continue;
    const auto size = std::min<std::size_t>(text.size(), static_cast<std::size_t>(context.count()));
    auto& document = documents.emplace_back();
    for (std::size_t i = 0; i < size; ++i) document.push_back(static_cast<unsigned char>(text[i]));
    total += Tokens(static_cast<std::int64_t>(size));
  }
  if (total < step_tokens)
    invalid_input(
        "python3 gave {} tokens of source files, {} are needed; check that 'python3' runs",
        total.count(), step_tokens.count());
  return documents;
}

void add_step_options(CLI::App& app, StepOptions& options) {
  const auto tokens = [&](const char* name, Tokens& value, const char* help) {
    app.add_option_function<std::int64_t>(
           name, [&value](std::int64_t count) { value = Tokens(count); }, help)
        ->check(CLI::PositiveNumber)
        ->default_str(std::to_string(value.count()));
  };
  tokens("--context", options.context, "Documents are truncated here");
  tokens("--step-tokens", options.step_tokens, "Documents are drawn up to this");
  // Two repetitions have no middle one.
  app.add_option("--repetitions", options.repetitions, "Medians are taken over these, at least 3")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000));
  app.add_flag_callback(
      "--quick",
      [&options] { options.context = Tokens(4096), options.step_tokens = Tokens(16384); },
      "Context 4,096 and 16,384 tokens");
  app.add_option("--json", options.json, "Write the figures here");
}

Decoder step_model(Tokens context, std::int64_t layers) {
  Decoder s;
  s.kinds = {{.hidden_size = 256,
              .num_heads = 8,
              .num_kv_heads = 4,
              .head_dim = 32,
              .value_dim = 32,
              .dense_width = 704}};
  s.set_layers(layers);
  s.vocab_size = 256;
  s.max_positions = context;
  return s;
}

RunnablePlan whole_documents(const SequenceLengths& lengths, const Costs& cost) {
  RunnablePlan step;
  step.plan.lengths = lengths;
  step.plan.layout = balanced_layout(cost, lengths, 1);
  ReplicaPlan& replica = step.plan.replicas.emplace_back();
  replica.sequences = all_sequences(lengths);
  for (const SequenceId q : replica.sequences)
    replica.packs.forward.push_back({{{q, Tokens(0), lengths[q.index()]}}});
  replica.packs.backward = replica.packs.forward;
  step.schedules.push_back(one_f_one_b(replica.packs, 1));
  step.lowered = lower(step.plan, step.schedules);
  step.prediction = predict(step, cost);
  return step;
}

}  // namespace slimpack
