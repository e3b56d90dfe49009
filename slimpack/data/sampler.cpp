#include "slimpack/data/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/base/json_fields.h"
#include "slimpack/base/random.h"

namespace slimpack {

namespace {

/// More epochs than anybody trains. Epochs times sequences do not overflow.
constexpr std::int64_t kMaxEpoch = std::int64_t{1} << 30;

nlohmann::json to_json(const SourcePlace& place) {
  return {{"epoch", place.epoch}, {"position", place.position}};
}

SourcePlace source_place_from_json(const JsonFields& fields) {
  return {fields.integer("epoch", 0, kMaxEpoch), fields.integer("position", 0)};
}

/// Sources draw in unrelated orders. The first one draws as it would alone.
std::uint64_t source_seed(std::uint64_t seed, std::size_t source) {
  return source == 0 ? seed : Rng(Rng(seed).next() + source).next();
}

void require_shares(const Mixture& mixture, const std::vector<double>& shares,
                    std::string_view what) {
  constexpr double kLeast = 1e-6;  // quotients stay far from the limits of numbers
  constexpr double kMost = 1e6;
  if (shares.empty()) return;
  if (shares.size() != mixture.sources.size())
    invalid_input("there are {} {} for {} sources; give one for each", shares.size(), what,
                  mixture.sources.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    if (!(shares[i] >= kLeast && shares[i] <= kMost))
      invalid_input("{} of {} are {}, must be from {:f} to {:.0f}", what, mixture.sources[i].name,
                    shares[i], kLeast, kMost);
}

void require_options(const Mixture& mixture, const SamplerOptions& options,
                     const SamplerCursor& cursor) {
  if (options.sequences.context < Tokens(1))
    invalid_input("context is {} tokens, must be at least 1", options.sequences.context.count());
  if (options.step_tokens < Tokens(1))
    invalid_input("step_tokens is {}, must be at least 1", options.step_tokens.count());
  if (mixture.sources.empty()) invalid_input("there is no dataset to draw from; give one");
  if (!mixture.weights.empty() && !mixture.epochs.empty())
    invalid_input("a mixture has weights and epochs; give one of them");
  require_shares(mixture, mixture.weights, "weights");
  require_shares(mixture, mixture.epochs, "epochs");
  if (!cursor.sources.empty() && cursor.sources.size() != mixture.sources.size())
    invalid_input(
        "data cursor has {} sources, but there are {}; resume with those that the run began with",
        cursor.sources.size(), mixture.sources.size());
}

/// Sequences in an epoch of the mixture.
std::int64_t sequences_per_epoch(const SourceOrder& order, double epochs, std::string_view name) {
  const double all = static_cast<double>(order.sequences());
  const auto rounded = static_cast<std::int64_t>(std::llround(epochs * all));
  if (rounded == 0)
    invalid_input("epochs of {} are {}, of its {} sequences that rounds to none; raise epochs",
                  name, epochs, order.sequences());
  return rounded;
}

}  // namespace

nlohmann::json to_json(const SamplerCursor& cursor) {
  nlohmann::json json{{"seed", cursor.seed}};
  if (cursor.sources.size() == 1) {
    json.update(to_json(cursor.sources.front()));
    return json;
  }
  json["sources"] = nlohmann::json::array();
  for (const SourcePlace& place : cursor.sources) json["sources"].push_back(to_json(place));
  return json;
}

SamplerCursor sampler_cursor_from_json(const JsonFields& fields) {
  SamplerCursor cursor;
  // Seeds use all 64 bits, but JsonFields::integer only reads up to 2^63 − 1.
  const nlohmann::json& seed = fields.at("seed");
  cursor.seed = seed.is_number_unsigned() ? seed.get<std::uint64_t>()
                                          : static_cast<std::uint64_t>(fields.integer("seed", 0));
  if (!fields.has("sources")) {
    cursor.sources = {source_place_from_json(fields)};
    return cursor;
  }
  for (const nlohmann::json& place : fields.array("sources"))
    cursor.sources.push_back(source_place_from_json(
        JsonFields(place, fmt::format("{}: sources[{}]", fields.origin(), cursor.sources.size()))));
  return cursor;
}

Mixture mixture_of_one(std::vector<Tokens> lengths, std::string name) {
  return {{{std::move(name), std::move(lengths)}}};
}

Sampler::Sampler(Mixture mixture, SamplerOptions options, SamplerCursor cursor)
    : options_(options), seed_(cursor.seed) {
  require_options(mixture, options_, cursor);
  cursor.sources.resize(mixture.sources.size());
  std::size_t documents = 0;
  for (std::size_t i = 0; i < mixture.sources.size(); ++i) {
    auto& [name, lengths] = mixture.sources[i];
    const std::size_t first_document = std::exchange(documents, documents + lengths.size());
    SourceOrder order(std::move(lengths), options_.sequences, source_seed(seed_, i),
                      cursor.sources[i], name);
    if (!mixture.weights.empty()) {
      sources_.push_back({std::move(order), first_document, mixture.weights[i]});
      continue;
    }
    const double epochs = mixture.epochs.empty() ? 1 : mixture.epochs[i];
    const std::int64_t per_epoch = sequences_per_epoch(order, epochs, name);
    const double passes = static_cast<double>(per_epoch) / static_cast<double>(order.sequences());
    const double share = passes * static_cast<double>(order.tokens().count());
    sources_.push_back({std::move(order), first_document, share, per_epoch});
  }
  if (mixture.weights.empty()) find_epoch();
}

void Sampler::find_epoch() {
  epoch_ = std::numeric_limits<std::int64_t>::max();
  for (const Source& source : sources_)
    epoch_ = std::min(epoch_, source.order.drawn_sequences() / source.per_epoch);
  for (const Source& source : sources_)
    if (source.order.drawn_sequences() > (epoch_ + 1) * source.per_epoch)
      invalid_input(
          "data cursor has sources in different epochs of the mixture; resume with the sources and "
          "epochs that the run began with");
}

bool Sampler::may_give(const Source& source) const {
  return source.per_epoch == 0 || source.order.drawn_sequences() < (epoch_ + 1) * source.per_epoch;
}

Sampler::Source& Sampler::next_source() {
  Source* next = nullptr;
  double fewest = std::numeric_limits<double>::infinity();
  for (Source& source : sources_) {
    const double drawn = source.order.drawn_tokens() / source.share;
    if (!may_give(source) || drawn >= fewest) continue;
    next = &source;
    fewest = drawn;
  }
  if (next != nullptr) return *next;
  ++epoch_;
  return next_source();
}

std::vector<DocumentSequence> Sampler::next_step() {
  std::vector<DocumentSequence> step;
  for (Tokens drawn; drawn < options_.step_tokens; drawn += step.back().length) {
    Source& source = next_source();
    step.push_back(source.order.next());
    step.back().document += source.first_document;
  }
  return step;
}

SamplerCursor Sampler::cursor() const {
  SamplerCursor cursor{.seed = seed_};
  for (const Source& source : sources_) cursor.sources.push_back(source.order.place());
  return cursor;
}

}  // namespace slimpack
