// The program:
//   until[g][p], binary: granule g is in pack p or an earlier one. in(g, p), granule g in pack p,
//   is
//     until[g][p] − until[g][p−1] ≥ 0; the order within a sequence is until[g] ≥ until[g+1] from
//     the head, ≤ from the tail.
//   first[g][p] ≥ in(g, p) − in(g−1, p): a slice of pack p begins with granule g, which costs
//     per_slice and the prefix. Tokens and pairs of granules add up by themselves.
//   used[p] ≥ in(g, p), used[p] ≤ Σ in(g, p), used[p] ≥ used[p+1].
//   largest ≥ per_pack · used[p] + Σ work[g] · in(g, p) + Σ begin[g] · first[g][p].
//   Least Σ per_pack · used + Σ begin · first + (stages − 1) · largest.
// Only `until` has to be binary: the costs draw the others to their bounds.
#include "slimpack/solver/cut_model.h"

#include <algorithm>
#include <numeric>

namespace slimpack {
namespace {

/// Bounds on the largest pack leave room for rounding.
constexpr double kSlack = 1e-6;

}  // namespace

CutModel::CutModel(const ExactCutProblem& problem, const Granules& granules, double unit,
                   double largest_least, double start_time)
    : problem_(problem),
      granules_(granules),
      unit_(unit),
      largest_(model_.add_continuous(largest_least / unit * (1 - kSlack), milp::kInfinity,
                                     problem.stages - 1)) {
  for (std::size_t g = 0; g < granules.count(); ++g) {
    // A sequence's head always begins a slice: no decision, so no variable.
    const double begins = granules.is_head(g) ? 0 : begin_cost(g);
    work_.push_back(problem.cost(granules.pieces[g]) / unit - begins);
  }
  add_variables();
  if (problem.stages > 1) {
    // No better than the start is a largest pack above what the work leaves of its time.
    const double most = (start_time - to_nanoseconds(0)) / unit / (problem.stages - 1);
    const milp::Term term[] = {{largest_, 1}};
    model_.add_row(-milp::kInfinity, term, most * (1 + kSlack));
  }
  add_order_rows();
  for (std::size_t p = 0; p < used_.size(); ++p) add_pack_rows(p);
}

double CutModel::to_nanoseconds(double objective) const {
  return std::accumulate(work_.begin(), work_.end(), objective) * unit_;
}

std::vector<double> CutModel::values(const PackOfGranule& pack_of) const {
  std::vector<double> result(model_.variables(), 0.0);
  std::vector<double> time(used_.size(), 0.0);
  for (std::size_t g = 0; g < granules_.count(); ++g) {
    const auto p = static_cast<std::size_t>(pack_of[g]);
    for (std::size_t q = p; q < until_[g].size(); ++q) result[until_[g][q].index()] = 1;
    result[used_[p].index()] = 1;
    time[p] += work_[g];
    if (first_[g].empty() || pack_of[g - 1] == pack_of[g]) continue;
    result[first_[g][p].index()] = 1;
    time[p] += begin_cost(g);
  }
  for (std::size_t p = 0; p < time.size(); ++p) {
    time[p] += result[used_[p].index()] * problem_.cost.per_pack / unit_;
  }
  result[largest_.index()] = *std::max_element(time.begin(), time.end());
  return result;
}

PackOfGranule CutModel::pack_of(const std::vector<double>& values) const {
  PackOfGranule result;
  for (const std::vector<milp::Variable>& until : until_) {
    result.push_back(static_cast<std::int32_t>(std::count_if(
        until.begin(), until.end(), [&](milp::Variable v) { return values[v.index()] == 0; })));
  }
  return result;
}

/// The cost that a granule adds when a slice begins with it.
double CutModel::begin_cost(std::size_t granule) const {
  const PackCost& cost = problem_.cost;
  return (cost.per_slice + cost.prefix(granules_.pieces[granule])) / unit_;
}

void CutModel::add_variables() {
  const auto packs = static_cast<std::size_t>(problem_.packs);
  for (std::size_t p = 0; p < packs; ++p) {
    used_.push_back(model_.add_continuous(0, 1, problem_.cost.per_pack / unit_));
  }
  until_.resize(granules_.count());
  first_.resize(granules_.count());
  for (std::size_t g = 0; g < granules_.count(); ++g) {
    for (std::size_t p = 0; p + 1 < packs; ++p) until_[g].push_back(model_.add_binary());
    if (granules_.is_head(g) || begin_cost(g) == 0) continue;
    for (std::size_t p = 0; p < packs; ++p) {
      first_[g].push_back(model_.add_continuous(0, 1, begin_cost(g)));
    }
  }
}

void CutModel::add_at_least(milp::Variable greater, milp::Variable less) {
  const milp::Term terms[] = {{greater, 1}, {less, -1}};
  model_.add_row(0, terms, milp::kInfinity);
}

void CutModel::add_order_rows() {
  const std::size_t untils = used_.size() - 1;
  const bool head = problem_.pass == Pass::kForward;
  for (std::size_t g = 0; g < granules_.count(); ++g) {
    for (std::size_t p = 1; p < untils; ++p) add_at_least(until_[g][p], until_[g][p - 1]);
    if (granules_.is_head(g)) continue;
    for (std::size_t p = 0; p < untils; ++p) {
      add_at_least(until_[head ? g - 1 : g][p], until_[head ? g : g - 1][p]);
    }
  }
  for (const std::vector<std::size_t>& group : granules_.equals) {
    for (std::size_t i = 1; i < group.size(); ++i) {
      const std::size_t before = granules_.begin[group[i - 1]];
      const std::size_t after = granules_.begin[group[i]];
      for (std::size_t p = 0; p < untils; ++p) add_at_least(until_[before][p], until_[after][p]);
    }
  }
  for (std::size_t p = 1; p < used_.size(); ++p) add_at_least(used_[p - 1], used_[p]);
}

/// Appends factor · in(granule, pack). Result: what of it is no variable (the last pack has all
/// that is in no earlier one).
double CutModel::add_in(std::vector<milp::Term>& terms, std::size_t granule, std::size_t pack,
                        double factor) const {
  const std::vector<milp::Variable>& until = until_[granule];
  if (pack > 0) terms.push_back({until[pack - 1], -factor});
  if (pack == until.size()) return factor;
  terms.push_back({until[pack], factor});
  return 0;
}

void CutModel::add_pack_rows(std::size_t pack) {
  std::vector<milp::Term> time{{used_[pack], problem_.cost.per_pack / unit_}, {largest_, -1}};
  std::vector<milp::Term> members{{used_[pack], -1}};
  double time_constant = 0;
  double members_constant = 0;
  for (std::size_t g = 0; g < granules_.count(); ++g) {
    time_constant += add_in(time, g, pack, work_[g]);
    members_constant += add_in(members, g, pack, 1);
    std::vector<milp::Term> in_use{{used_[pack], -1}};
    const double in_use_constant = add_in(in_use, g, pack, 1);
    model_.add_row(-milp::kInfinity, in_use, -in_use_constant);
    if (first_[g].empty()) continue;
    time.push_back({first_[g][pack], begin_cost(g)});
    std::vector<milp::Term> begins{{first_[g][pack], -1}};
    const double begins_constant = add_in(begins, g, pack, 1) + add_in(begins, g - 1, pack, -1);
    model_.add_row(-milp::kInfinity, begins, -begins_constant);
  }
  model_.add_row(-milp::kInfinity, time, -time_constant);
  model_.add_row(-members_constant, members, milp::kInfinity);
}

}  // namespace slimpack
