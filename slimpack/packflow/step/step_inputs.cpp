#include "slimpack/packflow/step/step_inputs.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/nonzero.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "slimpack/base/error.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

void require_in_vocabulary(const std::vector<std::int64_t>& tokens, std::int64_t vocab_size) {
  for (const std::int64_t token : tokens)
    if (token < 0 || token >= vocab_size)
      invalid_input(
          "token {} lies outside the model's vocabulary of {}; the dataset was built "
          "with another tokenizer",
          token, vocab_size);
}

/// A row predicts the token after it, if that is a target.
SequenceTensors tensors_of(const SequenceTokens& sequence) {
  const auto& [tokens, targets, weights] = sequence;
  SLIMPACK_CHECK(tokens.size() == targets.size() && (targets.empty() || targets.front() == 0),
                 "{} tokens, {} entries of targets", tokens.size(), targets.size());
  const auto length = static_cast<std::int64_t>(tokens.size());
  SequenceTensors rows{
      at::empty({length}, at::kLong), at::full({length}, kNoTarget, at::kLong), {}};
  std::ranges::copy(tokens, rows.tokens_L.mutable_data_ptr<std::int64_t>());
  auto* const targets_L = rows.targets_L.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 1; i < tokens.size(); ++i)
    if (targets[i] != 0) targets_L[i - 1] = tokens[i];
  return rows;
}

/// Weights of the targets, by token. Empty = 1 each.
std::vector<double> target_weights(const SequenceTokens& sequence, LossKind kind) {
  std::vector<double> weights = sequence.weights;
  SLIMPACK_CHECK(weights.empty() || weights.size() == sequence.tokens.size(),
                 "{} tokens, {} weights", sequence.tokens.size(), weights.size());
  if (kind == LossKind::kToken && weights.empty()) return {};
  weights.resize(sequence.tokens.size(), 1);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (sequence.targets[i] == 0) continue;
    if (!std::isfinite(weights[i]) || weights[i] <= 0)
      invalid_input(
          "the weight of token {} is {}, a target's is a number above 0; leave the token out of "
          "the "
          "targets if the loss should not count it",
          i, weights[i]);
    sum += weights[i];
  }
  if (kind == LossKind::kDocument)
    for (double& weight : weights) weight /= sum;
  return weights;
}

/// Sets the rows' weights, and returns their sum.
double set_weights(SequenceTensors& rows, const SequenceTokens& sequence, LossKind kind) {
  const std::int64_t targets = count_of(sequence.targets);
  if (targets == 0) return 0;
  const std::vector<double> weights = target_weights(sequence, kind);
  if (weights.empty()) return static_cast<double>(targets);
  rows.weights_L = at::zeros({rows.targets_L.size(0)}, at::kDouble);
  auto* const weights_L = rows.weights_L.mutable_data_ptr<double>();
  double sum = 0;
  for (std::size_t i = 1; i < weights.size(); ++i)
    if (sequence.targets[i] != 0) sum += weights_L[i - 1] = weights[i];
  return kind == LossKind::kDocument ? 1 : sum;
}

/// `read` gives a tensor by row of a sequence.
template <class Read>
at::Tensor rows_of(const StepTokens& tokens, const PackShare& share, at::ScalarType type,
                   Read read) {
  std::vector<at::Tensor> parts;
  for (std::size_t i = 0; i < share.pack().slices.size(); ++i) {
    const Slice& s = share.pack().slices[i];
    const RowShare own = share.of(i);
    const std::int64_t rows = own.rows(s).count();
    if (rows == 0) continue;
    const at::Tensor of_sequence_L = read(tokens.by_sequence.at(s.sequence.index()));
    const std::int64_t begin = own.first(s).count();
    const std::int64_t end = std::min(begin + rows * own.replicas, of_sequence_L.size(0));
    parts.push_back(of_sequence_L.slice(0, begin, end, own.replicas));
  }
  if (parts.empty()) parts.push_back(at::empty({0}, type));
  return joined_rows(parts);
}

}  // namespace

StepTokens make_step_tokens(std::span<const SequenceTokens> sequences, std::int64_t vocab_size,
                            LossKind kind) {
  StepTokens result;
  for (const SequenceTokens& sequence : sequences) {
    require_in_vocabulary(sequence.tokens, vocab_size);
    SequenceTensors& rows = result.by_sequence.emplace_back(tensors_of(sequence));
    result.targets += count_of(sequence.targets);
    result.weight += set_weights(rows, sequence, kind);
  }
  return result;
}

StepTokens make_step_tokens(const std::vector<std::vector<std::int64_t>>& sequences,
                            std::int64_t vocab_size) {
  std::vector<SequenceTokens> with_targets;
  for (const auto& tokens : sequences) with_targets.push_back({tokens, all_targets(tokens.size())});
  return make_step_tokens(with_targets, vocab_size);
}

at::Tensor tokens_of(const StepTokens& tokens, const PackShare& share) {
  return rows_of(tokens, share, at::kLong,
                 [](const SequenceTensors& rows) { return rows.tokens_L; });
}

namespace {

/// The head leaves rows out where at least one of so many has no target. Moving a row to the front
/// and back takes about twenty hidden states of memory, the head of a row at least the products: on
/// an H100 a hundred times as long.
constexpr std::int64_t kRowsForOneWithout = 64;

/// Weights of rows, 0 without a target; undefined = 1 each. fp64.
at::Tensor weights_of(const StepTokens& tokens, const PackShare& share,
                      const at::Tensor& has_target_T) {
  const auto weighted = [](const SequenceTensors& rows) { return rows.weights_L.defined(); };
  if (std::ranges::any_of(tokens.by_sequence, weighted))
    return rows_of(tokens, share, at::kDouble, [&](const SequenceTensors& rows) {
      return weighted(rows) ? rows.weights_L : rows.targets_L.ne(kNoTarget).to(at::kDouble);
    });
  return has_target_T.all().item<bool>() ? at::Tensor() : has_target_T.to(at::kDouble);
}

}  // namespace

HeadTargets targets_of(const StepTokens& tokens, const PackShare& share, const at::Tensor& like) {
  const at::Tensor targets_T =
      rows_of(tokens, share, at::kLong, [](const SequenceTensors& rows) { return rows.targets_L; });
  const at::Tensor has_target_T = targets_T.ne(kNoTarget);
  at::Tensor weights_P = weights_of(tokens, share, has_target_T);
  HeadTargets targets{.targets_P = targets_T.clamp_min(0), .step_weight = tokens.weight};
  const at::Tensor rows_P = at::nonzero(has_target_T).flatten();
  const std::int64_t without = targets_T.size(0) - rows_P.size(0);
  if (without > 0 && without * kRowsForOneWithout >= targets_T.size(0)) {
    targets.rows_P = rows_P;
    targets.targets_P = targets_T.index_select(0, rows_P);
    weights_P = weights_P.index_select(0, rows_P);
  }
  if (weights_P.defined()) targets.weights_P1 = weights_P.to(accumulate_type(like)).unsqueeze(1);
  return targets;
}

namespace {

/// The rows lie with the ranks of the first stage; at_last: with those of the last one.
void add_spread_rows(const InputReader& reader, PackInputs& inputs) {
  const RowHolder& holder = reader.holder;
  const PackShare held(inputs.pack, holder.replica);
  const std::int64_t rows = held.hidden(holder.tensor, holder.index).rows().count();
  inputs.at_first.emplace(rows_with_one(rows, reader.spread_over, 0));
  inputs.at_last = inputs.at_first;  // the same tensors
  std::swap(inputs.at_last->counts.front(), inputs.at_last->counts.back());
}

PackInputs inputs_of(const InputReader& reader, const MicroPack& pack, const StepTokens& tokens,
                     bool gives) {
  const RowHolder& holder = reader.holder;
  const PackShare held(pack, holder.replica);
  const std::optional<std::size_t> alone =
      gives ? std::optional(exchanged_slice(pack)) : std::nullopt;
  PackInputs inputs{
      pack, {}, std::nullopt, pack_runs(held.in_attention(), reader.like, reader.attention, alone),
      {},   {}, {},           {}};
  if (reader.embeds) inputs.tokens_T = tokens_of(tokens, held);
  if (reader.heads) inputs.targets = targets_of(tokens, held, reader.like);
  if (holder.tensor > 1)
    inputs.by_tensor_rank.emplace(rows_by_tensor_rank(pack, holder.replica, holder.tensor));
  if (reader.spread_over > 0) add_spread_rows(reader, inputs);
  if (!pack.row_zones.empty()) inputs.remapped.emplace(pack, holder.replica);
  return inputs;
}

}  // namespace

InputReader rank_reader(const Decoder& shape, const StageLayout& layout, const RankGrid& grid,
                        const RankPlace& place, std::span<const ContextExchange> exchanges,
                        const at::Tensor& like) {
  const auto here = [&](StageId stage) {
    return layout.placement.rank_of(stage) == place.pipeline;
  };
  const bool spread = grid.spread_vocabulary;
  InputReader reader{
      .holder = {place.replica, grid.tensor, place.tensor},
      .embeds = spread || here(StageId(0)),
      .heads = spread || here(StageId(grid.stages() - 1)),
      .spread_over = spread ? grid.pipeline : 0,
      .like = like,
      .attention = attention_heads(tensor_parallel_part(shape.kinds.front(), grid.tensor))};
  for (const ContextExchange& exchange : exchanges)
    if (here(exchange.giver.stage)) reader.giving.push_back(exchange.giver);
  return reader;
}

std::vector<at::Tensor*> PackInputs::tensors() {
  std::vector<at::Tensor*> all;
  const auto add = [&](const auto& tensors) {
    std::ranges::copy(tensors, std::back_inserter(all));
  };
  if (tokens_T.defined()) all.push_back(&tokens_T);
  if (targets)
    for (at::Tensor* tensor : {&targets->rows_P, &targets->targets_P, &targets->weights_P1})
      if (tensor->defined()) all.push_back(tensor);
  for (PackRun& run : runs)
    if (run.sequences) add(run.sequences->tensors());
  for (std::optional<MemberRows>* rows : {&by_tensor_rank, &at_first, &at_last})
    if (*rows) add((*rows)->tensors());
  if (remapped) add(remapped->tensors());
  return all;
}

StepInputs::StepInputs(const InputReader& reader, const PackPlan& packs, const StepTokens& tokens) {
  const auto add = [&](const std::vector<MicroPack>& of_pass, bool forward,
                       std::vector<PackInputs>& all) {
    for (std::size_t p = 0; p < of_pass.size(); ++p) {
      const bool gives = std::ranges::any_of(reader.giving, [&](const Action& action) {
        return action.pack.index() == p && runs_forward_packs(action.pass) == forward;
      });
      all.push_back(inputs_of(reader, of_pass[p], tokens, gives));
    }
  };
  add(packs.forward, true, forward_);
  add(packs.backward, false, backward_);
  std::vector<at::Tensor*> all;
  for (std::vector<PackInputs>* of_pass : {&forward_, &backward_})
    for (PackInputs& inputs : *of_pass)
      std::ranges::copy(inputs.tensors(), std::back_inserter(all));
  put_on(all, reader.like.device());
}

}  // namespace slimpack
