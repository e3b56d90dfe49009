// slimpack._training: text generation, on tokens.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <fmt/format.h>

#include <array>
#include <memory>
#include <optional>

#include "python/native/generate_binding.h"
#include "slimpack/base/error.h"
#include "slimpack/packflow/decode/amx_product.h"
#include "slimpack/packflow/device/device.h"
#include "slimpack/packflow/generate/eagle_draft.h"
#include "slimpack/packflow/generate/fixed_tree.h"
#include "slimpack/packflow/generate/generator.h"
#include "slimpack/packflow/generate/ngram_draft.h"

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

/// How tokens are guessed.
struct DraftSettings {
  std::string draft;  ///< empty = not at all, "ngram", or the folder of an EAGLE-3 head
  std::int64_t depth = 6;
  std::int64_t rows = 60;
  std::int64_t width = 10;
};

std::unique_ptr<Draft> make_draft(const std::string& name, const LanguageModel& model) {
  if (name == "ngram") return std::make_unique<NgramDraft>();
  return make_eagle_draft(load_eagle_head(name, model), model);
}

Generator make_generator(LanguageModel& model, const DraftSettings& settings) {
  if (settings.draft.empty()) return Generator(model);
  return {model, make_draft(settings.draft, model),
          std::make_unique<FixedTree>(settings.depth, settings.rows, settings.width)};
}

/// A model and the sequence that it went on from last.
class PythonGenerator {
 public:
  PythonGenerator(const std::string& folder, Dtype dtype, DeviceKind device,
                  const DraftSettings& draft)
      : model_(load_language_model(model_folder(folder), dtype, find_device(device))),
        generator_(make_generator(model_, draft)) {}

  [[nodiscard]] const ModelShape& shape() const { return model_.shape(); }
  void forget() { generator_.forget(); }

  /// A signal that Python handles, such as Ctrl-C, ends it after the token in progress and raises
  /// what the handler raised.
  nb::dict generate(const std::vector<std::int64_t>& prompt, const GenerateSettings& settings,
                    const nb::object& on_token) {
    std::optional<nb::python_error> raised;
    const auto listener = [&](std::int64_t token) {
      const nb::gil_scoped_acquire lock;
      try {
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
        if (on_token.is_none()) return true;
        const nb::object answer = on_token(token);
        return answer.is_none() || nb::cast<bool>(answer);
      } catch (nb::python_error& error) {
        raised.emplace(std::move(error));
        return false;
      }
    };
    Generated made;
    {
      const nb::gil_scoped_release unlocked;
      made = generator_.generate(prompt, settings, listener);
    }
    if (raised) throw nb::python_error(*raised);
    return to_dict(made);
  }

 private:
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
    return dict;
  }

  LanguageModel model_;
  Generator generator_;
};

}  // namespace

void bind_generation(nb::module_& m) {
  nb::class_<GenerateSettings>(m, "GenerateSettings")
      .def(nb::init<>())
      .def_rw("max_new_tokens", &GenerateSettings::max_new_tokens)
      .def_rw("stop_tokens", &GenerateSettings::stop_tokens)
      .def_rw("prefill_slice", &GenerateSettings::prefill_slice)
      .def_prop_rw(
          "temperature", [](const GenerateSettings& s) { return s.sampling.temperature; },
          [](GenerateSettings& s, double v) { s.sampling.temperature = v; })
      .def_prop_rw(
          "top_k", [](const GenerateSettings& s) { return s.sampling.top_k; },
          [](GenerateSettings& s, std::int64_t v) { s.sampling.top_k = v; })
      .def_prop_rw(
          "top_p", [](const GenerateSettings& s) { return s.sampling.top_p; },
          [](GenerateSettings& s, double v) { s.sampling.top_p = v; })
      .def_prop_rw(
          "min_p", [](const GenerateSettings& s) { return s.sampling.min_p; },
          [](GenerateSettings& s, double v) { s.sampling.min_p = v; })
      .def_prop_rw(
          "seed", [](const GenerateSettings& s) { return s.sampling.seed; },
          [](GenerateSettings& s, std::uint64_t v) { s.sampling.seed = v; });

  nb::class_<DraftSettings>(m, "DraftSettings")
      .def(nb::init<>())
      .def_rw("draft", &DraftSettings::draft)
      .def_rw("depth", &DraftSettings::depth)
      .def_rw("rows", &DraftSettings::rows)
      .def_rw("width", &DraftSettings::width);

  nb::class_<PythonGenerator>(m, "Generator", "A model that goes on from tokens")
      .def(
          "__init__",
          [](PythonGenerator* at, const std::string& folder, const std::string& dtype,
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
      .def("generate", &PythonGenerator::generate, nb::arg("prompt"), nb::arg("settings"),
           nb::arg("on_token").none());
  m.def("has_fast_bf16", &has_amx, "Whether this processor multiplies bf16 matrices.");
  m.def(
      "model_folder", [](const std::string& folder) { return model_folder(folder).string(); },
      nb::arg("folder"), "The folder, or that of its newest checkpoint.");
}

}  // namespace slimpack
