// slimpack._training: text generation, on tokens.
#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "python/native/generate_binding.h"
#include "slimpack/base/error.h"
#include "slimpack/base/progress.h"
#include "slimpack/base/threads.h"
#include "slimpack/packflow/decode/amx_product.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/generate/batch_generator.h"
#include "slimpack/packflow/generate/generator.h"
#include "slimpack/packflow/speculate/draft_tree.h"
#include "slimpack/packflow/speculate/eagle_draft.h"
#include "slimpack/packflow/speculate/expected_speed.h"
#include "slimpack/packflow/speculate/hetero_spec.h"
#include "slimpack/packflow/speculate/ngram_draft.h"
#include "slimpack/packflow/speculate/verification_costs.h"

namespace nb = nanobind;

namespace slimpack {
namespace {

/// The kind of that name. Throws InvalidInput naming all of them.
template <class Kind, std::size_t kCount>
Kind named(const char* what, const std::string& name, const std::array<Kind, kCount>& kinds) {
  std::string all;
  for (const Kind kind : kinds) {
    if (to_string(kind) == name) return kind;
    all += fmt::format("{}{}", all.empty() ? "" : ", ", to_string(kind));
  }
  invalid_input("{} is '{}'; give one of {}", what, name, all);
}

/// How large the trees of guesses are.
enum class Rule { kExpected, kFixed, kHeteroSpec, kRecord };

std::string_view to_string(Rule rule) {
  switch (rule) {
    case Rule::kExpected:
      return "expected";
    case Rule::kFixed:
      return "fixed";
    case Rule::kHeteroSpec:
      return "heterospec";
    case Rule::kRecord:
      return "record";
  }
  return "";
}

/// How tokens are guessed.
struct DraftSettings {
  bool ngrams = false;
  std::filesystem::path head;  ///< the folder of an EAGLE-3 head; empty = none
  std::string rule = "expected";
  std::optional<std::int64_t> depth, rows, width;  ///< none = the rule's own
};

TreeSize size_of(const DraftSettings& settings, const TreeSize& usual) {
  return {settings.depth.value_or(usual.depth), settings.rows.value_or(usual.rows),
          settings.width.value_or(usual.width)};
}

/// REQUIRES: something guesses.
std::unique_ptr<Draft> make_draft(const DraftSettings& settings, const LanguageModel& model) {
  if (settings.head.empty()) return std::make_unique<NgramDraft>();
  auto head = make_eagle_draft(load_eagle_head(settings.head, model), model);
  if (!settings.ngrams) return head;
  return std::make_unique<JointDraft>(std::move(head));
}

std::unique_ptr<TreeRule> make_expected_speed(const DraftSettings& settings, LanguageModel& model) {
  // More rows than these cost much more at a time (LanguageModel::run).
  const TreeSize most = size_of(settings, {.depth = 16, .rows = 64, .width = 10});
  most.require_sound();
  return std::make_unique<ExpectedSpeedTree>(most, measure_verification(model, most.rows),
                                             monotonic_now);
}

std::unique_ptr<TreeRule> make_hetero_spec(const DraftSettings& settings) {
  const auto file = settings.head / kEntropyBinsFile;
  if (!std::filesystem::exists(file))
    invalid_input(
        "draft-rule heterospec needs '{}', bins of an EAGLE-3 head's entropy; fit them with "
        "fit_heterospec, or take another rule",
        file.string());
  const EntropyBins bins = read_entropy_bins(file);
  if (size_of(settings, bins.base) != bins.base)
    invalid_input(
        "'{}' was fitted to trees of depth {}, {} rows and width {}; leave draft-depth, draft-rows "
        "and draft-width away, or fit it again",
        file.string(), bins.base.depth, bins.base.rows, bins.base.width);
  return std::make_unique<HeteroSpecTree>(bins);
}

std::unique_ptr<TreeRule> make_rule(const DraftSettings& settings, LanguageModel& model,
                                    std::vector<EntropyRecord>& records) {
  const TreeSize size = size_of(settings, TreeSize());
  const Rule rule =
      named("draft-rule", settings.rule,
            std::array{Rule::kExpected, Rule::kFixed, Rule::kHeteroSpec, Rule::kRecord});
  if (settings.ngrams && (rule == Rule::kHeteroSpec || rule == Rule::kRecord))
    invalid_input(
        "draft-rule {} goes by a head's entropy, which n-grams lack; give the folder of an EAGLE-3 "
        "head alone",
        settings.rule);
  switch (rule) {
    case Rule::kExpected:
      return make_expected_speed(settings, model);
    case Rule::kFixed:
      return std::make_unique<FixedTree>(size);
    case Rule::kHeteroSpec:
      return make_hetero_spec(settings);
    case Rule::kRecord:
      break;
  }
  return std::make_unique<EntropyRecorder>(size, records);
}

Generator make_generator(LanguageModel& model, const DraftSettings& settings,
                         std::vector<EntropyRecord>& records) {
  if (!settings.ngrams && settings.head.empty()) return Generator(model);
  auto draft = make_draft(settings, model);
  return {model, std::move(draft), make_rule(settings, model, records)};
}

/// A model and the sequence that it went on from last.
class PythonGenerator {
 public:
  PythonGenerator(const std::filesystem::path& folder, Dtype dtype, DeviceKind device,
                  const DraftSettings& draft)
      : model_(load_language_model(model_folder(folder), dtype, find_device(device))),
        draft_(draft),
        generator_(make_generator(model_, draft, records_)) {}

  [[nodiscard]] const Decoder& shape() const { return model_.shape(); }
  void forget() { generator_.forget(); }
  void use_sparse(const std::string& method, std::vector<std::int64_t> measured_heads) {
    for (const std::int64_t head : measured_heads)
      if (head < 0 || head >= model_.shape().kinds.front().num_heads)
        invalid_input("measured head {} is not among the model's {}", head,
                      model_.shape().kinds.front().num_heads);
    if (std::ranges::all_of(model_.shape().kinds,
                            [](const LayerShape& layer) { return layer.window > 0; }))
      invalid_input(
          "every layer of the model attends within a window, which leaves nothing to sparse "
          "attention; leave it away");
    generator_.use_sparse(SparsePrefill(sparse_method(method), std::move(measured_heads)));
  }
  double nats(const std::vector<std::int64_t>& text, std::int64_t from,
              const GenerateSettings& settings) {
    const nb::gil_scoped_release unlocked;
    return generator_.nats(text, from, settings);
  }

  [[nodiscard]] std::size_t records() const { return records_.size(); }
  /// Fits bins to what the rule "record" kept, and writes them beside the draft head.
  void fit_entropy_bins() const {
    write_entropy_bins({size_of(draft_, TreeSize()), slimpack::fit_entropy_bins(records_)},
                       draft_.head / kEntropyBinsFile);
  }

  /// A signal that Python handles, such as Ctrl-C, ends it after the token in progress and raises
  /// what the handler raised.
  nb::dict generate(const std::vector<std::int64_t>& prompt, const GenerateSettings& settings,
                    const nb::object& on_token) {
    const auto listener = [&](std::int64_t token) { return tell(on_token, token); };
    Generated made;
    {
      const nb::gil_scoped_release unlocked;
      made = generator_.generate(prompt, settings, listener);
    }
    return to_dict(made);
  }

  /// Without guesses and sparse attention. Signals as in generate().
  nb::list generate_batch(const std::vector<BatchPrompt>& prompts, std::int64_t batch,
                          const GenerateSettings& settings, const nb::object& on_token) {
    const auto listener = [&](std::size_t prompt, std::int64_t token) {
      return tell(on_token, prompt, token);
    };
    std::vector<Generated> made;
    {
      const nb::gil_scoped_release unlocked;
      made = slimpack::generate_batch(model_, prompts, batch, settings, listener);
    }
    nb::list dicts;
    for (const Generated& one : made) dicts.append(to_dict(one));
    return dicts;
  }

 private:
  /// Whether Python wants more; throws what it raises, or what a signal's handler does.
  template <class... Args>
  static bool tell(const nb::object& on_token, Args... args) {
    const nb::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (on_token.is_none()) return true;
    const nb::object answer = on_token(args...);
    return answer.is_none() || nb::cast<bool>(answer);
  }
  static nb::dict to_dict(const Generated& made) {
    nb::dict dict;
    dict["tokens"] = made.tokens;
    dict["end"] = std::string(to_string(made.end));
    dict["prompt_tokens"] = made.prompt_tokens;
    dict["reused_tokens"] = made.reused_tokens;
    dict["first_token_seconds"] = to_seconds(made.first_token);
    dict["decoding_seconds"] = to_seconds(made.decoding);
    const SpeculationFigures& s = made.speculation;
    dict["passes"] = s.passes;
    dict["rows"] = s.rows;
    dict["guessed"] = s.guessed;
    dict["accepted"] = s.accepted;
    dict["drafting_seconds"] = to_seconds(s.drafting);
    dict["verifying_seconds"] = to_seconds(s.verifying);
    const SparseFigures& sparse = made.sparse;
    dict["computed_pairs"] = sparse.computed_pairs;
    dict["dense_pairs"] = sparse.dense_pairs;
    dict["heads"] = sparse.heads;
    dict["dense_heads"] = sparse.dense_heads;
    dict["measured_heads"] = sparse.measured;
    dict["least_kept"] = sparse.least_kept;
    dict["sum_of_means"] = sparse.sum_of_means;
    return dict;
  }

  LanguageModel model_;
  DraftSettings draft_;
  std::vector<EntropyRecord> records_;
  Generator generator_;
};

}  // namespace

void bind_generation(nb::module_& m) {
  nb::class_<GenerateSettings> settings(m, "GenerateSettings");
  settings.def(nb::init<>())
      .def_rw("max_new_tokens", &GenerateSettings::max_new_tokens)
      .def_rw("stop_tokens", &GenerateSettings::stop_tokens)
      .def_rw("prefill_slice", &GenerateSettings::prefill_slice);
  const auto add_sampling = [&]<class Value>(const char* name, Value SamplingSettings::*field) {
    settings.def_prop_rw(
        name, [field](const GenerateSettings& s) { return s.sampling.*field; },
        [field](GenerateSettings& s, Value value) { s.sampling.*field = value; });
  };
  add_sampling("temperature", &SamplingSettings::temperature);
  add_sampling("top_k", &SamplingSettings::top_k);
  add_sampling("top_p", &SamplingSettings::top_p);
  add_sampling("min_p", &SamplingSettings::min_p);
  add_sampling("seed", &SamplingSettings::seed);

  nb::class_<DraftSettings>(m, "DraftSettings")
      .def(nb::init<>())
      .def_rw("ngrams", &DraftSettings::ngrams)
      .def_rw("head", &DraftSettings::head)
      .def_rw("rule", &DraftSettings::rule)
      .def_rw("depth", &DraftSettings::depth, nb::arg().none())
      .def_rw("rows", &DraftSettings::rows, nb::arg().none())
      .def_rw("width", &DraftSettings::width, nb::arg().none());

  nb::class_<BatchPrompt>(m, "BatchPrompt")
      .def(nb::init<std::vector<std::int64_t>, std::uint64_t>(), nb::arg("tokens"),
           nb::arg("seed"));

  nb::class_<PythonGenerator>(m, "Generator", "A model that goes on from tokens")
      .def(
          "__init__",
          [](PythonGenerator* at, const std::filesystem::path& folder, const std::string& dtype,
             const std::string& device, const DraftSettings& draft) {
            new (at) PythonGenerator(
                folder, named("dtype", dtype, std::array{Dtype::kFp32, Dtype::kBf16, Dtype::kFp64}),
                named("device", device, std::array{DeviceKind::kCpu, DeviceKind::kCuda}), draft);
          },
          nb::arg("folder"), nb::arg("dtype"), nb::arg("device"), nb::arg("draft"))
      .def_prop_ro("vocabulary", [](const PythonGenerator& g) { return g.shape().vocab_size; })
      .def_prop_ro("positions",
                   [](const PythonGenerator& g) { return g.shape().max_positions.count(); })
      .def("forget", &PythonGenerator::forget)
      .def("use_sparse", &PythonGenerator::use_sparse, nb::arg("method"), nb::arg("measured_heads"))
      .def("nats", &PythonGenerator::nats, nb::arg("text"), nb::arg("begin"), nb::arg("settings"))
      .def_prop_ro("records", &PythonGenerator::records)
      .def("fit_entropy_bins", &PythonGenerator::fit_entropy_bins)
      .def("generate", &PythonGenerator::generate, nb::arg("prompt"), nb::arg("settings"),
           nb::arg("on_token").none())
      .def("generate_batch", &PythonGenerator::generate_batch, nb::arg("prompts"), nb::arg("batch"),
           nb::arg("settings"), nb::arg("on_token").none());
  m.def("has_fast_bf16", &has_amx, "Whether this processor multiplies bf16 matrices.");
  m.def("model_folder", &model_folder, nb::arg("folder"),
        "The folder, or that of its newest checkpoint.");
  m.def("require_threads", &require_threads, nb::arg("count"),
        "Raises RuntimeError unless this process can have so many threads at the same time.");
}

}  // namespace slimpack
