#include "slimpack/milp/model.h"

#include <gtest/gtest.h>

#include "slimpack/base/error.h"

namespace slimpack::milp {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Model, KeepsWhatItIsGivenRowByRow) {
  Model model;
  const Variable a = model.add_binary(2);
  const Variable b = model.add_continuous(-1, kInfinity, 3);
  model.add_row(1, std::vector<Term>{{b, 5}, {a, 4}}, 6);
  model.add_row(-kInfinity, std::vector<Term>{{a, 7}}, 0);
  const ModelData& data = model.data();
  EXPECT_EQ(data.cost, (std::vector<double>{2, 3}));
  EXPECT_EQ(data.lower, (std::vector<double>{0, -1}));
  EXPECT_EQ(data.upper, (std::vector<double>{1, kInfinity}));
  EXPECT_EQ(data.integer, (std::vector<bool>{true, false}));
  EXPECT_EQ(data.row_begin, (std::vector<std::int32_t>{0, 2, 3}));
  EXPECT_EQ(data.column, (std::vector<std::int32_t>{1, 0, 0}));
  EXPECT_EQ(data.coefficient, (std::vector<double>{5, 4, 7}));
  EXPECT_EQ(data.row_lower, (std::vector<double>{1, -kInfinity}));
  EXPECT_EQ(data.row_upper, (std::vector<double>{6, 0}));
}

TEST(Model, FixSetsBothBounds) {
  Model model;
  const Variable a = model.add_binary();
  model.fix(a, 1);
  EXPECT_EQ(model.data().lower[0], 1);
  EXPECT_EQ(model.data().upper[0], 1);
}

TEST(Model, VariablesStayValidWhenTheModelIsMoved) {
  Model model;
  const Variable a = model.add_binary();
  Model moved = std::move(model);
  moved.add_row(0, std::vector<Term>{{a, 1}}, 1);
  EXPECT_EQ(moved.data().row_lower.size(), 1U);
}

TEST(Model, RefusesAVariableOfAnotherModel) {
  Model model;
  Model other;
  model.add_binary();
  const Variable foreign = other.add_binary();
  EXPECT_THROW(model.add_row(0, std::vector<Term>{{foreign, 1}}, 1), InternalError);
  EXPECT_THROW(model.fix(foreign, 0), InternalError);
}

TEST(Model, RefusesAVariableTwiceInARow) {
  Model model;
  const Variable a = model.add_binary();
  const Variable b = model.add_binary();
  EXPECT_THROW(model.add_row(0, std::vector<Term>{{a, 1}, {b, 1}, {a, 1}}, 1), InternalError);
}

TEST(Model, RefusesNumbersThatAreNone) {
  Model model;
  const Variable a = model.add_binary();
  EXPECT_THROW(model.add_binary(kNan), InternalError);
  EXPECT_THROW(model.add_binary(kInfinity), InternalError);
  EXPECT_THROW(model.add_continuous(kNan, 1), InternalError);
  EXPECT_THROW(model.add_continuous(0, kNan), InternalError);
  EXPECT_THROW(model.add_row(kNan, std::vector<Term>{{a, 1}}, 1), InternalError);
  EXPECT_THROW(model.add_row(0, std::vector<Term>{{a, kNan}}, 1), InternalError);
  EXPECT_THROW(model.fix(a, kNan), InternalError);
}

TEST(Model, RefusesBoundsThatCross) {
  Model model;
  EXPECT_THROW(model.add_continuous(2, 1), InternalError);
  EXPECT_THROW(model.add_continuous(kInfinity, kInfinity), InternalError);
  EXPECT_THROW(model.add_row(2, {}, 1), InternalError);
}

}  // namespace
}  // namespace slimpack::milp
