#include "slimpack/packflow/sparse/methods.h"

#include "slimpack/base/error.h"
#include "slimpack/packflow/sparse/kept_keys.h"

namespace slimpack {
namespace {

void require_share(double value, const char* name) {
  if (!(value > 0 && value <= 1))
    invalid_input("sparse attention: {} is {}, but it is a share: above 0 and at most 1", name,
                  value);
}

void require_count(std::int64_t value, std::int64_t least, const char* name) {
  if (value < least)
    invalid_input("sparse attention: {} is {}, but it counts tokens: at least {}", name, value,
                  least);
}

struct Check {
  void operator()(const SampledColumns& m) const {
    require_share(m.rows, "rows");
    require_share(m.alpha, "alpha");
    if (!(m.window >= 0 && m.window <= 1))
      invalid_input("sparse attention: window is {}, but it is a share of the keys: 0 to 1",
                    m.window);
    require_count(m.dense_rows, 0, "dense_rows");
  }
  void operator()(const SampledBlocks& m) const {
    require_count(m.segment, 1, "segment");
    require_count(m.rows, 1, "rows");
    if (m.rows > m.segment)
      invalid_input("sparse attention: rows is {}, but a segment has {}: take no more rows", m.rows,
                    m.segment);
    require_share(m.alpha_columns, "alpha_columns");
    require_share(m.alpha_slashes, "alpha_slashes");
  }
  void operator()(const FlexPrefill& m) const {
    require_share(m.gamma, "gamma");
    if (!(m.tau >= 0 && m.tau <= 1))
      invalid_input("sparse attention: tau is {}, but it bounds a distance: 0 to 1", m.tau);
    require_count(m.min_keys, 0, "min_keys");
  }
  void operator()(const XAttention& m) const {
    if (m.stride < 1 || kSparseBlock % m.stride != 0)
      invalid_input("sparse attention: stride is {}, but it divides blocks of {}: take 8 or 16",
                    m.stride, kSparseBlock);
    require_share(m.threshold, "threshold");
  }
};

}  // namespace

void check_sparse_method(const SparseMethod& method) {
  std::visit(Check(), method);
}

}  // namespace slimpack
