#include "slimpack/packflow/layer/exchanged_attention.h"

#include <utility>
#include <vector>

#include "slimpack/packflow/device/tensor.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;

Messages& messages(const AttentionExchange& e) {
  return e.pipeline.messages();
}

/// The tensors of an exchange. Heads of both ranks are alike.
struct Forms {
  Forms(const AttentionExchange& e, const at::Tensor& like_TND, const KeysValues& like_kv)
      : q_TND{{e.queries, like_TND.size(1), like_TND.size(2)}, like_TND.options()},
        lse_TN{{e.queries, like_TND.size(1)}, like_TND.options().dtype(accumulate_type(like_TND))},
        kv_TGD{{e.keys, like_kv.k.size(1), like_kv.k.size(2)}, like_kv.k.options()} {}

  TensorForm q_TND, lse_TN, kv_TGD;
};

}  // namespace

void give_forward(const AttentionExchange& e, const at::Tensor& q_TND, const KeysValues& kv) {
  const KeysValues oldest = kv.narrow(0, e.keys);
  messages(e).lend({q_TND, oldest.k, oldest.v}, e.peer);
  const Forms forms(e, q_TND, oldest);
  messages(e).start_receive({forms.q_TND, forms.lse_TN}, e.peer);
}

AttentionResult merged_with_taken(const AttentionExchange& e, AttentionResult own) {
  Tensors taken = messages(e).finish_receive(e.peer);
  return merged(std::move(own), {std::move(taken[0]), std::move(taken[1])});
}

void expect_forward(const AttentionExchange& e, const at::Tensor& like_TND,
                    const KeysValues& like_kv) {
  const Forms forms(e, like_TND, like_kv);
  messages(e).start_receive({forms.q_TND, forms.kv_TGD, forms.kv_TGD}, e.peer);
}

void take_forward(const AttentionExchange& e) {
  Tensors given = messages(e).finish_receive(e.peer);
  AttentionResult result = attend(given[0], {given[1], given[2]}, Mask::kNone);
  given.clear();
  messages(e).give({std::move(result.out_TND), std::move(result.lse_TN)}, e.peer);
}

void give_backward(const AttentionExchange& e, const QueryRows& rows, const KeysValues& kv) {
  const KeysValues oldest = kv.narrow(0, e.keys);
  messages(e).lend({rows.dout_TND, rows.q_TND, rows.out_TND, rows.lse_TN, oldest.k, oldest.v},
                   e.peer);
  const Forms forms(e, rows.q_TND, oldest);
  messages(e).start_receive({forms.q_TND, forms.kv_TGD, forms.kv_TGD}, e.peer);
}

AttentionGradients taken_gradients(const AttentionExchange& e) {
  Tensors taken = messages(e).finish_receive(e.peer);
  return {std::move(taken[0]), std::move(taken[1]), std::move(taken[2])};
}

void expect_backward(const AttentionExchange& e, const at::Tensor& like_TND,
                     const KeysValues& like_kv) {
  const Forms forms(e, like_TND, like_kv);
  messages(e).start_receive(
      {forms.q_TND, forms.q_TND, forms.q_TND, forms.lse_TN, forms.kv_TGD, forms.kv_TGD}, e.peer);
}

void take_backward(const AttentionExchange& e) {
  Tensors given = messages(e).finish_receive(e.peer);
  AttentionGradients result =
      attend_backward({given[0], given[1], given[2], given[3]}, {given[4], given[5]}, Mask::kNone);
  given.clear();
  messages(e).give({std::move(result.dq_TND), std::move(result.dk_TGD), std::move(result.dv_TGD)},
                   e.peer);
}

RankExchanges::RankExchanges(std::span<const ContextExchange> exchanges, const PackPlan& packs,
                             const StageLayout& layout, std::int32_t rank,
                             Communicator& communicator) {
  for (const ContextExchange& exchange : exchanges) {
    const bool gives = layout.placement.rank_of(exchange.giver.stage) == rank;
    const Action& own = gives ? exchange.giver : exchange.taker;
    const Action& other = gives ? exchange.taker : exchange.giver;
    if (layout.placement.rank_of(own.stage) != rank) continue;
    const MicroPack& pack = packs.of(own.pass)[exchange.giver.pack.index()];
    const std::size_t slice = exchanged_slice(pack);
    exchanges_.emplace(
        own,
        AttentionExchange{communicator.pipeline(), layout.placement.rank_of(other.stage), gives,
                          slice, pack.slices[slice].length().count(), exchange.keys.count(),
                          static_cast<std::size_t>(exchanging_layers(layout, exchange))});
  }
}

}  // namespace slimpack
