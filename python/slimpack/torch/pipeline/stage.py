"""A stage: consecutive layers of a Hugging Face causal decoder, whose own code runs them."""

import collections
import contextlib
import copy
import dataclasses
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from slimpack import InvalidInput
from slimpack.torch.alignment import align
from slimpack.torch.pipeline.adapters import adapter_of, base_of, new_adapter
from slimpack.torch.pipeline.attention import NAME
from slimpack.torch.pipeline.cache import Running, SliceCache
from slimpack.torch.pipeline.experts import Routers, routers_of
from slimpack.torch.pipeline.language_model import is_part
from slimpack.torch.pipeline.layers import (
    End,
    Skip,
    find_layers,
    inputs_beside_tokens,
    with_first_argument,
)
from slimpack.torch.pipeline.loading import load_divided
from slimpack.torch.pipeline.mixers import ByDocument, whole_documents
from slimpack.torch.pipeline.observation import Observed, observe
from slimpack.torch.pipeline.ownership import (
    Hollow,
    forget_absent_ties,
    names_of_language,
    ownership_of,
)
from slimpack.torch.pipeline.packs import require_runnable
from slimpack.torch.pipeline.places import by_place, padding_before_places
from slimpack.torch.pipeline.refusals import (
    require_cache_in_training,
    require_trainable,
    require_wide_weights,
    stage_begins,
)
from slimpack.torch.pipeline.rest import Rest, rest_of
from slimpack.torch.pipeline.rotary import by_document
from slimpack.torch.pipeline.selective import Selective
from slimpack.torch.pipeline.work import Stopped


class Place(NamedTuple):
    """Where a stage is: its number, and the layers of all stages. Stage s holds the layers from
    layer_begin[s] to before layer_begin[s + 1]."""

    index: int
    layer_begin: tuple[int, ...]

    @property
    def stages(self):
        return len(self.layer_begin) - 1

    @property
    def layers(self):
        return range(self.layer_begin[self.index], self.layer_begin[self.index + 1])

    @property
    def is_first(self):
        return self.index == 0

    @property
    def is_last(self):
        return self.index == self.stages - 1


def place_of(layout, index):
    """The Place of a stage of a StepPlan, which is checked, or of a layer_begin."""
    if hasattr(layout, "layer_begin"):
        require_runnable(layout)
        layout = layout.layer_begin
    stages = len(layout) - 1
    return Place(dist.get_rank() % stages if index is None else index, tuple(layout))


@dataclasses.dataclass
class Division:
    """Facts about a model that was divided.

    tied: names of parameters that the first and the last stage both have, whose gradients add up.
    width: numbers of a token between stages.
    rest: what the model has beside its language model.
    observed: what the stage's layers keep between slices.
    """

    place: Place
    tied: list[str]
    width: int
    observed: Observed
    running: Running
    hollow: Hollow
    routers: Routers | None
    rest: Rest

    @property
    def attention(self):
        return self.observed.attention


def _with_ties(names, model):
    """Names of parameters with those that are tied to them, which have no weight of their own; a
    model on the meta device is not tied yet."""
    ties = [set(pair) for pair in model.all_tied_weights_keys.items()]
    return names.union(*(pair for pair in ties if pair & names))


def divide(model, place):
    """Leaves of a model, in place, what a stage needs: the Division. The model may be on the meta
    device.

    Raises InvalidInput for models that this runtime cannot train, and for impossible places.
    """
    require_trainable(model.config)
    require_wide_weights(model)
    decoder, layers = find_layers(model)
    _require_layers(place, len(layers), stage_begins(model.config.get_text_config()))
    require_cache_in_training(layers)
    running = Running()
    for i, layer in enumerate(layers):
        for module in layer.modules():
            module.slimpack_layer = i, running
            module.slimpack_sdpa = bool(type(model)._supports_sdpa)
    owned = ownership_of(model)
    observed = observe(model, layers, place.layers, running, owned.values)
    before, after = (_with_ties(names, model) for names in (owned.before, owned.after))
    keep = (before if place.is_first else set()) | (after if place.is_last else set())
    mine = {parameter for i in place.layers for parameter in layers[i].parameters()}
    keep |= {name for name, parameter in model.named_parameters() if parameter in mine}
    routers = routers_of(model, layers, place.layers, running)
    language = names_of_language(model, layers, before, after)
    rest = rest_of(model, language) if place.is_first else Rest({})
    if not is_part(model.config):  # sinusoidal positions, which a family reads without a gradient
        keep |= {name for name, parameter in model.named_parameters()
                 if not parameter.requires_grad and name not in language}
    for i in range(len(layers)):
        if i not in place.layers:
            layers[i] = (End if i == place.layers.stop else Skip)(layers[i], owned.values)
    hollow = Hollow(model, keep)
    tied = sorted((before & after) - model.all_tied_weights_keys.keys()) if place.stages > 1 else []
    forget_absent_ties(model)
    return Division(place, tied, owned.width, observed, running, hollow, routers, rest)


def _require_layers(place, count, possible):
    """possible: the layers at which a stage may begin."""
    begins = place.layer_begin
    rising = all(a < b for a, b in zip(begins, begins[1:], strict=False))
    if len(begins) < 2 or begins[0] != 0 or begins[-1] != count or not rising:
        raise InvalidInput(
            f"layer_begin is {list(begins)}, must rise from 0 to the model's {count} layers; take "
            "a plan of this model")
    if not 0 <= place.index < place.stages:
        raise InvalidInput(f"stage {place.index} of {place.stages} does not exist; give one from 0")
    if place.layers.start not in possible:
        raise InvalidInput(
            f"stage {place.index} begins at layer {place.layers.start}, which uses the keys that the "
            f"layer before has chosen; begin it at one of the layers {possible}")


def _require_exact(model, adapter):
    from slimpack.torch.pipeline.once import require_exact  # which runs stages itself

    require_exact(model, adapter)


def _own_config(model):
    """Gives the model a configuration of its own: others may be made from the caller's."""
    copies = {}  # by id
    copy.deepcopy(model.config, copies)
    for module in model.modules():
        known = copies.get(id(getattr(module, "config", None)))
        if known is not None:
            module.config = known


def main_dtype(model, adapter):
    """The dtype of most of a model's own parameters, by their numbers. Those of an adapter do not
    count, which PEFT keeps in fp32."""
    numbers = collections.Counter()
    for name, parameter in model.named_parameters():
        if adapter is None or not adapter.owns(name):
            numbers[parameter.dtype] += parameter.numel()
    return max(numbers, key=numbers.get)


def _embedding_width(model, width):
    """The width of a decoder's embeddings; some families project them to the hidden states'
    width."""
    try:
        return getattr(model.get_input_embeddings(), "embedding_dim", width)
    except NotImplementedError:  # a user's own, which does not say
        return width


class Stage(nn.Module):
    """Made by Stage.from_model or Stage.from_pretrained.

    model: the family's own model. Only the parameters of this stage are left in it.
    padding: the token that documents must not have, or None (places.py).
    adapter: the Adapter of the whole model, of which this stage trains a share; None = the model's own
        weights train.
    """

    def __init__(self, model, division, adapter=None):
        super().__init__()
        self.model, self.division, self.adapter = model, division, adapter
        self.place, self.width = division.place, division.width
        self.decoder, layers = find_layers(model)
        self._cache = SliceCache(division.running)
        self._own_layers = [layers[i] for i in self.place.layers]
        self._injected_1TD = None
        self._output_type = None
        _own_config(model)
        model.config._attn_implementation = NAME
        self._fill_hollow()
        align(model)
        self._embedding_width = _embedding_width(model, self.width)
        by_document(self.decoder, division.running)
        by_place(self.decoder, division.running)
        self.padding = padding_before_places(model)
        self._first_place = 0 if self.padding is None else self.padding + 1
        for mixer in (mixer for of_layer in division.observed.mixers.values() for mixer in of_layer):
            mixer.forward = ByDocument(mixer, division.running, self._cache)
        for i in self.place.layers:
            layers[i].forward = Selective(layers[i].forward, i, division.running)
        if not self.place.is_first:
            first = layers[self.place.layers.start]
            first.register_forward_pre_hook(self._inject, with_kwargs=True)

    @classmethod
    def from_model(cls, model, layout, index=None, *, check=True):
        """A stage of a whole model, of which the other stages' parameters are removed.

        model: of transformers, with an adapter of PEFT in it or without, or a PeftModel.
        layout: a StepPlan, or its layer_begin.
        index: of the stage; by default rank modulo stages.
        check: whether a family that is met for the first time is tried before, as
            slimpack.torch.check does.

        Raises InvalidInput for models and plans that this runtime cannot run.
        """
        place = place_of(layout, index)
        model = base_of(model)
        adapter = adapter_of(model)
        if check:
            _require_exact(model, adapter)
        return cls(model, divide(model, place), adapter)

    @classmethod
    def from_pretrained(cls, folder, layout, index=None, *, dtype="auto", check=True, adapter=None,
                        adapter_seed=0):
        """Does what from_model does, with a model on disk or on the Hub. Only the stage's weights
        are loaded, and nothing before model and plan are known to run.

        adapter: a LoraConfig of PEFT, or the folder or Hub name of an adapter that PEFT has saved, to
            go on from. It trains alone.
        adapter_seed: of a new adapter's random weights, which are the same for any stages.
        """
        place = place_of(layout, index)
        new = None if adapter is None else new_adapter(folder, adapter, adapter_seed)
        if check:
            _require_exact(folder, new and new.of)
        model, division = load_divided(folder, dtype, lambda model: divide(model, place))
        division.rest.source = folder
        if new is not None:
            new.put_into(model)
        return cls(model, division, new and new.of)

    def tied_parameters(self):
        """Parameters that another stage has, too, and whose gradients add up."""
        if self.place.is_first or self.place.is_last:
            return [self.model.get_parameter(name) for name in self.division.tied]
        return []

    def stored_parameters(self):
        """By name the parameters that training changes and checkpoints hold: those of the adapter, or
        without one all."""
        if self.adapter is not None:
            return self.adapter.parameters(self.model)
        return dict(self.model.named_parameters())

    def own_layers(self):
        """The stage's layers, in order."""
        return self._own_layers

    @property
    def device(self):
        return next(self.parameters()).device

    @property
    def dtype(self):
        """The type of the hidden states; families keep some parameters in fp32 beside them."""
        return self._dtype

    def forward(self, work, rows):
        """Runs the stage's layers on a pack's rows: token ids [T] on the first stage, else hidden
        states [T, D]. Returns those after the layers, on the last stage after the final norm, [T,
        D]; None where the work stopped before."""
        require_cache_in_training(self._own_layers)
        inputs = {"input_ids": rows[None]}
        if not self.place.is_first:
            # Its values do not matter; some families scale them in place.
            inputs = {"inputs_embeds": rows.new_zeros(1, len(rows), self._embedding_width)}
            self._injected_1TD = rows[None]
        try:
            with self.working_on(work, rows.device) as positions_T:
                places_1T = positions_T[None] + self._first_place
                beside = inputs_beside_tokens(self.decoder, self._cache, places_1T)
                output = self.decoder(**inputs, **beside, use_cache=True)
        except Stopped as stopped:
            return None if stopped.hidden_1TD is None else self._for_the_next(stopped.hidden_1TD[0])
        finally:
            self._injected_1TD = None
        self._output_type = type(output)
        return output.last_hidden_state[0]

    def _for_the_next(self, hidden_TD):
        """The hidden states, in the dtype that the next stage expects."""
        if hidden_TD.dtype != self.dtype:
            kept_wide = getattr(self.model.config.get_text_config(), "residual_in_fp32", False)
            raise InvalidInput(
                f"the hidden states of {type(self.model).__name__} are {hidden_TD.dtype}, most of "
                f"its parameters {self.dtype}; " + (
                    "make the model with config.residual_in_fp32 = False" if kept_wide else
                    "give the model one dtype, with model.to"))
        return hidden_TD

    @contextlib.contextmanager
    def working_on(self, work, device):
        """Within it, layers that run work on that. Gives the positions of its rows, [T]."""
        positions_T = torch.cat([torch.arange(part.begin, part.end) for part in work.pack.slices])
        positions_T = positions_T.to(device)
        work.prepare(device)
        if self.division.observed.mixers:
            work.whole = whole_documents(work, device)
        running = self.division.running
        running.work = work
        running.offsets_T = positions_T - torch.arange(len(positions_T), device=device)
        try:
            yield positions_T
        finally:
            running.work = None

    def logits(self, hidden_TD):
        """The family's own head, with its scale and its soft-capping, on rows after the final
        norm."""
        found = self._output_type(last_hidden_state=hidden_TD[None])
        self.decoder.forward = lambda *_, **__: found
        try:
            return self.model(**self._any_inputs(hidden_TD), use_cache=False).logits[0]
        finally:
            del self.decoder.forward

    def _any_inputs(self, hidden_TD):
        """Inputs that nothing comes of. A model of more than text would compare embeddings with those of
        its other inputs' tokens."""
        if is_part(self.model.config):
            return {"input_ids": torch.zeros(1, len(hidden_TD), dtype=torch.long, device=hidden_TD.device)}
        return {"inputs_embeds": hidden_TD[None]}

    def _apply(self, fn, recurse=True):
        super()._apply(fn, recurse)
        self._fill_hollow()
        return self

    def _fill_hollow(self):
        self._dtype = main_dtype(self.model, self.adapter)
        self.division.hollow.fill(self._dtype, self.device)

    def _inject(self, _, args, kwargs):
        """The decoder has treated its inputs as embeddings; the layers take the hidden states."""
        return with_first_argument(self._injected_1TD, args, kwargs)
