"""The loss of held-out documents, as `slimpack train` evaluates it (docs/metrics.md)."""

import time

import numpy as np

from slimpack import InvalidInput
from slimpack.lengths import as_lengths
from slimpack.torch.pipeline.steps import Drawn, documents_of


class HeldOut:
    """Documents in batches of the sampler's step_tokens, as sequences of at most its context.

    documents: token ids of each, or (lengths, read) as StepSampler and PlannedSteps take them.
    Every method is called by all ranks.
    """

    def __init__(self, documents, sampler):
        lengths, self._read = _lengths_and_read(documents)
        sequences = [(document, begin, min(sampler.context, length - begin))
                     for document, length in enumerate(lengths.tolist())
                     for begin in range(0, length, sampler.context)]
        self._batches = list(_batches_of(sequences, sampler.step_tokens))
        self._plans = None
        self._targets = sum(length - 1 for *_, length in sequences)
        self._said = {"evaluation_documents": len({document for document, *_ in sequences}),
                      "evaluation_tokens": sum(length for *_, length in sequences)}
        if self._targets == 0:
            raise InvalidInput(
                "held_out has no sequence of two tokens, so there is no loss; give other documents")

    def plan(self, steps):
        """Plans all batches, once. Raises InvalidInput where one cannot be planned."""
        if self._plans is None:
            self._plans = [steps.plan(batch.lengths) for batch in self._batches]

    def evaluate(self, engine, before_batch):
        """What a line of metrics.jsonl says of an evaluation. REQUIRES: plan."""
        start, loss = time.monotonic_ns(), 0.0
        for plan, batch in zip(self._plans, self._batches, strict=True):
            before_batch()
            with engine.watch:
                documents = documents_of(batch, plan, engine, self._read)
            result = engine.evaluate(plan, documents)
            loss += result.loss * result.targets if result.targets else 0
        return {"evaluation_loss": loss / self._targets, **self._said,
                "evaluation_ns": time.monotonic_ns() - start}


def _lengths_and_read(documents):
    if isinstance(documents, tuple) and len(documents) == 2 and callable(documents[1]):
        return as_lengths(documents[0]), documents[1]
    lengths = as_lengths([len(tokens) for tokens in documents])
    return lengths, lambda document, begin, end: documents[document][begin:end]


def _batches_of(sequences, at_most):
    """Drawn of the sequences in their order, each with at most so many tokens, unless a single
    sequence has more."""
    batch, tokens = [], 0
    for sequence in sequences:
        if batch and tokens + sequence[-1] > at_most:
            yield _drawn(batch)
            batch, tokens = [], 0
        batch.append(sequence)
        tokens += sequence[-1]
    if batch:
        yield _drawn(batch)


def _drawn(batch):
    return Drawn(*np.array(batch, np.int64).T.copy(), cursor=None)
