#include "slimpack/packflow/language/language_model.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "slimpack/base/error.h"
#include "slimpack/packflow/checkpoint/checkpoint_folder.h"
#include "slimpack/packflow/checkpoint/hugging_face_folder.h"
#include "slimpack/packflow/checkpoint/model_tensors.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/packflow/kernels/rms_norm.h"
#include "slimpack/packflow/language/slice_layer.h"

namespace slimpack {
namespace {

namespace fs = std::filesystem;

/// The position of each row: that of a sequence, or of a tree by depth.
std::vector<std::int64_t> positions_of(std::int64_t before, const TokenRows& rows) {
  std::vector<std::int64_t> positions(rows.tokens.size());
  for (std::size_t r = 0; r < positions.size(); ++r) {
    const std::int64_t parent =
        rows.parents.empty() ? static_cast<std::int64_t>(r) - 1 : rows.parents[r];
    positions[r] = parent < 0 ? before : positions[static_cast<std::size_t>(parent)] + 1;
  }
  return positions;
}

OwnKeys own_keys(const TokenRows& rows) {
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  return rows.parents.empty() ? OwnKeys(count) : OwnKeys(rows.parents, count);
}

AnyRowDecoder row_decoder(const Decoder& shape, Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp64:
      return RowDecoder<double>(shape.kinds.front(), shape.rms_norm_eps);
    case Dtype::kFp32:
      return RowDecoder<float>(shape.kinds.front(), shape.rms_norm_eps);
    case Dtype::kBf16:
      break;
  }
  return RowDecoder<c10::BFloat16>(shape.kinds.front(), shape.rms_norm_eps);
}

/// Inputs of wanted layers, side by side.
class Features {
 public:
  Features(const TokenRows& rows, std::int64_t hidden_size, at::TensorOptions options)
      : layers_(rows.feature_layers), width_(hidden_size) {
    if (!layers_.empty())
      tensor_TH_ = at::empty({static_cast<std::int64_t>(rows.tokens.size()),
                              static_cast<std::int64_t>(layers_.size()) * hidden_size},
                             options);
  }
  void see(std::size_t layer, const at::Tensor& x_TH) {
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (layers_[i] == static_cast<std::int64_t>(layer))
        tensor_TH_.narrow(1, static_cast<std::int64_t>(i) * width_, width_).copy_(x_TH);
  }
  [[nodiscard]] const at::Tensor& tensor() const { return tensor_TH_; }

 private:
  std::span<const std::int64_t> layers_;
  std::int64_t width_;
  at::Tensor tensor_TH_;
};

}  // namespace

LanguageModel::LanguageModel(const Decoder& shape, const NamedTensors& tensors, Dtype dtype,
                             at::Device device)
    : shape_(shape),
      dtype_(dtype),
      device_(device),
      weights_(decoder_weights(shape, tensors, dtype, device)),
      rope_(shape, dtype, device),
      rows_(row_decoder(shape, dtype)) {}

void LanguageModel::require_fits(const KeyValueCache& cache, const TokenRows& rows) const {
  for (const std::int64_t token : rows.tokens)
    if (token < 0 || token >= shape_.vocab_size)
      invalid_input(
          "token {} is not in the model's vocabulary of {}; was it made by another "
          "tokenizer?",
          token, shape_.vocab_size);
  const std::int64_t end = cache.size() + static_cast<std::int64_t>(rows.tokens.size());
  if (rows.parents.empty() && end > shape_.max_positions.count())
    invalid_input(
        "{} tokens are more than the model's {} positions; shorten the prompt or ask for "
        "fewer new tokens",
        end, shape_.max_positions.count());
}

bool LanguageModel::runs_as_rows(std::int64_t rows) const {
  // Up to here a product reads the weights once (bf16) or computes as fast as libtorch's (fp32).
  constexpr std::int64_t kFewRows = 64;
  return device_.is_cpu() && rows <= kFewRows;
}

template <class Input>
RowStates LanguageModel::run_few(RowDecoder<Input>& decoder,
                                 std::span<const SequenceRows> sequences, const TokenRows& rows,
                                 std::span<const std::int64_t> positions) {
  using T = Sum<Input>;
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  const at::Tensor x_TH = at::empty({count, shape_.hidden_size()}, accumulate_type(dtype_));
  const RowsView<T> x = view_of<T>(x_TH);
  for (std::int64_t r = 0; r < count; ++r)
    weights_.embedding.panels().copy_row<Input>(rows.tokens[static_cast<std::size_t>(r)], x.row(r));
  const RowPlaces<T> places{sequences, positions, rope_.cos_LD().const_data_ptr<T>(),
                            rope_.sin_LD().const_data_ptr<T>()};
  Features features(rows, shape_.hidden_size(), x_TH.options());
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    features.see(layer, x_TH);
    decoder.run_layer(weights_.layers[layer], layer, places, x);
  }
  return {x_TH, features.tensor()};
}

RowStates LanguageModel::run_slice(KeyValueCache& cache, const TokenRows& rows, const OwnKeys& own,
                                   std::span<const std::int64_t> positions) {
  const at::Tensor tokens_T =
      put_on(at::tensor(at::IntArrayRef(rows.tokens.data(), rows.tokens.size())), device_);
  at::Tensor x_TH = device_.is_cpu() ? weights_.embedding.panels().rows_TI(tokens_T)
                                     : at::embedding(weights_.embedding.whole_OI(), tokens_T);
  const SlicePass pass{shape_, cache, rope_.rows(positions), own, rows.sparse};
  const auto sums = at::dtype(accumulate_type(dtype_)).device(device_);
  Features features(rows, shape_.hidden_size(), sums);
  for (std::size_t layer = 0; layer < weights_.layers.size(); ++layer) {
    features.see(layer, x_TH);
    x_TH = slice_layer(pass, weights_.layers[layer], layer, x_TH);
  }
  return {x_TH.to(sums), features.tensor()};
}

void LanguageModel::reserve(KeyValueCache& cache, std::int64_t tokens) {
  cache.reserve(tokens);
  rope_.reserve(tokens);
}

RowStates LanguageModel::run(KeyValueCache& cache, const TokenRows& rows) {
  require_fits(cache, rows);
  const auto count = static_cast<std::int64_t>(rows.tokens.size());
  const std::vector<std::int64_t> positions = positions_of(cache.size(), rows);
  reserve(cache, cache.size() + count);
  const OwnKeys own = own_keys(rows);
  const SequenceRows sequence{cache, own};
  RowStates states = runs_as_rows(count)
                         ? std::visit(
                               [&](auto& decoder) {
                                 return run_few(decoder, std::span(&sequence, 1), rows, positions);
                               },
                               rows_)
                         : run_slice(cache, rows, own, positions);
  cache.append(count);
  return states;
}

at::Tensor LanguageModel::run_halves(std::span<const NextToken> sequences) {
  if (sequences.size() == 1)
    return run(sequences[0].cache, {.tokens = std::span(&sequences[0].token, 1)}).hidden_TH;
  const std::size_t half = sequences.size() / 2;
  return joined_rows({run_batch(sequences.first(half)), run_batch(sequences.subspan(half))});
}

at::Tensor LanguageModel::run_batch(std::span<const NextToken> sequences) {
  std::vector<std::int64_t> tokens, positions;
  std::vector<SequenceRows> rows;
  const OwnKeys one(1);
  for (const auto& [cache, token] : sequences) {
    tokens.push_back(token);
    positions.push_back(cache.size());
    rows.push_back({cache, one});
    require_fits(cache, {.tokens = std::span(&token, 1)});
    reserve(cache, cache.size() + 1);
  }
  if (!runs_as_rows(static_cast<std::int64_t>(tokens.size()))) return run_halves(sequences);
  const RowStates states = std::visit(
      [&](auto& decoder) { return run_few(decoder, rows, {.tokens = tokens}, positions); }, rows_);
  for (const NextToken& sequence : sequences) sequence.cache.append(1);
  return states.hidden_TH;
}

at::Tensor LanguageModel::logits(const at::Tensor& hidden_TH) {
  const auto sums = accumulate_type(dtype_);
  if (!device_.is_cpu()) {
    Parameter norm_H;
    norm_H.value = weights_.final_norm_H.to(compute_type(dtype_));
    const at::Tensor n_TH =
        rms_norm(hidden_TH.to(compute_type(dtype_)), norm_H, shape_.rms_norm_eps);
    return at::mm(n_TH, weights_.head_matrix().whole_OI().t()).to(at::kCPU, sums);
  }
  const at::Tensor logits_TV = at::empty({hidden_TH.size(0), shape_.vocab_size}, sums);
  std::visit(
      [&]<class Input>(RowDecoder<Input>& decoder) {
        decoder.head(weights_.final_norm_H, weights_.head_matrix().panels(),
                     view_of<Sum<Input>>(hidden_TH), view_of<Sum<Input>>(logits_TV));
      },
      rows_);
  return logits_TV;
}

fs::path model_folder(const fs::path& folder) {
  require_no_adapter(folder);
  if (fs::exists(folder / kConfigFile)) return folder;
  const std::vector<std::int64_t> steps = checkpoints_in(folder);
  if (steps.empty())
    invalid_input(
        "{}: neither a model's {} nor a checkpoint; give a Hugging Face folder or one that "
        "training wrote",
        folder.string(), kConfigFile);
  return folder / checkpoint_name(steps.back());
}

LanguageModel load_language_model(const fs::path& folder, Dtype dtype, at::Device device) {
  const Decoder shape = read_generating_decoder(folder / kConfigFile);
  LanguageModel model(shape, sound_tensors(read_model_tensors(folder), shape, folder.string()),
                      dtype, device);
  if (!model.weights().finite) require_finite_model(folder);
  return model;
}

}  // namespace slimpack
