#include "slimpack/packflow/layer/context_attention.h"

#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>
#include <vector>

#include "slimpack/cost/attention_rules.h"
#include "slimpack/packflow/device/tensor.h"
#include "slimpack/plan/row_share.h"

namespace slimpack {
namespace {

using Tensors = std::vector<at::Tensor>;

/// The rank's place in the zone. Members count from the first one.
std::int32_t own_index(const SharedSlices& shared) {
  return shared.group.index() - shared.zone.first;
}

/// The keys and values, up to each slice's end, of the rank itself or of a member whose rows visit.
class ZoneKeys {
 public:
  /// The rank's own.
  explicit ZoneKeys(const SharedSlices& shared) : shared_(shared), member_(own_index(shared)) {}
  /// `visiting` has the slices' keys one below the other, as start_key_visit() sends them.
  ZoneKeys(const SharedSlices& shared, std::int32_t member, KeysValues visiting)
      : shared_(shared), member_(member), visiting_(std::move(visiting)) {
    std::int64_t row = 0;
    for (const Slice& slice : shared.slices) {
      first_.push_back(row);
      row += share().before(slice.end).count();
    }
  }

  [[nodiscard]] std::int32_t member() const { return member_; }
  [[nodiscard]] KeysValues of(std::size_t slice) const {
    const Slice& s = shared_.slices[slice];
    if (!visiting_.k.defined()) return shared_.kv.upto(shared_.layer, s);
    return visiting_.narrow(first_[slice], share().before(s.end).count());
  }

 private:
  [[nodiscard]] RowShare share() const { return {shared_.zone.size, member_}; }

  const SharedSlices& shared_;
  std::int32_t member_;
  KeysValues visiting_;
  std::vector<std::int64_t> first_;  ///< by slice
};

/// A member's queries of all slices, one after the other.
AttentionResult partial_results(const SharedSlices& shared, std::int32_t queries_of,
                                const at::Tensor& q_TND, const ZoneKeys& keys) {
  Tensors out, lse;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < shared.slices.size(); ++s) {
    const SliceBlock block(shared.zone, shared.slices[s], queries_of, keys.member(), shared.window);
    AttentionResult result =
        partial_result(block, q_TND.narrow(0, row, block.queries()), keys.of(s));
    row += block.queries();
    out.push_back(std::move(result.out_TND));
    lse.push_back(std::move(result.lse_TN));
  }
  return {joined_rows(out), joined_rows(lse)};
}

SliceKeyGradients own_key_gradients(const SharedSlices& shared, const Slice& slice) {
  const std::int32_t own_place = own_index(shared);
  const SliceBlock block(shared.zone, slice, own_place, own_place, shared.window);
  KeysValues sequence = shared.kv.gradient(shared.layer, slice);
  // The store has the gradients that later slices left for these tokens. The rest is added there.
  if (sequence.k.defined()) {
    KeysValues own = sequence.narrow(block.before(), block.keys());
    return {std::move(sequence), std::move(own)};
  }
  const KeysValues own = shared.kv.upto(shared.layer, slice).narrow(block.before(), block.keys());
  return {std::move(sequence),
          {at::zeros_like(own.k, accumulate_type(own.k)),
           at::zeros_like(own.v, accumulate_type(own.v))}};
}

/// Adds the gradients that queries give to the keys and values of all slices, one slice after the
/// other. Returns the gradients of the queries.
at::Tensor add_slices(const SharedSlices& shared, std::int32_t queries_of, const QueryRows& queries,
                      const ZoneKeys& keys, const std::vector<SliceKeyGradients>& gradients) {
  Tensors dq;
  std::int64_t row = 0;
  for (std::size_t s = 0; s < gradients.size(); ++s) {
    const SliceBlock block(shared.zone, shared.slices[s], queries_of, keys.member(), shared.window);
    dq.push_back(add_slice(block, queries.narrow(row, block.queries()), keys.of(s), gradients[s]));
    row += block.queries();
  }
  return joined_rows(dq);
}

/// Zeros for the gradients of a visiting member's keys, one slice's below the other's, and of each
/// slice the parts of it.
struct VisitingGradients {
  KeysValues all;
  std::vector<SliceKeyGradients> of_slice;

  VisitingGradients(const SharedSlices& shared, std::int32_t member, const KeysValues& keys)
      : all{at::zeros(keys.k.sizes(), keys.k.options().dtype(accumulate_type(keys.k))),
            at::zeros(keys.v.sizes(), keys.v.options().dtype(accumulate_type(keys.v)))} {
    std::int64_t row = 0;
    for (const Slice& slice : shared.slices) {
      const SliceBlock block(shared.zone, slice, member, member, shared.window);
      of_slice.push_back(
          {all.narrow(row, block.before()), all.narrow(row + block.before(), block.keys())});
      row += block.before() + block.keys();
    }
  }
};

/// Adds what comes back of the own keys: one slice's below the other's.
void add_returned(const SharedSlices& shared, const KeysValues& returned,
                  const std::vector<SliceKeyGradients>& own) {
  const std::int32_t own_place = own_index(shared);
  std::int64_t row = 0;
  const auto add = [&](const KeysValues& to, std::int64_t rows) {
    if (rows > 0) {
      const KeysValues from = returned.narrow(row, rows);
      to.k.narrow(0, 0, rows).add_(from.k);
      to.v.narrow(0, 0, rows).add_(from.v);
    }
    row += rows;
  };
  for (std::size_t s = 0; s < own.size(); ++s) {
    const SliceBlock block(shared.zone, shared.slices[s], own_place, own_place, shared.window);
    add(own[s].sequence, block.before());
    add(own[s].own, block.keys());
  }
}

/// The member of the zone whose rows visit a member in a round; in rounds 0 and zone.size the
/// member itself.
std::int32_t visitor(const SharedSlices& shared, std::int32_t member, std::int32_t round) {
  return (member + round) % shared.zone.size;
}
std::int32_t visitor(const SharedSlices& shared, std::int32_t round) {
  return visitor(shared, own_index(shared), round);
}

/// A member's queries of the slices.
std::int64_t queries_of(const SharedSlices& shared, std::int32_t member) {
  Tokens rows{0};
  for (const Slice& slice : shared.slices) rows += RowShare{shared.zone.size, member}.rows(slice);
  return rows.count();
}

/// A member's keys up to the ends of the slices.
std::int64_t keys_of(const SharedSlices& shared, std::int32_t member) {
  Tokens rows{0};
  for (const Slice& slice : shared.slices)
    rows += RowShare{shared.zone.size, member}.before(slice.end);
  return rows.count();
}

Tensors copies_of(const Tensors& rows) {
  Tensors copies;
  for (const at::Tensor& tensor : rows) copies.push_back(tensor.clone());
  return copies;
}

/// Copies of the own keys and values, one slice's below the other's.
Tensors own_keys(const SharedSlices& shared) {
  Tensors k, v;
  for (const Slice& slice : shared.slices) {
    const KeysValues own = shared.kv.upto(shared.layer, slice);
    k.push_back(own.k);
    v.push_back(own.v);
  }
  const auto copied = [](const Tensors& rows) {
    return rows.size() == 1 ? rows[0].clone() : joined_rows(rows);
  };
  return {copied(k), copied(v)};
}

/// Queries or keys (rows_of) by member: those of the member's visitor in a round.
template <class RowsOf>
std::vector<std::int64_t> rows_of_visitors(const SharedSlices& shared, std::int32_t round,
                                           RowsOf rows_of) {
  std::vector<std::int64_t> rows;
  for (std::int32_t member = 0; member < shared.zone.size; ++member)
    rows.push_back(rows_of(shared, visitor(shared, member, round)));
  return rows;
}

/// Begins to send copies of the own queries to their host of a round, straight, and to get those of
/// its visitor. Nobody visits after the last round.
void start_query_visit(const SharedSlices& shared, std::int32_t round, const Tensors& own) {
  if (round == shared.zone.size) return;
  shared.group.shifts().start_shift(copies_of(own), shared.zone, -round,
                                    rows_of_visitors(shared, 0, queries_of));
}

/// Begins to send the own keys and values to the member that they visit in a round, and to get
/// those of the round's visitor. Nobody visits after the last round.
void start_key_visit(const SharedSlices& shared, std::int32_t round) {
  if (round == shared.zone.size) return;
  shared.group.shifts().start_shift(own_keys(shared), shared.zone, -round,
                                    rows_of_visitors(shared, 0, keys_of));
}

/// Begins to pass the tensors of a round's visiting keys on to the next member of the ring, and to
/// get those of the next round's keys.
void pass_keys_on(const SharedSlices& shared, std::int32_t round, Tensors keys) {
  shared.group.shifts().start_shift(std::move(keys), shared.zone, -1,
                                    rows_of_visitors(shared, round, keys_of));
}

Tensors finish_shift(const SharedSlices& shared) {
  return shared.group.shifts().finish_shift(shared.zone);
}

/// Begins to return what a visitor's queries or keys (rows_of) gave, and to get what the own ones
/// gave there.
template <class RowsOf>
void start_return(const SharedSlices& shared, std::int32_t round, Tensors given, RowsOf rows_of) {
  shared.group.shifts().start_shift(std::move(given), shared.zone, round,
                                    rows_of_visitors(shared, round, rows_of));
}

Travelling travelling(const SharedSlices& shared, const at::Tensor& q_TND, bool backward) {
  if (shared.type == CpCommType::kP2P) return Travelling::kRing;
  if (shared.type == CpCommType::kAllGather) return Travelling::kGathered;
  const KeysValues keys = shared.kv.upto(shared.layer, shared.slices.front());
  const auto element = static_cast<std::int64_t>(q_TND.element_size());
  const auto sum = static_cast<std::int64_t>(at::elementSize(accumulate_type(q_TND)));
  const std::int64_t k = keys.k.size(1) * keys.k.size(2);
  const bool keys_have_fewer =
      keys_travel(TravelWidths{.q = q_TND.size(1) * q_TND.size(2) * element,
                               .k = k * element,
                               .lse = q_TND.size(1) * sum,
                               .gradients = 2 * k * sum},
                  shared.slices, backward);
  return keys_have_fewer ? Travelling::kKeys : Travelling::kQueries;
}

Tensors tensors_of(const QueryRows& rows) {
  return {rows.dout_TND, rows.q_TND, rows.out_TND, rows.lse_TN};
}

}  // namespace

// Gathered keys are asked for at once, and all of them are there before the first round.
VisitingKeys::VisitingKeys(const SharedSlices& shared, Travelling travelling)
    : shared_(shared), travelling_(travelling) {
  if (travelling_ == Travelling::kRing) {
    pass_keys_on(shared_, 0, own_keys(shared_));
    return;
  }
  const std::int32_t last = travelling_ == Travelling::kGathered ? shared_.zone.size - 1 : 1;
  for (std::int32_t round = 1; round <= last; ++round) start_key_visit(shared_, round);
}

void VisitingKeys::gather() {
  if (travelling_ != Travelling::kGathered) return;
  for (std::int32_t round = 1; round < shared_.zone.size; ++round)
    gathered_.push_back(finish_shift(shared_));
}

KeysValues VisitingKeys::take(std::int32_t round) {
  Tensors keys = travelling_ == Travelling::kGathered
                     ? std::move(gathered_[static_cast<std::size_t>(round - 1)])
                     : finish_shift(shared_);
  if (travelling_ == Travelling::kKeys) start_key_visit(shared_, round + 1);
  if (travelling_ == Travelling::kRing && round + 1 < shared_.zone.size)
    pass_keys_on(shared_, round, copies_of(keys));
  return {std::move(keys[0]), std::move(keys[1])};
}

// Rows leave a round before they are attended to, and what they gave comes back a round later, so
// that both travel while a member attends to other rows. All members take shifts in this order: the
// visit of round 1; in each round the next visit and, after the own one, what the visitor's rows
// gave. Only what the last ones gave is waited for at once.
ContextForward::ContextForward(const SharedSlices& shared, at::Tensor q_TND)
    : shared_(shared), q_TND_(std::move(q_TND)) {
  const Travelling what = travelling(shared_, q_TND_, false);
  if (what == Travelling::kQueries)
    start_query_visit(shared_, 1, {q_TND_});
  else
    keys_.emplace(shared_, what);
}

void ContextForward::run(std::int32_t round) {
  if (round > 0) return keys_ ? receive_keys(round) : receive_queries(round);
  if (keys_) keys_->gather();
  // Every query sees its own key: the own part is finite.
  result_ = partial_results(shared_, own_index(shared_), q_TND_, ZoneKeys(shared_));
}

void ContextForward::receive_queries(std::int32_t round) {
  Tensors visiting = finish_shift(shared_);
  start_query_visit(shared_, round + 1, {q_TND_});
  AttentionResult part =
      partial_results(shared_, visitor(shared_, round), std::move(visiting[0]), ZoneKeys(shared_));
  visiting.clear();
  if (round > 1) merge_returned();
  Tensors given;  // nothing else keeps them: they are the receiver's
  given.push_back(std::move(part.out_TND));
  given.push_back(std::move(part.lse_TN));
  start_return(shared_, round, std::move(given), queries_of);
  if (round + 1 == rounds()) merge_returned();
}

void ContextForward::merge_returned() {
  const Tensors back = finish_shift(shared_);
  result_ = merged(std::move(result_), {back[0], back[1]});
}

void ContextForward::receive_keys(std::int32_t round) {
  const ZoneKeys keys(shared_, visitor(shared_, round), keys_->take(round));
  result_ = merged(std::move(result_), partial_results(shared_, own_index(shared_), q_TND_, keys));
}

ContextBackward::ContextBackward(const SharedSlices& shared, QueryRows rows)
    : shared_(shared), rows_(std::move(rows)), travelling_(travelling(shared_, rows_.q_TND, true)) {
  if (travelling_ == Travelling::kQueries)
    start_query_visit(shared_, 1, tensors_of(rows_));
  else
    visiting_.emplace(shared_, travelling_);
}

void ContextBackward::run(std::int32_t round) {
  if (round > 0) return visiting_ ? receive_keys(round) : receive_queries(round);
  if (visiting_) visiting_->gather();
  for (const Slice& slice : shared_.slices) keys_.push_back(own_key_gradients(shared_, slice));
  dq_TND_ = add_slices(shared_, own_index(shared_), rows_, ZoneKeys(shared_), keys_)
                .to(accumulate_type(rows_.q_TND));
}

void ContextBackward::receive_queries(std::int32_t round) {
  Tensors visiting = finish_shift(shared_);
  start_query_visit(shared_, round + 1, tensors_of(rows_));
  at::Tensor part_TND =
      add_slices(shared_, visitor(shared_, round),
                 {visiting[0], visiting[1], visiting[2], visiting[3]}, ZoneKeys(shared_), keys_);
  visiting.clear();
  if (round > 1) add_returned_queries();
  Tensors given;
  given.push_back(std::move(part_TND));
  start_return(shared_, round, std::move(given), queries_of);
  if (round + 1 == rounds()) add_returned_queries();
}

void ContextBackward::add_returned_queries() {
  dq_TND_.add_(finish_shift(shared_)[0]);
}

void ContextBackward::receive_keys(std::int32_t round) {
  KeysValues given = gradients_of_visitor(round);
  if (travelling_ == Travelling::kGathered) {
    gathered_.push_back({std::move(given.k), std::move(given.v)});
    if (round + 1 == rounds()) return_gathered();
    return;
  }
  if (travelling_ == Travelling::kRing) return pass_on(round, std::move(given));
  if (round > 1) add_returned_keys();
  Tensors tensors;
  tensors.push_back(std::move(given.k));
  tensors.push_back(std::move(given.v));
  start_return(shared_, round, std::move(tensors), keys_of);
  if (round + 1 == rounds()) add_returned_keys();
}

KeysValues ContextBackward::gradients_of_visitor(std::int32_t round) {
  const std::int32_t member = visitor(shared_, round);
  const KeysValues kv = visiting_->take(round);
  VisitingGradients gradients(shared_, member, kv);
  dq_TND_.add_(add_slices(shared_, own_index(shared_), rows_, ZoneKeys(shared_, member, kv),
                          gradients.of_slice));
  return std::move(gradients.all);
}

// The next member's visitor was this member's visitor a round ago. The last round's gradients are
// at home with the member before.
void ContextBackward::pass_on(std::int32_t round, KeysValues given) {
  if (round > 1) {
    const Tensors before = finish_shift(shared_);
    given.k.add_(before[0]);
    given.v.add_(before[1]);
  }
  Tensors tensors;
  tensors.push_back(std::move(given.k));
  tensors.push_back(std::move(given.v));
  pass_keys_on(shared_, round, std::move(tensors));
  if (round + 1 == rounds()) add_returned_keys();
}

void ContextBackward::return_gathered() {
  for (std::int32_t round = 1; round < rounds(); ++round)
    start_return(shared_, round, std::move(gathered_[static_cast<std::size_t>(round - 1)]),
                 keys_of);
  gathered_.clear();
  for (std::int32_t round = 1; round < rounds(); ++round) add_returned_keys();
}

void ContextBackward::add_returned_keys() {
  const Tensors back = finish_shift(shared_);
  add_returned(shared_, {back[0], back[1]}, keys_);
}

AttentionGradients ContextBackward::take() {
  Tensors k, v;
  for (const SliceKeyGradients& slice : keys_) {
    k.push_back(slice.own.k);
    v.push_back(slice.own.v);
  }
  keys_.clear();
  rows_ = {};
  return {std::move(dq_TND_), joined_rows(k), joined_rows(v)};
}

}  // namespace slimpack
