#include "slimpack/packflow/kernels/embedding.h"

#include <ATen/ops/embedding.h>

namespace slimpack {
namespace {

/// Rows of the matrix for tokens that the rank has, any row for the others.
struct OwnTokens {
  at::Tensor rows_T;
  at::Tensor own_T;

  OwnTokens(const Parameter& embedding_VH, const at::Tensor& tokens_T) {
    const TensorPiece& piece = embedding_VH.parts.front().piece;
    const at::Tensor shifted_T = tokens_T.sub(piece.from);
    own_T = shifted_T.ge(0).logical_and_(shifted_T.lt(piece.size));
    rows_T = shifted_T.clamp(0, piece.size - 1);
  }
};

}  // namespace

at::Tensor embed(const Parameter& embedding_VH, const at::Tensor& tokens_T,
                 const TensorRows& rows) {
  if (rows.alone()) return at::embedding(embedding_VH.value, tokens_T);
  const OwnTokens own(embedding_VH, tokens_T);
  return rows.scattered(at::embedding(embedding_VH.value, own.rows_T)
                            .mul_(own.own_T.to(embedding_VH.value.scalar_type()).unsqueeze(1)));
}

void embed_backward(Parameter& embedding_VH, const at::Tensor& tokens_T, const at::Tensor& dy_TH,
                    const TensorRows& rows) {
  at::Tensor& gradient = embedding_VH.gradient;
  if (rows.alone()) {
    gradient.index_add_(0, tokens_T, dy_TH.to(gradient.scalar_type()));
    return;
  }
  const OwnTokens own(embedding_VH, tokens_T);
  const at::Tensor all_TH = rows.gathered(dy_TH).to(gradient.scalar_type());
  gradient.index_add_(0, own.rows_T,
                      all_TH.mul_(own.own_T.to(gradient.scalar_type()).unsqueeze(1)));
}

}  // namespace slimpack
