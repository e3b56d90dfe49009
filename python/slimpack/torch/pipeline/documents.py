"""The documents of a step: their tokens, targets, and whether they are those of the plan."""

import torch

from slimpack import InvalidInput
from slimpack.torch.collator import IGNORED
from slimpack.torch.pipeline.loss import targets_of


class Documents:
    """Tokens and targets of some of a step's sequences, by number, on a device.

    Raises InvalidInput where a document is not as long as the plan says.
    """

    def __init__(self, plan, sequences, tokens, labels, device):
        self.tokens, self.targets = {}, {}
        for sequence in map(int, sequences):
            ids = _tensor(tokens, sequence, "documents")
            if ids.shape != (plan.lengths[sequence],):
                raise InvalidInput(
                    f"documents[{sequence}] has shape {list(ids.shape)}, the plan has "
                    f"{plan.lengths[sequence]} tokens; give the documents that the step was "
                    "planned for")
            of = None if labels is None else _tensor(labels, sequence, "labels")
            if of is not None and of.shape != ids.shape:
                raise InvalidInput(
                    f"labels[{sequence}] has shape {list(of.shape)}, its document has {len(ids)} "
                    "tokens; give one label for each token")
            self.tokens[sequence] = ids.to(device)
            self.targets[sequence] = targets_of(ids, of).to(device)

    def target_count(self):
        return sum(int((targets != IGNORED).sum()) for targets in self.targets.values())


def _tensor(by_sequence, sequence, name):
    try:
        return torch.as_tensor(by_sequence[sequence], dtype=torch.int64)
    except (IndexError, KeyError):
        raise InvalidInput(
            f"{name} has no entry {sequence}; give every sequence of this rank's replica") from None
