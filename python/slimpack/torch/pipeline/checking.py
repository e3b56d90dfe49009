"""Tries whether a model is trained exactly in slices, on a small random model of its family."""

import contextlib
import copy
import dataclasses
import random
import textwrap
import time
from functools import partial

import torch
from transformers import PreTrainedModel

from slimpack import InvalidInput
from slimpack.torch.pipeline.adapters import adapter_of, add_random, base_of, new_adapter
from slimpack.torch.pipeline.comparison import Fp64Casts, largest_difference, plain_step
from slimpack.torch.pipeline.family import family_of
from slimpack.torch.pipeline.local import LocalEngine, stages_of
from slimpack.torch.pipeline.packs import stage_plan
from slimpack.torch.pipeline.random_plan import random_layer_begin, random_plan
from slimpack.torch.pipeline.refusals import (
    reason_of,
    require_trainable,
    require_wide_weights,
    stage_begins,
)
from slimpack.torch.pipeline.small_model import scatter, small_model
from slimpack.torch.pipeline.stage import Place, divide

EXACT = 1e-9  # of a gradient's largest entry; fp64 sums in another order differ by some 1e-14
STAGES = 3
_LENGTHS = (1, 2, 3, 40)  # 40 is past every window of the small model; two more are random
_LONG = 150  # past two chunks of 64, which some scans of layers with states have in every model
_FIRST_TOKEN = 3  # those before it may be special
EQUAL_SCORES = ("of tokens with equal scores, a slice may choose others than the whole document does; "
                "where no token comes twice, it is exact")


@dataclasses.dataclass(frozen=True)
class Report:
    """The findings of `check`.

    model: the class that was tried.
    by_cache: whether its keys and values were taken where it caches them; otherwise where it
        attends.
    with_states: how many of its layers hand on a state.
    layers, stages, lengths: of the small model and its documents.
    gradient_error: the largest difference of a gradient's entry, over that gradient's largest
        entry.
    parameter: the one whose gradient that was.
    loss_error: of the loss, relative.
    seconds: that the whole check took.
    adapter: what trains in it, in words; "" = all of its weights.
    reason: why it is not exact, in words; "" where it is, or where that was not found.
    """

    model: str
    by_cache: bool
    with_states: int
    layers: int
    stages: int
    lengths: tuple[int, ...]
    gradient_error: float
    parameter: str
    loss_error: float
    seconds: float
    adapter: str = ""
    reason: str = ""

    @property
    def exact(self):
        return _are_exact([(self.gradient_error, self.parameter, self.loss_error)])

    def __str__(self):
        tokens = f"{min(self.lengths)} to {max(self.lengths)}"
        return "\n".join([
            f"{self.model}: " + ("exact" if self.exact else "NOT EXACT"),
            f"  tried      {self.layers} layers on {self.stages} stages, "
            f"{len(self.lengths)} documents of {tokens} tokens",
            *(["  trains     " + textwrap.shorten(self.adapter, 67, placeholder=" …")]
              if self.adapter else []),
            *(["  keys from  " + ("the cache" if self.by_cache else "attention")]
              if self.with_states < self.layers or self.by_cache else []),
            *([f"  states     of {self.with_states} layers"] if self.with_states else []),
            f"  gradients  differ by at most {self.gradient_error:.0e} of their largest entry",
            f"             in {_shortened(self.parameter, 64)}",
            f"  loss       differs by {self.loss_error:.0e}",
            *textwrap.wrap(self.reason, 78, initial_indent="  because    ",
                           subsequent_indent=" " * 13),
            f"  seconds    {self.seconds:.1f}"])


def check(model, *, adapter=None, seed=0):
    """Compares a random step in slices with plain training, one document at a time: a Report.

    The step cuts documents differently forward and backward and runs on several stages, in this
    process, in fp64. The model that runs is a small one with random weights: fewer layers, but one
    of every kind, and the same rope, windows and experts.

    model: a transformers model, its configuration, its name on the Hub or its folder; or a PeftModel.
        Where it has an adapter, that trains alone.
    adapter: one that the model is to get, as Stage.from_pretrained takes it.
    seed: of weights, documents and cuts.

    Raises InvalidInput for a model that cannot be trained in slices, with the reason.
    """
    model = base_of(model)
    if adapter is not None:
        return tried(model, new_adapter(model, adapter).of, seed)
    return tried(model, adapter_of(model) if _is_model(model) else None, seed)


@contextlib.contextmanager
def _on_one_thread():
    """Operators of a small model take longer to share out among threads than to compute, several times
    as long where other processes compute, too."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_on_one_thread()
def tried(model, adapter, seed=0):
    """Returns what `check` returns. adapter: the Adapter of the whole model, or None."""
    start = time.perf_counter()
    family, config = (type(model), model.config) if _is_model(model) else family_of(model)
    require_trainable(config)
    if _is_model(model):
        require_wide_weights(model)
    small = small_model(family, config, seed)
    if adapter is not None:
        scatter(add_random(small, adapter, seed), seed)
    rng = random.Random(seed)
    layers = small.config.get_text_config().num_hidden_layers
    with_states = len(divide(copy.deepcopy(small), Place(0, (0, layers))).observed.mixers)
    lengths = [*_LENGTHS, rng.randint(4, 12), rng.randint(12, 30), *([_LONG] if with_states else [])]
    begins = stage_begins(small.config.get_text_config())
    layer_begin = random_layer_begin(layers, min(STAGES, len(begins)), rng, begins)
    # A slice between two others gets the gradient of a state and leaves another.
    plan_of = partial(_cut_plan, lengths, layer_begin, rng, 2 if with_states else 1)
    errors, by_cache = _errors(small, _random_documents(small.config, lengths, seed), plan_of)
    gradient_error, parameter, _ = max(errors)
    reason = "" if _are_exact(errors) else _reason_of(small, lengths, plan_of, seed)
    return Report(family.__name__, by_cache, with_states, layers, len(layer_begin) - 1,
                  tuple(lengths), gradient_error, parameter, max(loss for *_, loss in errors),
                  time.perf_counter() - start, str(adapter or ""), reason)


def _errors(small, documents, plan_of):
    """([(gradient error, its parameter, loss error)], whether keys came from the cache) of steps whose
    plans cut forward and backward otherwise, alike, and with graphs that are kept in part."""
    small.zero_grad()
    errors = []
    with torch.device("cpu"), torch.enable_grad(), Fp64Casts():
        expected = plain_step(small, documents)
        for kind, recompute in (("sliced", "full"), ("symmetric", "nothing"),
                                ("symmetric", "elementwise")):
            plan = plan_of(kind=kind, recompute=recompute)
            stages = stages_of(lambda: _without_gradients(small), plan.layer_begin)
            loss = _run(stages, plan, documents)
            difference = largest_difference(small, stages)
            errors.append((*difference, abs(loss - expected) / abs(expected)))
    return errors, any(stage.division.attention.by_cache for stage in stages)


def _are_exact(errors):
    return all(of_gradient <= EXACT and of_loss <= EXACT for of_gradient, _, of_loss in errors)


def _reason_of(small, lengths, plan_of, seed):
    """Report.reason of a model that is not exact."""
    vocabulary = small.config.get_text_config().vocab_size - _FIRST_TOKEN
    if vocabulary < max(lengths):
        return ""
    generator = torch.Generator().manual_seed(seed)
    documents = [_FIRST_TOKEN + torch.randperm(vocabulary, generator=generator)[:length]
                 for length in lengths]
    return EQUAL_SCORES if _are_exact(_errors(small, documents, plan_of)[0]) else ""


def _cut_plan(lengths, layer_begin, rng, cuts, **how):
    """A random plan whose backward passes cut the longest document at least `cuts` times: what a slice
    leaves for an earlier one is tried only there."""
    longest = lengths.index(max(lengths))
    while True:
        plan = random_plan(lengths, layer_begin, rng, **how)
        if len(stage_plan(plan, 0, 0).begins(["backward"]).get(longest, ())) >= cuts:
            return plan


def _is_model(model):
    if isinstance(model, torch.nn.Module) and not isinstance(model, PreTrainedModel):
        raise InvalidInput(
            f"{type(model).__name__} is no transformers.PreTrainedModel, whose cache and attention "
            "interfaces slices need; derive it from that class")
    return isinstance(model, PreTrainedModel)


def _without_gradients(model):
    copied = copy.deepcopy(model)
    copied.zero_grad()
    return copied


def _random_documents(config, lengths, seed):
    generator = torch.Generator().manual_seed(seed)
    vocabulary = config.get_text_config().vocab_size
    return [torch.randint(_FIRST_TOKEN, vocabulary, (length,), generator=generator) for length in lengths]


def _run(stages, plan, documents):
    try:
        return LocalEngine(stages).step(plan, documents)[0]
    except InvalidInput:
        raise
    except Exception as error:  # the family's own code, of any kind
        model = stages[0].model
        raise InvalidInput(
            f"{type(model).__name__} fails on slices: {reason_of(model, error)}; train this model "
            "without a pipeline") from error


def _shortened(text, width):
    return text if len(text) <= width else "…" + text[1 - width:]
