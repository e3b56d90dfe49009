"""Training-time test: a head's pass over true tokens, unrolled over the steps of drafting.

1. Step 0 pairs g_i, of the target's hidden states, with token i + 1, and predicts token i + 2.
2. Step s feeds row i its own output of step s - 1 and token i + 1 + s, at position i + s, and predicts
   token i + 2 + s. Its attention is that of attention.py.
3. Step s should predict the target's distribution after token i + 1 + s.

A sequence of L tokens has L - 1 - s rows in step s: those whose token i + 1 + s exists.
"""

from typing import NamedTuple

import torch

from slimpack.draft.attention import UnrolledAttention
from slimpack.draft.config import STEPS
from slimpack.draft.soft_targets import soft_cross_entropy


class Batch(NamedTuple):
    """Sequences of a step, packed. lengths: of each. tokens_T, first_answers: a sequence's tokens, and
    its first token that the target wrote itself: none before it is predicted. hidden_T3E, final_TE,
    best_T: the target's Features."""

    lengths: list
    tokens_T: torch.Tensor
    first_answers: list
    hidden_T3E: torch.Tensor
    final_TE: torch.Tensor
    best_T: torch.Tensor


class UnrolledStep(NamedTuple):
    """The predictions of a step. logits_RV: by row. judged_R: where in the packed tokens the target's
    distribution is that a row should have. counted_R: whether a row predicts a token of an answer.
    kept_R: where these rows were in the step before; None in step 0."""

    logits_RV: torch.Tensor
    judged_R: torch.Tensor
    counted_R: torch.Tensor
    kept_R: torch.Tensor | None


def batch_of(sequences, features):
    """Packs sequences: (tokens, first token of the answer), and their Features."""
    lengths = [len(tokens) for tokens, _ in sequences]
    hidden, final, best = (torch.cat(parts) for parts in zip(*features, strict=True))
    tokens = torch.cat([torch.as_tensor(tokens, dtype=torch.int64) for tokens, _ in sequences])
    return Batch(lengths, tokens.to(best.device), [first for _, first in sequences], hidden, final, best)


def unrolled(head, batch, target_embedding_VE, steps=STEPS):
    """Yields an UnrolledStep for every step that has rows."""
    device = batch.tokens_T.device
    begins = [0, *torch.tensor(batch.lengths).cumsum(0).tolist()]
    counts = [max(length - 1, 0) for length in batch.lengths]
    attend = UnrolledAttention(counts)
    kept_R = None
    for s in range(steps):
        if not any(counts):
            return
        i_R = torch.cat([torch.arange(count, device=device) for count in counts])
        place_R = _places(begins, counts, device)
        if s == 0:
            g_RH = head.combine(batch.hidden_T3E[place_R])
        else:
            attend.begin_step(counts, kept_R)
            g_RH = g_RH[kept_R]
        judged_R = place_R + 1 + s
        embedded_RH = head.embed(batch.tokens_T[judged_R], target_embedding_VE).to(g_RH.dtype)
        logits_RV, g_RH = head.layer(embedded_RH, g_RH, i_R + s, attend)
        counted_R = torch.cat([torch.arange(count, device=device) + 2 + s >= first
                               for count, first in zip(counts, batch.first_answers)])
        yield UnrolledStep(logits_RV, judged_R, counted_R, kept_R)
        following = [max(count - 1, 0) for count in counts]
        kept_R = _places([0, *torch.tensor(counts).cumsum(0).tolist()], following, device)
        counts = following


def _places(begins, counts, device):
    """The first `count` places of every sequence that begins at `begin`."""
    return torch.cat([begin + torch.arange(count, device=device)
                      for begin, count in zip(begins, counts)])


def unrolled_loss(head, batch, target, steps=STEPS, decay=0.8):
    """Σ decay^s · (mean cross entropy of step s over its counted rows): a step of training minimises it.
    Returns it, and the plain means by step.

    The target's softmax is taken over the tokens that the head can guess. A row whose most likely token
    is none of them adds nothing, but counts.
    """
    with torch.no_grad():
        target_logits_TV = batch.final_TE @ target.head_VE[head.target_ids].T
        wide = torch.promote_types(target_logits_TV.dtype, torch.float32)
        p_TV = target_logits_TV.softmax(-1, dtype=wide)
        known_T = head.t2d[batch.best_T]
    total, by_step = torch.zeros((), device=p_TV.device), []
    for s, step in enumerate(unrolled(head, batch, target.embedding_VE, steps)):
        entropy_R = soft_cross_entropy(step.logits_RV, p_TV, step.judged_R)
        trained_R = step.counted_R & known_T[step.judged_R]
        mean = (entropy_R * trained_R).sum() / step.counted_R.sum().clamp(min=1)
        total = total + decay ** s * mean
        by_step.append(mean.detach())
    return total, by_step

