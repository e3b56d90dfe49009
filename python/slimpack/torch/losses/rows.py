"""A block of tokens that are predicted, as a loss sees it."""

import functools

import torch

from slimpack import InvalidInput


class Rows:
    """A block of T targets of a MicroPack. A slice is one, too.

    logits_TV: the model's logits, fp32 (fp64 of fp64 models), by which the loss is differentiated.
    targets_T: the tokens that are predicted.
    weights_T: what a row's loss is multiplied with when the step's is summed up, fp64.
    rows[name]: what `extras` has under that name of these tokens, [T, …], on the logits' device.
    """

    def __init__(self, logits_TV, targets_T, weights_T, extras):
        self.logits_TV, self.targets_T, self.weights_T = logits_TV, targets_T, weights_T
        self._extras = extras

    def __len__(self):
        return len(self.targets_T)

    def __getitem__(self, key):
        if isinstance(key, slice):
            extras = {name: of_token[key] for name, of_token in self._extras.items()}
            return Rows(self.logits_TV[key], self.targets_T[key], self.weights_T[key], extras)
        if key not in self._extras:
            raise InvalidInput(f"the loss takes '{key}' of every token, the step has "
                               f"{', '.join(sorted(self._extras)) or 'no extras'}; give "
                               f"step(…, extras={{'{key}': …}}), or LabelledTokens with it")
        return self._extras[key]

    def __contains__(self, name):
        return name in self._extras

    @functools.cached_property
    def logsumexp_T(self):
        return self.logits_TV.logsumexp(-1)

    @functools.cached_property
    def logprobs_T(self):
        """The log-probability of each target."""
        return self.logits_TV.gather(-1, self.targets_T[:, None])[:, 0] - self.logsumexp_T

    @functools.cached_property
    def entropy_T(self):
        """The entropy of each row's distribution, in nats."""
        # A logit of −∞ has probability 0, and 0 · −∞ would be no number.
        finite_TV = self.logits_TV.clamp(min=torch.finfo(self.logits_TV.dtype).min)
        return self.logsumexp_T - (self.logits_TV.softmax(-1) * finite_TV).sum(-1)
