"""The steps of a training run: which documents they take, and how they are planned and read while
others train."""

import json
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch

from slimpack import InvalidInput, StepPlan, _planner
from slimpack.balancing import require_positive
from slimpack.labelled import LabelledTokens
from slimpack.lengths import as_lengths
from slimpack.torch.targets import as_weights, count_of, targets_of

_END = object()  # of an iterator


class Drawn(NamedTuple):
    """The sequences of a step. documents, begins, lengths: by sequence its document, the tokens
    before it and its own. cursor: where the sampler stands after it."""

    documents: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray
    cursor: dict


class StepSampler:
    """Draws whole documents at random, each once an epoch, as `slimpack train` does with the same
    seed.

    lengths: tokens of every document. Of a mixture of datasets, a list with such lengths for each;
        documents are then numbered through, as read_from reads them. A step ends with the sequence
        that reaches step_tokens, on all ranks together.
    long_documents: what becomes of documents longer than `context`: "split" makes several sequences
        of each, "truncate" keeps its beginning, "drop" leaves it out.
    weights: shares of the trained tokens, one for each dataset; they need not add up to 1. They hold
        at every step.
    epochs: passes over each dataset in an epoch of the mixture, such as 0.5 or 2. Without weights and
        epochs each dataset has one.
    """

    def __init__(self, lengths, *, context, step_tokens, seed=0, long_documents="split", weights=None,
                 epochs=None):
        self._sources = _sources_of(lengths)
        for name, value in (("context", context), ("step_tokens", step_tokens)):
            require_positive(name, value)
        for source in self._sources:
            if min(context, source.max(initial=0)) < 2:
                raise InvalidInput(
                    f"no token is predicted: the context is {context}, the longest document has "
                    f"{source.max(initial=0)} tokens; both need 2 or more")
        self.context, self.step_tokens, self.long_documents = context, step_tokens, long_documents
        self._shares = {"weights": _shares("weights", weights), "epochs": _shares("epochs", epochs)}
        self.tokens = sum(int(source.sum()) for source in self._sources)  # of all documents
        self.go_to({"seed": seed, "sources": []})

    def next_step(self):
        """The next step's Drawn."""
        columns = self._native.next_step()
        return Drawn(*columns, json.loads(self._native.cursor))

    def peek(self):
        """The lengths of the next step, which stays the next one."""
        before = json.loads(self._native.cursor)
        lengths = self.next_step().lengths
        self.go_to(before)
        return lengths

    def state_dict(self, cursor=None):
        """Where the sampler stands, or stood at a cursor of Drawn."""
        state = {"documents": sum(source.size for source in self._sources), "tokens": self.tokens,
                 "context": self.context, "step_tokens": self.step_tokens,
                 "long_documents": self.long_documents,
                 "cursor": cursor or json.loads(self._native.cursor)}
        if len(self._sources) > 1:
            of_each = {"sources": [[source.size, int(source.sum())] for source in self._sources]}
            state |= of_each | self._shares
        return state

    def load_state_dict(self, state):
        """Goes on where another sampler of the same documents stood."""
        saved = {"long_documents": "split"} | state  # runs from before this setting split them
        here = self.state_dict(state["cursor"])
        for name in here | saved:
            if saved.get(name) != here.get(name):
                raise InvalidInput(
                    f"the sampler's {name} was {saved.get(name)}, here it is {here.get(name)}; go on "
                    "with the same documents, context, step_tokens and shares")
        self.go_to(state["cursor"])

    def go_to(self, cursor):
        """Goes on behind the Drawn that has this cursor."""
        self._native = _planner.Sampler.make(self._sources, self.context, self.step_tokens,
                                             self.long_documents, **self._shares,
                                             cursor=json.dumps(cursor))


def _sources_of(lengths):
    """The lengths of each dataset, as arrays."""
    several = isinstance(lengths, (list, tuple)) and lengths and all(np.ndim(one) == 1 for one in lengths)
    return [as_lengths(one) for one in (lengths if several else [lengths])]


def _shares(name, given):
    try:
        return [] if given is None else [float(share) for share in given]
    except (TypeError, ValueError):
        raise InvalidInput(f"{name} are {given!r}, must be numbers, one for each dataset") from None


def read_from(datasets):
    """The `read` of PlannedSteps for several datasets, each with a length and a method `read`, such as
    IndexedDataset: their documents are numbered through, as StepSampler draws them."""
    datasets = list(datasets)
    ends = np.cumsum([len(dataset) for dataset in datasets])

    def read(document, begin, end):
        number = int(np.searchsorted(ends, document, side="right"))
        first = int(ends[number - 1]) if number else 0
        return datasets[number].read(document - first, begin, end)

    return read


class PlannedStep(NamedTuple):
    """plan: the same on all ranks. drawn: its sequences. documents: documents_of them. planning_ns,
    reading_ns: how long planning took, and reading on this rank; waited_ns: how long training
    waited for the plan. left_out: sequences drawn before, of steps without a target."""

    plan: StepPlan
    drawn: Drawn
    documents: dict
    planning_ns: int
    waited_ns: int
    reading_ns: int = 0
    left_out: int = 0


class PlannedSteps:
    """Plans steps on the first rank, ahead of training, hands the plans to the others, and reads
    documents ahead.

    While a step trains, the documents of the next one are read and the one after that is planned.
    So two steps are planned before the first one trains.

    job: a slimpack.Job with this run's stages and replicas; only the first rank's is used. Every
        step is planned for the layers that the engine's stages hold.
    sampler: a StepSampler, the same on all ranks.
    read: read(document, begin, end) returns token ids, or LabelledTokens where not all are targets or
        the loss takes extras, such as IndexedDataset.read. It is called on a thread of its own, on the ranks of the first
        and the last stage.
    """

    def __init__(self, engine, job, sampler, read):
        self.sampler = sampler
        self._engine, self._read_document = engine, read
        self._job = job.with_stages(engine.stage.place.layer_begin)
        self._left_out = []  # the lengths of sequences left out since the last step with a target

    def plan(self, lengths):
        """The StepPlan of some sequences, on all ranks. Raises InvalidInput where there is none."""
        with self._engine.watch:
            first = self._engine.groups.rank == 0
            return self._handed_over(self._job.plan(lengths) if first else None)[0]

    def take(self, count, max_tokens=None):
        """The next `count` PlannedSteps, or fewer where their tokens reach max_tokens before. All
        ranks of the engine go through them together, and may leave off before the end.

        A step without a target is left out with a warning. Raises InvalidInput where a step cannot be
        planned, and where no document has a target.
        """
        last, tokens = None, 0
        with ThreadPoolExecutor(1, "slimpack planner") as planner, \
                ThreadPoolExecutor(1, "slimpack reader") as reader:
            try:
                while count and not (max_tokens and tokens >= max_tokens):  # again for what is left out
                    draws = self._draw(count, max_tokens and max_tokens - tokens)
                    for step in self._with_targets(self._read(reader, self._handed(planner, draws))):
                        last = step.drawn.cursor
                        tokens, count = tokens + int(step.drawn.lengths.sum()), count - 1
                        yield step
            finally:
                if last is not None:
                    self.sampler.go_to(last)  # steps ahead may have been drawn in vain

    def _draw(self, count, max_tokens):
        """The Drawn of `take`, if none is left out."""
        tokens = 0
        while count and not (max_tokens and tokens >= max_tokens):
            drawn = self.sampler.next_step()
            tokens, count = tokens + int(drawn.lengths.sum()), count - 1
            yield drawn

    def _with_targets(self, steps):
        """The steps that have a target on some rank, on all ranks."""
        while True:
            with self._engine.watch:
                step = next(steps, None)
                if step is None:
                    return
                targets = self._targets_of(step)
            if targets:
                left_out, self._left_out = len(self._left_out), []
                yield step._replace(left_out=left_out)
                continue
            self._left_out += step.drawn.lengths.tolist()
            if sum(self._left_out) > 2 * self.sampler.tokens:  # all of an epoch
                raise InvalidInput("no document has a target, so there is nothing to learn; give labels "
                                   "other than -100")
            if self._engine.groups.rank == 0:
                warnings.warn(f"a step is left out: none of its {int(step.drawn.lengths.sum())} tokens is a "
                              "target", stacklevel=2)

    def _targets_of(self, step):
        """The targets of a step, on all ranks together."""
        own = step.documents.values() if self._engine.stage.place.is_last else ()
        said = self._engine.groups.gather_numbers([sum(count_of(targets_of(document)) for document in own)])
        return sum(count for count, in said)

    def _handed(self, planner, draws):
        """PlannedSteps without documents of all draws, on all ranks; while one is used, the first
        rank plans the next."""
        first = self._engine.groups.rank == 0

        def start(drawn):
            return drawn, planner.submit(self._timed_plan, drawn.lengths) if first else None

        for drawn, planning in _one_ahead(map(start, draws)):
            begin = time.monotonic_ns()
            plan, planning_ns = planning.result() if first else (None, None)
            plan, planning_ns = self._handed_over(plan, planning_ns)
            yield PlannedStep(plan, drawn, {}, planning_ns, time.monotonic_ns() - begin)

    def _read(self, reader, handed):
        """The steps with their documents; while one is used, the next one's are read."""

        def start(step):
            return step, reader.submit(self._timed_documents, step)

        for step, reading in _one_ahead(map(start, handed)):
            documents, reading_ns = reading.result()
            yield step._replace(documents=documents, reading_ns=reading_ns)

    def _timed_documents(self, step):
        start = time.monotonic_ns()
        documents = documents_of(step.drawn, step.plan, self._engine, self._read_document)
        return documents, time.monotonic_ns() - start

    def _timed_plan(self, lengths):
        start = time.monotonic_ns()
        return self._job.plan(lengths), time.monotonic_ns() - start

    def _handed_over(self, plan, planning_ns=0):
        """On all ranks what the first one has."""
        said = None if plan is None else (plan.to_json(), planning_ns)
        text, planning_ns = self._engine.groups.hand_over(said)
        return plan or StepPlan.from_json(text, "plan of rank 0"), planning_ns


def _one_ahead(items):
    """The items; when one is given, the next one has been asked for."""
    items = iter(items)
    ahead = next(items, _END)
    while ahead is not _END:
        item, ahead = ahead, next(items, _END)
        yield item


def documents_of(drawn, plan, engine, read):
    """Token ids or LabelledTokens by sequence of the engine's replica, as tensors; stages in the middle
    need none."""
    documents, place = {}, engine.stage.place
    if not (place.is_first or place.is_last):
        return documents
    for sequence in map(int, plan.replicas[engine.groups.replica].sequences):
        begin, length = int(drawn.begins[sequence]), int(drawn.lengths[sequence])
        number = int(drawn.documents[sequence])
        documents[sequence] = _as_tensors(read(number, begin, begin + length), number, begin)
    return documents


def _as_tensors(document, number, begin):
    if not isinstance(document, LabelledTokens):
        return _as_tensor(document)
    tokens, labels = _as_tensor(document.tokens), _as_tensor(document.labels)
    if labels.shape != tokens.shape:
        raise InvalidInput(f"document {number} has labels of shape {list(labels.shape)} for {len(tokens)} "
                           "tokens; give one label for each token")
    weights = as_weights(document.weights, len(tokens), f"document {number}", begin)
    return LabelledTokens(tokens, labels, weights, document.extras)


def _as_tensor(ids):
    return ids if isinstance(ids, torch.Tensor) else torch.tensor(ids)
