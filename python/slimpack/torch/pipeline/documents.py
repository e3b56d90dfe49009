"""The documents of a step: their tokens, targets, and whether they are those of the plan."""

import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED, LabelledTokens, labels_of, tokens_of, weights_of
from slimpack.torch.targets import as_weights, count_of, weighted_targets_of

TOKEN, DOCUMENT = "token", "document"


def require_loss(loss):
    if loss not in (TOKEN, DOCUMENT):
        raise InvalidInput(f"loss is {loss!r}, must be \"{TOKEN}\" or \"{DOCUMENT}\"")


class Documents:
    """Tokens of some of a step's sequences, by number, on the stage's device, and their Targets in the
    host's memory. weight: of all these targets.

    loss: what the step's loss is the mean of: TOKEN = targets, by their weights; DOCUMENT = sequences
    with a target, whose loss is the mean over their targets.

    Raises InvalidInput where a document is not as long as the plan says, and for what is no token of the
    model or no weight.
    """

    def __init__(self, plan, sequences, documents, labels, stage, loss):
        self.tokens, self.targets, self.weight = {}, {}, 0.0
        device, vocabulary = stage.device, stage.model.config.get_text_config().vocab_size
        for sequence in map(int, sequences):
            document = _entry(documents, sequence, "documents")
            ids = _tensor(tokens_of(document), f"documents[{sequence}]")
            if ids.shape != (plan.lengths[sequence],):
                raise InvalidInput(
                    f"documents[{sequence}] has shape {list(ids.shape)}, the plan has "
                    f"{plan.lengths[sequence]} tokens; give the documents that the step was "
                    "planned for")
            _require_known(ids, vocabulary, f"documents[{sequence}]")
            given = labels_of(document) if labels is None else _entry(labels, sequence, "labels")
            of = _tensor(given, f"labels[{sequence}]")
            if of.shape != ids.shape:
                raise InvalidInput(
                    f"labels[{sequence}] has shape {list(of.shape)}, its document has {len(ids)} "
                    "tokens; give one label for each token")
            _require_known(of, vocabulary, f"labels[{sequence}]", IGNORED)
            weights = as_weights(weights_of(document), len(ids), f"documents[{sequence}]")
            self.tokens[sequence] = ids.to(device)
            targets = weighted_targets_of(LabelledTokens(
                ids.cpu(), of.cpu(), None if weights is None else weights.cpu()))
            if loss == DOCUMENT:
                self.weight += targets.weight > 0
                targets = targets.of_weight_1()
            else:
                self.weight += targets.weight
            self.targets[sequence] = targets

    def target_count(self):
        return sum(count_of(targets.labels_T) for targets in self.targets.values())


def _entry(by_sequence, sequence, name):
    try:
        return by_sequence[sequence]
    except (IndexError, KeyError):
        raise InvalidInput(
            f"{name} has no entry {sequence}; give every sequence of this rank's replica") from None


def _tensor(given, name):
    try:
        ids = torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"{name} is no list of token ids: {reason}") from None
    if ids.numel() and (ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex()):
        raise InvalidInput(
            f"{name} is of type {ids.dtype}, must be whole numbers; give token ids")
    return ids.to(torch.int64)


def _require_known(ids, vocabulary, name, besides=None):
    """besides: another number that is allowed."""
    unknown = (ids < 0) | (ids >= vocabulary)
    if besides is not None:
        unknown &= ids != besides
    if unknown.any():
        place = int(unknown.nonzero()[0, 0])
        raise InvalidInput(
            f"{name} has {int(ids[place])} at position {place}, the model's vocabulary ends with "
            f"{vocabulary - 1}; give token ids of this model"
            + ("" if besides is None else f", or {besides} for none"))
