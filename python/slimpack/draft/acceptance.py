"""How many of a head's guesses a greedy target would accept.

Row i of a true text stands for a moment of generation: step s guesses token i + 2 + s after all steps
before guessed right. The guess is right if it is the target's most likely token. Where the text goes on
with another token than that, later steps of the row say nothing, and the row leaves the count. Answers
that the target itself wrote greedily lose no row so.
"""

from typing import NamedTuple

import torch

from slimpack.draft.config import STEPS
from slimpack.draft.unrolled import unrolled


class Acceptance(NamedTuple):
    """By step: rows whose earlier guesses were right, and those of them whose guess is right, too."""

    tried: list
    accepted: list

    @property
    def rates(self):
        """By step the share of right guesses after right guesses."""
        return [right / tried if tried else 0.0
                for tried, right in zip(self.tried, self.accepted, strict=True)]

    @property
    def accepted_length(self):
        """Tokens that one pass of the target yields with a chain of so many guesses: 1 + Σ of the
        probability that the first s + 1 guesses are right."""
        expected, reached = 1.0, 1.0
        for rate in self.rates:
            reached *= rate
            expected += reached
        return expected

    def __add__(self, other):
        return Acceptance([a + b for a, b in zip(self.tried, other.tried, strict=True)],
                          [a + b for a, b in zip(self.accepted, other.accepted, strict=True)])


NOTHING = Acceptance([0] * STEPS, [0] * STEPS)


@torch.no_grad()
def acceptance_of(head, batch, target_embedding_VE):
    """The Acceptance of a head on a batch of sequences, over the guesses inside answers."""
    tried, accepted = [0] * STEPS, [0] * STEPS
    alive_R = None
    ids = head.target_ids
    for s, step in enumerate(unrolled(head, batch, target_embedding_VE)):
        alive_R = step.counted_R if s == 0 else alive_R[step.kept_R]
        best_R = batch.best_T[step.judged_R]
        right_R = alive_R & (ids[step.logits_RV.argmax(-1)] == best_R)
        tried[s], accepted[s] = int(alive_R.sum()), int(right_R.sum())
        # The last row of a sequence has no next token in the text, and no row in the next step.
        following_R = batch.tokens_T[(step.judged_R + 1).clamp(max=len(batch.tokens_T) - 1)]
        alive_R = right_R & (following_R == best_R)
    return Acceptance(tried, accepted)
