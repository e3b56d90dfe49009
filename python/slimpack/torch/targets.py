"""Next-token targets of documents."""

import dataclasses

import numpy as np
import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED, extras_of, labels_of, weights_of

MOST = torch.finfo(torch.float32).max  # a weight; sums of such stay finite in fp64


@dataclasses.dataclass(frozen=True)
class Targets:
    """Next-token targets of a document or of slices.

    labels_T: by token the label of the next one; -100 = that is no target. weights_T: by token the
    next one's weight (fp64); None = 1 each. extras: by name likewise what else a loss takes of the
    next one, [T, …].
    """

    labels_T: torch.Tensor
    weights_T: torch.Tensor | None = None
    extras: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)

    @classmethod
    def joined(cls, parts):
        """The targets of slices, one behind the other."""
        labels_T = torch.cat([part.labels_T for part in parts])
        extras = {name: torch.cat([part.extras[name] for part in parts]) for name in parts[0].extras}
        if all(part.weights_T is None for part in parts):
            return cls(labels_T, extras=extras)
        return cls(labels_T, torch.cat([part.weights() for part in parts]), extras)

    def __getitem__(self, part):
        return Targets(self.labels_T[part], None if self.weights_T is None else self.weights_T[part],
                       {name: of_token[part] for name, of_token in self.extras.items()})

    @property
    def weight(self):
        """The sum of the weights of all targets."""
        if self.weights_T is None:
            return float(count_of(self.labels_T))
        return self.weights_T[self.labels_T != IGNORED].sum().item()

    def of_weight_1(self):
        """Targets whose weights are scaled so that they add up to 1, where there are any."""
        weight = self.weight
        return dataclasses.replace(self, weights_T=self.weights() / weight) if weight else self

    def weights(self):
        """weights_T, also where all are 1."""
        if self.weights_T is None:
            return torch.ones(len(self.labels_T), dtype=torch.float64, device=self.labels_T.device)
        return self.weights_T

    def weights_by_token(self):
        """The weight of each token itself as a target, fp64; 0 = it is none."""
        counted_T = torch.where(self.labels_T != IGNORED, self.weights(), 0.0)
        return counted_T.roll(1)  # nothing follows the last token


def targets_of(document):
    """By token of a document the label of the next one; none for the last token. document: a tensor of
    token ids, or LabelledTokens of tensors."""
    labels, weights = labels_of(document), weights_of(document)
    targets = torch.full_like(labels, IGNORED)
    targets[:-1] = labels[1:]
    if weights is not None:
        targets[:-1][weights[1:] == 0] = IGNORED
    return targets


def weighted_targets_of(document):
    """The Targets of a document that targets_of takes."""
    labels_T, weights = targets_of(document), weights_of(document)
    extras = {name: of_token.roll(-1, 0) for name, of_token in extras_of(document).items()}
    if weights is None or (weights[1:][labels_T[:-1] != IGNORED] == 1).all():
        return Targets(labels_T, extras=extras)
    return Targets(labels_T, torch.cat([weights[1:], weights.new_zeros(1)]).double(), extras)


def count_of(targets):
    """How many targets there are."""
    return int((targets != IGNORED).sum())


def as_weights(given, tokens, name, begin=0):
    """The weights of so many tokens as an fp64 tensor; None stays None. name: of the document;
    begin: the place of its first token, for messages. Raises InvalidInput for what are none."""
    if given is None:
        return None
    try:
        # numpy takes numbers of Python as fp64; its copy may be written to
        weights = given if isinstance(given, torch.Tensor) else torch.from_numpy(np.array(given))
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidInput(f"the weights of {name} are no list of numbers: {str(error).splitlines()[0]}"
                           "; give one number for each token") from None
    if weights.shape != (tokens,):
        raise InvalidInput(f"the weights of {name} have shape {list(weights.shape)}, it has {tokens} "
                           "tokens; give one weight for each token")
    if weights.is_complex():
        raise InvalidInput(f"the weights of {name} are of type {weights.dtype}; give real numbers")
    weights = weights.double()
    wrong = ~((weights >= 0) & (weights <= MOST))  # NaN is neither
    if wrong.any():
        place = int(wrong.nonzero()[0, 0])
        raise InvalidInput(f"the weights of {name} have {weights[place].item():g} at position "
                           f"{begin + place}, must be from 0 to {MOST:.1e}; give 0 for what is no target")
    return weights
