// Draws the sequences of steps, from one dataset or from a mixture of several. The draws can be
// resumed at any step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "slimpack/base/units.h"
#include "slimpack/data/sequences.h"
#include "slimpack/data/source_order.h"

namespace slimpack {

class JsonFields;

/// Where the sampler stands. With the same datasets and options, the same cursor continues with the
/// same sequences on every machine.
struct SamplerCursor {
  std::uint64_t seed = 0;
  std::vector<SourcePlace> sources = {};  ///< by source; empty = before the first step

  bool operator==(const SamplerCursor&) const = default;
};

/// {"seed", "epoch", "position"} for one source, {"seed", "sources": [{"epoch", "position"}, …]}
/// for several or none.
[[nodiscard]] nlohmann::json to_json(const SamplerCursor& cursor);
/// Throws InvalidInput naming a field that is missing, mistyped or out of range.
[[nodiscard]] SamplerCursor sampler_cursor_from_json(const JsonFields& fields);

/// A dataset of a mixture.
struct MixtureSource {
  std::string name;             ///< for messages, as "dataset 'runs/a'"
  std::vector<Tokens> lengths;  ///< of all documents, as IndexedDataset::lengths() returns them
};

/// Datasets that train together. Of `weights` and `epochs` one at most has entries, one for each
/// source; without any, every source has one epoch.
struct Mixture {
  std::vector<MixtureSource> sources;
  /// Shares of the trained tokens, beside each other. They hold at every moment, up to one sequence
  /// of a source. A source that is used up begins anew.
  std::vector<double> weights = {};
  /// Passes over each source in an epoch of the mixture, which gives so many of its sequences,
  /// rounded to a whole number. A source goes on in the next epoch where it stopped in this one, so
  /// all its sequences have trained equally often, up to one time.
  std::vector<double> epochs = {};
};

[[nodiscard]] Mixture mixture_of_one(std::vector<Tokens> lengths, std::string name = "the dataset");

struct SamplerOptions {
  SequenceRule sequences;     ///< how documents become sequences
  Tokens step_tokens{32768};  ///< a step ends with the sequence that reaches or passes this
};

/// Draws whole sequences without replacement. Each source is drawn in the order of SourceOrder. The
/// next sequence comes from the source that has given the fewest tokens for its share, of equal
/// ones from the first. The step at an epoch's end is filled from the next epoch.
///
/// Documents are numbered through: those of a source come after all those of the sources before.
class Sampler {
 public:
  /// Throws InvalidInput as SourceOrder for each source; if an option is not positive; if shares
  /// are out of range, or give a source no sequence at all; or if the cursor does not fit.
  Sampler(Mixture mixture, SamplerOptions options, SamplerCursor cursor);

  /// The sequences of the next step, at least one. O(sequences) if a source begins anew.
  [[nodiscard]] std::vector<DocumentSequence> next_step();

  /// Save this to continue after the step drawn last.
  [[nodiscard]] SamplerCursor cursor() const;

 private:
  struct Source {
    SourceOrder order;
    std::size_t first_document = 0;
    double share = 0;  ///< of tokens, beside other shares
    /// Sequences in an epoch of the mixture; 0 = the mixture has weights and so no epochs.
    std::int64_t per_epoch = 0;
  };
  [[nodiscard]] bool may_give(const Source& source) const;
  [[nodiscard]] Source& next_source();
  void find_epoch();

  SamplerOptions options_;
  std::uint64_t seed_;
  std::vector<Source> sources_;
  std::int64_t epoch_ = 0;  ///< of the mixture
};

}  // namespace slimpack
