"""The loss of held-out documents, as `slimpack train` evaluates it (docs/metrics.md)."""

import collections
import time

from slimpack import InvalidInput, _planner
from slimpack.lengths import as_lengths
from slimpack.torch.pipeline.metrics import evaluation_figures
from slimpack.torch.pipeline.steps import Drawn, documents_of


class HeldOut:
    """Documents in batches of the sampler's step_tokens, as sequences of at most its context.

    documents: token ids or LabelledTokens of each, or (lengths, read) as StepSampler and PlannedSteps
    take them. name: of the set, where there are several.
    Every method is called by all ranks.
    """

    def __init__(self, documents, sampler, name=None):
        self.name = name
        lengths, self._read = _lengths_and_read(documents)
        batches = _planner.held_out_batches(lengths, sampler.context, sampler.step_tokens,
                                            sampler.long_documents)
        self._batches = [Drawn(*columns, cursor=None) for columns in batches]
        self._plans = None
        tokens = sum(int(batch.lengths.sum()) for batch in self._batches)
        documents = {document for batch in self._batches for document in batch.documents.tolist()}
        self._counts = {"documents": len(documents), "tokens": tokens}

    def plan(self, steps):
        """Plans all batches, once. Raises InvalidInput where one cannot be planned."""
        if self._plans is None:
            self._plans = [steps.plan(batch.lengths) for batch in self._batches]

    def evaluate(self, engine, before_batch):
        """(loss, metrics of the loss, nanoseconds) of an evaluation. Raises InvalidInput where no document has a target.
        REQUIRES: plan."""
        start, loss, weight, metrics = time.monotonic_ns(), 0.0, 0.0, collections.defaultdict(float)
        for plan, batch in zip(self._plans, self._batches, strict=True):
            before_batch()
            with engine.watch:
                documents = documents_of(batch, plan, engine, self._read)
            result = engine.evaluate(plan, documents)
            loss, weight = loss + result.loss * result.weight, weight + result.weight
            for name, value in result.metrics.items():
                metrics[name] += value * result.weight
        if weight == 0:
            raise InvalidInput(f"{self} has no target, so there is no loss; give other documents")
        means = {name: value / weight for name, value in metrics.items()}
        return loss / weight, means, time.monotonic_ns() - start

    def figures(self, step, loss, metrics, nanoseconds):
        """The figures of an evaluation's line in metrics.jsonl. step: steps done before it."""
        return evaluation_figures(step, loss, metrics, **self._counts, nanoseconds=nanoseconds,
                                  name=self.name or "")

    def __str__(self):
        return "held_out" if self.name is None else f"held_out[{self.name!r}]"


def held_out_sets(held_out, sampler):
    """A list of HeldOut: of the documents of each name, of documents without a name, or none for None."""
    if not isinstance(held_out, dict):
        return [] if held_out is None else [HeldOut(held_out, sampler)]
    for name in held_out:
        if not (isinstance(name, str) and name and name.isprintable()):
            raise InvalidInput(f"held_out has a set named {name!r}; give texts of one line as names")
    return [HeldOut(documents, sampler, name) for name, documents in held_out.items()]


def _lengths_and_read(documents):
    if isinstance(documents, tuple) and len(documents) == 2 and callable(documents[1]):
        return as_lengths(documents[0]), documents[1]
    lengths = as_lengths([len(tokens) for tokens in documents])
    return lengths, lambda document, begin, end: documents[document][begin:end]

