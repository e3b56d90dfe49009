#include "slimpack/milp/model.h"

#include <algorithm>
#include <cmath>

#include "slimpack/base/error.h"

namespace slimpack::milp {

Variable Model::add(double lower, double upper, double cost, bool integer) {
  SLIMPACK_CHECK(lower <= upper && lower < kInfinity && upper > -kInfinity, "[{}, {}]", lower,
                 upper);
  SLIMPACK_CHECK(std::isfinite(cost), "cost {}", cost);
  data_->lower.push_back(lower);
  data_->upper.push_back(upper);
  data_->cost.push_back(cost);
  data_->integer.push_back(integer);
  return {data_->cost.size() - 1, data_.get()};
}

Variable Model::add_binary(double cost) {
  return add(0, 1, cost, true);
}

Variable Model::add_continuous(double lower, double upper, double cost) {
  return add(lower, upper, cost, false);
}

void Model::check_own(Variable variable) const {
  SLIMPACK_CHECK(variable.model_ == data_.get(), "variable {} belongs to another model",
                 variable.index());
}

void Model::add_row(double lower, std::span<const Term> terms, double upper) {
  SLIMPACK_CHECK(lower <= upper && lower < kInfinity && upper > -kInfinity, "[{}, {}]", lower,
                 upper);
  const auto begin = static_cast<std::ptrdiff_t>(data_->column.size());
  for (const Term& term : terms) {
    check_own(term.variable);
    SLIMPACK_CHECK(std::isfinite(term.coefficient), "coefficient {}", term.coefficient);
    data_->column.push_back(static_cast<std::int32_t>(term.variable.index()));
    data_->coefficient.push_back(term.coefficient);
  }
  std::vector<std::int32_t> columns(data_->column.begin() + begin, data_->column.end());
  std::sort(columns.begin(), columns.end());
  const auto twice = std::adjacent_find(columns.begin(), columns.end());
  SLIMPACK_CHECK(twice == columns.end(), "variable {} is twice in a row", *twice);
  data_->row_lower.push_back(lower);
  data_->row_upper.push_back(upper);
  data_->row_begin.push_back(static_cast<std::int32_t>(data_->column.size()));
}

void Model::fix(Variable variable, double value) {
  check_own(variable);
  SLIMPACK_CHECK(std::isfinite(value), "value {}", value);
  data_->lower[variable.index()] = value;
  data_->upper[variable.index()] = value;
}

}  // namespace slimpack::milp
