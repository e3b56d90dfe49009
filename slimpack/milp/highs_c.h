// The parts of HiGHS's C interface that are used here.
//
// The library comes from HiGHS's Python package (highspy), which has no headers. These are the
// declarations of highs_c_api.h, version 1.15; their binary interface does not depend on a
// compiler.
#pragma once

#include <cstdint>

extern "C" {
void* Highs_create(void);
void Highs_destroy(void* highs);
std::int32_t Highs_setBoolOptionValue(void* highs, const char* option, std::int32_t value);
std::int32_t Highs_setIntOptionValue(void* highs, const char* option, std::int32_t value);
std::int32_t Highs_setDoubleOptionValue(void* highs, const char* option, double value);
std::int32_t Highs_setStringOptionValue(void* highs, const char* option, const char* value);
/// With the format kHighsRowwise, the entries of row r begin at a_start[r].
std::int32_t Highs_passMip(void* highs, std::int32_t columns, std::int32_t rows,
                           std::int32_t entries, std::int32_t a_format, std::int32_t sense,
                           double offset, const double* column_cost, const double* column_lower,
                           const double* column_upper, const double* row_lower,
                           const double* row_upper, const std::int32_t* a_start,
                           const std::int32_t* a_index, const double* a_value,
                           const std::int32_t* integrality);
std::int32_t Highs_setSolution(void* highs, const double* column_value, const double* row_value,
                               const double* column_dual, const double* row_dual);
std::int32_t Highs_run(void* highs);
std::int32_t Highs_getModelStatus(const void* highs);
std::int32_t Highs_getIntInfoValue(const void* highs, const char* info, std::int32_t* value);
std::int32_t Highs_getInt64InfoValue(const void* highs, const char* info, std::int64_t* value);
std::int32_t Highs_getDoubleInfoValue(const void* highs, const char* info, double* value);
/// Null = the caller does not want these values.
std::int32_t Highs_getSolution(const void* highs, double* column_value, double* column_dual,
                               double* row_value, double* row_dual);
std::int32_t Highs_getSizeofHighsInt(const void* highs);
}

namespace slimpack::milp {

inline constexpr std::int32_t kHighsError = -1, kHighsOk = 0;  ///< what the functions return
inline constexpr std::int32_t kHighsContinuous = 0, kHighsInteger = 1;
inline constexpr std::int32_t kHighsMinimize = 1;
inline constexpr std::int32_t kHighsRowwise = 2;
inline constexpr std::int32_t kHighsFeasiblePoint = 2;  ///< of "primal_solution_status"

/// Highs_getModelStatus.
enum class HighsModelStatus : std::int32_t {
  kModelEmpty = 6,
  kOptimal = 7,
  kInfeasible = 8,
  kTimeLimit = 13,
  kIterationLimit = 14,
  kSolutionLimit = 16,
};

}  // namespace slimpack::milp
