"""A stage of one layer in the middle of a model, without the rest: what a profile measures."""

from typing import NamedTuple

import torch

from slimpack.export.slices import Slice
from slimpack.torch.pipeline.layers import End, find_layers
from slimpack.torch.pipeline.memory import Memories
from slimpack.torch.pipeline.packs import Pack, StagePlan
from slimpack.torch.pipeline.stage import Place, Stage, divide
from slimpack.torch.pipeline.stage_step import StageStep
from slimpack.torch.pipeline.states import RECURRENT
from slimpack.torch.pipeline.wide_adamw import WideAdamW
from slimpack.torch.pipeline.work import KeyValues, SliceWork
from slimpack.torch.profiling.blueprint import initialized


class Point(NamedTuple):
    """A MicroPack of `slices` equal slices of `tokens` tokens after `prefix`."""

    tokens: int
    prefix: int
    slices: int


_FEW = 4  # tokens of a sequence whose keys and states are counted

FULL, NOTHING, ELEMENTWISE = "full", "nothing", "elementwise"  # what backward computes again


class Passes(NamedTuple):
    """Nanoseconds of a MicroPack's passes, by what backward computes again."""

    full_forward: float
    full_backward: float
    nothing_forward: float
    nothing_backward: float
    elementwise_forward: float
    elementwise_backward: float


class Sizes(NamedTuple):
    """Bytes of a MicroPack's passes beyond what the step keeps and what was there before: the peak
    of a forward without a graph; of each kind of graph its own and the peak of its backward."""

    forward_peak: int
    nothing_bytes: int
    nothing_backward_peak: int
    elementwise_bytes: int
    elementwise_backward_peak: int


class Kept(NamedTuple):
    """Bytes that a layer keeps of a sequence: of a token's keys and values, as it hands them to its
    cache; of its states at a cut; of these states' gradients."""

    key_values: float
    states: float
    state_gradients: float


class _Middle(Place):
    """Neither embedding nor head."""

    is_first = is_last = False


def lone_stage(blueprint, layer, dtype, device, *, last=False):
    """A Stage of one layer with random weights; last: it is the last one, with the head."""
    model = blueprint.unloaded(dtype)
    count = blueprint.config.get_text_config().num_hidden_layers
    begins = sorted({0, layer, layer + 1, count})
    place = (Place if last else _Middle)(begins.index(layer), tuple(begins))
    division = divide(model, place)
    _, layers = find_layers(model)
    divided = list(layers)
    for i in range(len(divided)):
        layers[i] = divided[layer]  # some families' initialization looks into each
    initialized(model, device)
    for i, of_stage in enumerate(divided):
        layers[i] = of_stage
    return Stage(model.train(), division)


class LoneLayer:
    """Runs MicroPacks through a lone stage as slimpack.torch.pipeline does."""

    def __init__(self, blueprint, layer, dtype, device, clock):
        self.stage = lone_stage(blueprint, layer, dtype, device)
        self.device, self._dtype, self._layer, self._clock = device, dtype, layer, clock
        self._trained = [p for p in self.stage.parameters() if p.requires_grad]
        self._optimizer = self._trained and WideAdamW(self._trained, lr=1e-9)  # makes gradients wide
        self.times(Point(16, 0, 1))  # makes the gradients, which no MicroPack pays for

    def times(self, point):
        """The Passes of a Point."""
        return Passes(*self._timed(point, FULL), *self._timed(point, NOTHING),
                      *self._timed(point, ELEMENTWISE))

    def _timed(self, point, recompute):
        step, number, rows_TD = self._prepared(point, recompute)
        hidden_TD, forward = self._clock.timed(lambda: step.forward(number, rows_TD))
        grad_TD = torch.randn_like(hidden_TD)
        return forward, self._clock.timed(lambda: step.backward(0, grad_TD))[1]

    def bytes(self, point, meter):
        """The Sizes of a Point. meter: of live_bytes, entered."""
        step, number, rows_TD = self._prepared(point, FULL)
        peak = _beyond(step, meter, lambda: step.forward(number, rows_TD))[1]
        del step
        return Sizes(peak, *self._graph_bytes(point, NOTHING, meter),
                     *self._graph_bytes(point, ELEMENTWISE, meter))

    def _graph_bytes(self, point, recompute, meter):
        """(bytes of a graph, peak of the backward that uses it)."""
        step, number, rows_TD = self._prepared(point, recompute, prefix_stays=True)
        graph, _ = _beyond(step, meter, lambda: step.forward(number, rows_TD))
        grad_TD = rows_TD.detach().clone()
        _, backward = _beyond(step, meter, lambda: step.backward(0, grad_TD))
        return graph, backward

    def preamble(self, tokens):
        """Nanoseconds that a stage takes for a forward before its first layer."""
        layers = find_layers(self.stage.model)[1]
        mine = layers[self._layer]
        layers[self._layer] = End(mine)
        try:
            work, rows_TD = self._first_work(Point(tokens, 0, 1)), self._rows(tokens)
            with torch.no_grad():
                return self._clock.timed(lambda: self.stage(work, rows_TD))[1]
        finally:
            layers[self._layer] = mine

    def state_products(self):
        """The multiply-adds of a token with the layer's recurrent states, as if token by token; 0 where
        it has none."""
        mixers = self.stage.division.observed.mixers.get(self._layer, ())
        work = self._first_work(Point(1, _FEW, 1))
        with torch.no_grad():
            self.stage(work, self._rows(_FEW))
        elements = work.key_values.states.elements(RECURRENT)
        return elements * max((mixer.forward.scans.products for mixer in mixers), default=0)

    def _first_work(self, point):
        """The forward work of a Point's prefixes, or of itself where it has none."""
        plan, attention = self._plan(point, FULL), self.stage.division.attention
        key_values = KeyValues(plan, attention.windows, Memories())
        return SliceWork(plan.forward[0], key_values, attention, forward=True)

    def kept(self, kind):
        """The Kept of the layer between slices. kind: its LayerKind."""
        tokens = _FEW
        held, gradients = self._kept_after(tokens)
        seen = min(tokens, kind.window - 1) if kind.window else tokens
        if not kind.has_state:
            return Kept(held / seen if seen and kind.attends else 0.0, 0.0, 0.0)
        if not kind.attends:
            return Kept(0.0, held, gradients)
        # States are as large after twice the tokens.
        more, more_gradients = self._kept_after(2 * tokens)
        further = (min(2 * tokens, kind.window - 1) if kind.window else 2 * tokens) - seen
        of_token, of_sum = ((after - before) / max(1, further) for before, after in
                            [(held, more), (gradients, more_gradients)])
        return Kept(of_token, held - of_token * seen, gradients - of_sum * seen)

    def _kept_after(self, tokens):
        """Bytes beside its input that a sequence's first tokens leave for a slice behind them, and
        those of gradients that this slice leaves."""
        step, number, rows_TD = self._prepared(Point(1, tokens, 1), FULL)
        meter, inputs = step.memories.device.meter, tokens * self.stage.width * self._dtype.itemsize
        held = meter.now - inputs
        hidden_TD = step.forward(number, rows_TD)
        step.backward(0, torch.randn_like(hidden_TD))
        return held, meter.now - inputs

    def optimizer_time(self, **options):
        """Nanoseconds of AdamW by trained parameter; where the layer is frozen, as if it was not.
        options: of WideAdamW."""
        parameters, optimizer = self._trained, self._optimizer
        if not parameters:
            parameters = [torch.nn.Parameter(p.detach()) for p in self.stage.parameters()]
        if not self._trained or options:
            optimizer = WideAdamW(parameters, lr=1e-9, **options)
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter, dtype=parameter.grad_dtype)
        fastest = min(self._clock.timed(optimizer.step)[1] for _ in range(4))
        return fastest / sum(p.numel() for p in parameters)

    def _prepared(self, point, recompute, **options):
        """(a step in which all prefixes have passed forward, the number of the pack, its rows)."""
        step = StageStep(self.stage, self._plan(point, recompute, **options), None, None, None)
        if point.prefix:
            step.forward(0, self._rows(point.slices * point.prefix))
        return step, 1 if point.prefix else 0, self._rows(point.slices * point.tokens)

    def _rows(self, tokens):
        return torch.randn(tokens, self.stage.width, dtype=self._dtype, device=self.device)

    def _plan(self, point, recompute, *, prefix_stays=False):
        """The prefixes as one pack, then the slices. prefix_stays: a backward pack that never runs
        would read it once more."""
        prefix = _pack(point, 0, point.prefix)
        own = _pack(point, point.prefix, point.prefix + point.tokens)
        forward = [prefix, own] if point.prefix else [own]
        backward = [own, _pack(point, 1, point.prefix)] if prefix_stays and point.prefix else [own]
        kept = {} if recompute == FULL else {0: len(forward) - 1}
        elementwise = frozenset([self._layer]) if recompute == ELEMENTWISE else frozenset()
        return StagePlan(forward, backward, [], kept, elementwise)


def _pack(point, begin, end):
    return Pack(tuple(Slice(s, begin, end) for s in range(point.slices)))


def _beyond(step, meter, run):
    """(bytes that are left, peak) of a call, beyond what the step's stores have taken."""
    meter.restart()
    before, stored = meter.now, step.memories.device.meter.now
    result = run()
    peak = meter.peak - before - max(0, step.memories.device.meter.now - stored)
    left = meter.now - before - (step.memories.device.meter.now - stored)
    del result
    return left, peak
