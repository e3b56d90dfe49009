"""The documents of a step: their tokens, targets, and whether they are those of the plan."""

import dataclasses
from typing import Any, NamedTuple

import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED, LabelledTokens, extras_of, labels_of, tokens_of, weights_of
from slimpack.torch.losses.tokens import DOCUMENT
from slimpack.torch.pipeline.places import require_no_padding
from slimpack.torch.targets import as_weights, count_of, weighted_targets_of


class Given(NamedTuple):
    """A caller gives for a step: by sequence of the plan token ids or LabelledTokens; labels by
    sequence, or None for those of the documents; extras by name and sequence, beside those of the
    documents."""

    documents: Any
    labels: Any = None
    extras: dict[str, Any] | None = None


class Documents:
    """Tokens of some of a step's sequences, by number, on the stage's device, and their Targets in the
    host's memory. weight: of all these targets.

    mean: what the step's loss is the mean of (losses.CrossEntropy).

    Raises InvalidInput where a document is not as long as the plan says, and for what is no token of the
    model or no weight.
    """

    def __init__(self, plan, sequences, given, stage, mean):
        self.tokens, self.targets, self.weight = {}, {}, 0.0
        for sequence in map(int, sequences):
            document = _checked(plan, sequence, given, stage.model.config.get_text_config().vocab_size)
            require_no_padding(document.tokens, stage.padding, f"documents[{sequence}]")
            self.tokens[sequence] = document.tokens.to(stage.device)
            targets = weighted_targets_of(document)
            if mean == DOCUMENT:
                self.weight += targets.weight > 0
                targets = targets.of_weight_1()
            else:
                self.weight += targets.weight
            self.targets[sequence] = targets

    def weigh(self, coefficients):
        """Makes the sum of weight · cross-entropy that of coefficient · log-probability. coefficients: by
        sequence of the plan, for each token as a target."""
        for sequence, targets in self.targets.items():
            weights_T = -coefficients[sequence].double().roll(-1)
            self.targets[sequence] = dataclasses.replace(targets, weights_T=weights_T, extras={})

    def target_count(self):
        return sum(count_of(targets.labels_T) for targets in self.targets.values())


def _checked(plan, sequence, given, vocabulary):
    """The LabelledTokens of a sequence, tensors in the host's memory."""
    document, name = _entry(given.documents, sequence, "documents"), f"documents[{sequence}]"
    ids = _tensor(tokens_of(document), name)
    if ids.shape != (plan.lengths[sequence],):
        raise InvalidInput(
            f"{name} has shape {list(ids.shape)}, the plan has {plan.lengths[sequence]} tokens; give the "
            "documents that the step was planned for")
    _require_known(ids, vocabulary, name)
    labels = labels_of(document) if given.labels is None else _entry(given.labels, sequence, "labels")
    labels = _tensor(labels, f"labels[{sequence}]")
    if labels.shape != ids.shape:
        raise InvalidInput(
            f"labels[{sequence}] has shape {list(labels.shape)}, its document has {len(ids)} "
            "tokens; give one label for each token")
    _require_known(labels, vocabulary, f"labels[{sequence}]", IGNORED)
    weights = as_weights(weights_of(document), len(ids), name)
    extras = {key: (of_token, f"extras of {name}, {key!r}") for key, of_token in extras_of(document).items()}
    for key, of_sequences in (given.extras or {}).items():
        of_token = _entry(of_sequences, sequence, f"extras[{key!r}]")
        extras[key] = of_token, f"extras[{key!r}][{sequence}]"
    return LabelledTokens(ids.cpu(), labels.cpu(), None if weights is None else weights.cpu(),
                          {key: _extra(*of, len(ids)) for key, of in extras.items()})


def _extra(given, name, tokens):
    of_token = _converted(given, f"{name} are no numbers", "; give one entry for each token").detach().cpu()
    if of_token.ndim == 0 or len(of_token) != tokens:
        raise InvalidInput(f"{name} has shape {list(of_token.shape)}, the document has {tokens} tokens; give one "
                           "entry for each token, also for those that are no targets")
    return of_token


def _entry(by_sequence, sequence, name):
    try:
        return by_sequence[sequence]
    except (IndexError, KeyError):
        raise InvalidInput(
            f"{name} has no entry {sequence}; give every sequence of this rank's replica") from None


def _tensor(given, name):
    ids = _converted(given, f"{name} is no list of token ids")
    if ids.numel() and (ids.dtype == torch.bool or ids.is_floating_point() or ids.is_complex()):
        raise InvalidInput(
            f"{name} is of type {ids.dtype}, must be whole numbers; give token ids")
    return ids.to(torch.int64)


def _converted(given, refusal, remedy=""):
    """A tensor of what is given. Raises InvalidInput with torch's reason between refusal and remedy."""
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"{refusal}: {reason}{remedy}") from None


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
