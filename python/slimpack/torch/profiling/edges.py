"""Times and bytes of what is not a layer: the embedding, and the head with the loss."""

import torch

from slimpack.export.slices import Slice
from slimpack.torch.losses.function import loss_of
from slimpack.torch.losses.tokens import TOKEN
from slimpack.torch.pipeline.loss import StepLoss
from slimpack.torch.pipeline.packs import Pack, StagePlan
from slimpack.torch.pipeline.token_rows import Meter
from slimpack.torch.pipeline.work import KeyValues, SliceWork
from slimpack.torch.profiling.lone_layer import lone_stage
from slimpack.torch.targets import Targets

TOKENS = (64, 512, 2048)
_TURNS = 3


class Embedding:
    """The embedding of token ids. trained: whether anything before the layers is."""

    def __init__(self, config, dtype, device, clock, *, trained):
        self._clock, self._trained = clock, trained
        text = config.get_text_config()
        self._module = torch.nn.Embedding(text.vocab_size, text.hidden_size, dtype=dtype,
                                          device=device)

    def times(self, tokens):
        """Nanoseconds of (forward, backward)."""
        device = self._module.weight.device
        ids_T = torch.randint(self._module.num_embeddings, (tokens,), device=device)
        rows_TD, forward = self._clock.timed(lambda: self._module(ids_T))
        if not self._trained:
            return forward, 0.0
        grad_TD = torch.randn_like(rows_TD)
        return forward, self._clock.timed(lambda: rows_TD.backward(grad_TD))[1]


class Head:
    """The last stage's head, and the loss and its gradient, in the model's own code."""

    def __init__(self, blueprint, dtype, device, clock):
        self._clock = clock
        config = blueprint.config
        layers = config.get_text_config().num_hidden_layers
        self._stage = lone_stage(blueprint, layers - 1, dtype, device, last=True)
        self._vocabulary = config.get_text_config().vocab_size
        with torch.no_grad():  # the head takes what the decoder returns
            pack = Pack((Slice(0, 0, 2),))
            plan = StagePlan([pack], [pack], [], {})
            attention = self._stage.division.attention
            work = SliceWork(pack, KeyValues(plan, attention.windows, Meter()), attention,
                             forward=True)
            only = self._stage.place.is_first
            ids_T = torch.zeros(2, dtype=torch.long, device=device)
            inputs = ids_T if only else self._random_rows(2, self._stage.width)
            self._width = self._stage(work, inputs).shape[-1]

    def time(self, tokens):
        """Nanoseconds."""
        loss, inputs = self._loss(tokens), self._inputs(tokens)
        return self._clock.timed(lambda: loss.add(*inputs))[1]

    def peak(self, tokens, meter):
        """Bytes beyond its input and that one's gradient."""
        loss, inputs = self._loss(tokens), self._inputs(tokens)
        meter.restart()
        before = meter.now
        loss.add(*inputs)
        return meter.peak - before - inputs[0].nbytes

    def _loss(self, tokens):
        return StepLoss(self._stage, loss_of(TOKEN), tokens)

    def _inputs(self, tokens):
        return self._random_rows(tokens, self._width), Targets(torch.randint(self._vocabulary, (tokens,)))

    def _random_rows(self, tokens, width):
        return torch.randn(tokens, width, dtype=self._stage.dtype, device=self._stage.device)


def fastest_of(run, context):
    """(tokens, figures) by number of tokens, of a few turns."""
    sizes = sorted({min(tokens, context) for tokens in TOKENS})
    run(sizes[0])  # warms up
    best = {}
    for _ in range(_TURNS):
        for tokens in sizes:
            figures = run(tokens)
            figures = figures if isinstance(figures, tuple) else (figures,)
            best[tokens] = tuple(map(min, zip(best.get(tokens, figures), figures, strict=True)))
    return list(best.items())
