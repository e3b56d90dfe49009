"""Several sources of documents in one epoch, each so often as the user says."""

import math

import numpy as np

from slimpack import InvalidInput
from slimpack.lengths import as_lengths

_GOLDEN = (math.sqrt(5) - 1) / 2
_LOOKED_AT = 256  # epochs, for the one with the most tokens


class Mixture:
    """The documents of an epoch. Those of a source have the numbers behind those of the sources before it.

    An epoch has floor(epochs · documents + ½) documents of a source: each of them as often as epochs says,
    rounded down or up. Those that come once more lie behind each other on a circle, and the next epoch
    goes on behind them. So in any number of epochs no document of a source comes more than once more often
    than another. Neighbours in length lie far apart on the circle: all epochs have about as many tokens.
    """

    def __init__(self, sources, epochs, seed):
        """sources: lengths by source. epochs: by source."""
        self.lengths, self.epochs = np.concatenate(sources), epochs
        self._sizes = [source.size for source in sources]
        self._begins = [0, *np.cumsum(self._sizes).tolist()]
        self._counts = [math.floor(e * n + 0.5) for e, n in zip(epochs, self._sizes, strict=True)]
        self._circles = {source: self._circle(source, seed) for source, (count, size)
                         in enumerate(zip(self._counts, self._sizes, strict=True)) if size and count % size}

    @classmethod
    def of(cls, lengths, weights, epochs, seed):
        """The Mixture of SlimPackSampler's arguments. Raises InvalidInput for what is none."""
        if weights is None and epochs is None:
            return cls([as_lengths(lengths)], [1.0], seed)
        if weights is not None and epochs is not None:
            raise InvalidInput("give one of weights and epochs, not both")
        sources = [as_lengths(source) for source in _listed(lengths)]
        name, given = ("weights", weights) if epochs is None else ("epochs", epochs)
        shares = _positive(name, given, len(sources))
        for number, source in enumerate(sources):
            if source.sum() < 1:
                raise InvalidInput(f"source {number} has no tokens; leave it out")
        if epochs is None:  # an epoch has as many tokens as the sources together
            tokens, total = sum(int(source.sum()) for source in sources), sum(shares)
            shares = [share / total * tokens / int(source.sum()) for share, source in zip(shares, sources, strict=True)]
        made = cls(sources, shares, seed)
        for number, count in enumerate(made._counts):
            if count == 0:
                raise InvalidInput(f"source {number} comes {shares[number]:g} times an epoch, which is none of its "
                                   f"{sources[number].size} documents; raise it")
        return made

    @property
    def varies(self):
        """Whether epochs have other documents."""
        return bool(self._circles)

    @property
    def count(self):
        """The documents of an epoch, each as often as it comes."""
        return sum(self._counts)

    def drawn(self, epoch):
        """The documents of an epoch, source by source."""
        parts = []
        for source, (begin, size) in enumerate(zip(self._begins, self._sizes, strict=False)):
            whole, more = divmod(self._counts[source], size)
            parts += [np.arange(begin, begin + size)] * whole
            if more:
                parts.append(np.sort(self._circles[source][(epoch * more + np.arange(more)) % size]))
        return np.concatenate(parts)

    def heaviest(self):
        """The epoch with the most tokens, of the first ones."""
        tokens = np.zeros(_LOOKED_AT, np.int64)
        for source, circle in self._circles.items():
            more = self._counts[source] % circle.size
            before = np.concatenate([[0], self.lengths[np.concatenate([circle, circle])].cumsum()])
            begins = np.arange(_LOOKED_AT) * more % circle.size
            tokens += before[begins + more] - before[begins]
        return int(tokens.argmax())

    def _circle(self, source, seed):
        """The documents of a source on a circle."""
        begin, size = self._begins[source], self._sizes[source]
        random = np.random.default_rng([seed, source, size])
        order = begin + random.permutation(size)
        by_length = order[np.argsort(self.lengths[order], kind="stable")]
        places = (np.arange(size) * _GOLDEN + random.random()) % 1
        return by_length[np.argsort(places, kind="stable")]


def _listed(lengths):
    if isinstance(lengths, np.ndarray) and lengths.ndim < 2 or not hasattr(lengths, "__len__"):
        raise InvalidInput("lengths are of one source; give a list of them, one for each of weights or epochs")
    return list(lengths)


def _positive(name, given, sources):
    """The numbers of a list: finite, above 0, one for each source."""
    try:
        found = [float(value) for value in given]
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} is {given!r}, must be a list of numbers, one for each source") from None
    if len(found) != sources:
        raise InvalidInput(f"{name} has {len(found)} numbers, lengths has {sources} sources; give one for each")
    for number, value in enumerate(found):
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(f"{name}[{number}] is {value:g}, must be above 0; leave out a source that is not to "
                               "come")
    return found
