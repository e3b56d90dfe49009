"""The attention of training-time test, over packed sequences.

Row i of step s attends to the keys of step 0 of its own sequence up to row i, and of steps 1 to s to
its own row's alone. So scores are a causal matrix and a few columns more.

1. Each sequence is computed by itself: there is no key of another one to mask.
2. Rows are taken in blocks. A block sees the keys of step 0 up to its own end.
3. Backward computes a block's scores again, so that memory is that of one block.
"""

import torch
from torch.utils.checkpoint import checkpoint

_BLOCK = 128  # rows: their scores fit a core's cache


class UnrolledAttention:
    """The attention of one unrolled pass. It is called with the queries, keys and values of each
    step, in order.

    lengths: by sequence its rows in step 0.
    """

    def __init__(self, lengths):
        self._lengths = self._counts = lengths
        self._first = None  # k_TKD, v_TKD of step 0
        self._own = []  # k_TKD, v_TKD of steps 1 to s, at the rows of step s

    def begin_step(self, counts, kept_T):
        """Before every step but step 0. counts: by sequence the rows of this step, which are the first
        of its rows of the step before. kept_T: where these rows are among those of the step before."""
        self._counts = counts
        self._own = [(k[kept_T], v[kept_T]) for k, v in self._own]

    def __call__(self, q_TND, k_TKD, v_TKD):
        if self._first is None:
            self._first = k_TKD, v_TKD
        else:
            self._own.append((k_TKD, v_TKD))
        columns = [q_TND]
        if self._own:
            columns += [torch.stack(of_steps, 1) for of_steps in zip(*self._own)]  # TSKD
        of_sequences = zip(*(self._first[i].split(self._lengths) for i in (0, 1)),
                           *(column.split(self._counts) for column in columns), strict=True)
        return torch.cat([block for k_LKD, v_LKD, *rows in of_sequences
                          for block in _blocks(k_LKD, v_LKD, rows)])


def _blocks(k_LKD, v_LKD, columns):
    """The attention of one sequence's rows, in blocks."""
    end = 0
    for rows in zip(*(column.split(_BLOCK) for column in columns if len(column)), strict=True):
        end += len(rows[0])
        yield checkpoint(attended, k_LKD[:end], v_LKD[:end], *rows, use_reentrant=False,
                         preserve_rng_state=False)


def attended(k_LKD, v_LKD, q_TND, own_k_TSKD=None, own_v_TSKD=None):
    """Attention of the last T of L rows: causal on k, v, and on T's own S further keys and values."""
    rows, heads, size = q_TND.shape
    keys = k_LKD.shape[1]
    q = q_TND.unflatten(1, (keys, heads // keys)) * size ** -0.5  # TKGD
    scores = torch.einsum("tkgd,lkd->kgtl", q, k_LKD)
    later = torch.ones(rows, len(k_LKD), dtype=torch.bool, device=q.device)
    scores = scores.masked_fill(later.triu(len(k_LKD) - rows + 1), float("-inf"))
    if own_k_TSKD is not None:
        scores = torch.cat([scores, torch.einsum("tkgd,tskd->kgts", q, own_k_TSKD)], -1)
    weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(v_LKD.dtype)
    first, own = weights.split([len(k_LKD), weights.shape[-1] - len(k_LKD)], -1)
    out = torch.einsum("kgtl,lkd->tkgd", first, v_LKD)
    if own_v_TSKD is not None:
        out = out + torch.einsum("kgts,tskd->tkgd", own, own_v_TSKD)
    return out.flatten(1, 2)
