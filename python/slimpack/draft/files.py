"""Reads and writes the folders of draft heads: config.json beside model.safetensors or
pytorch_model.bin, with the tensor names of EAGLE-3 (`midlayer.`) or of speculators (`layers.0.`)."""

import contextlib
import os
import pickle
from pathlib import Path

import torch

from slimpack import InvalidInput
from slimpack.draft.config import config_json, config_values, own_keys, read_config
from slimpack.draft.head import DraftHead
from slimpack.text.errors import shown
from slimpack.torch.alignment import aligned

_SAFETENSORS, _PICKLED = "model.safetensors", "pytorch_model.bin"
_MAPS = ("d2t", "t2d")  # between the vocabularies of head and target
_COMPUTED = ("rotary_emb.inv_freq",)  # ends of names that some files have and nobody needs


def load_head(folder, target=None, dtype=torch.float32):
    """The DraftHead in a folder.

    target: what the head is for (hidden_size, vocabulary, layers); a head of another one is refused.
    Raises InvalidInput where the folder holds no EAGLE-3 head, or tensors are missing or unknown.
    """
    folder = Path(folder)
    config = read_config(folder)
    file, tensors = _tensors_in(folder)
    head = _require_sound(file, tensors, config)
    head.load_state_dict({name: aligned(tensor if name in _MAPS else tensor.to(dtype))
                          for name, tensor in tensors.items()}, assign=True)
    for name, parameter in head.named_parameters():
        parameter.requires_grad_(not name.startswith("embed_tokens"))
    if target is not None:
        try:
            require_fit(head, target)
        except InvalidInput as error:
            raise InvalidInput(f"'{folder}': {error}") from None
    return head


def require_own_form(folder):
    """Raises InvalidInput unless the folder holds a head that load_head accepts, in the form that save_head
    writes, which `slimpack generate` reads. Reads no weights."""
    from safetensors import safe_open

    folder = Path(folder)
    config, values = read_config(folder), config_values(folder)
    file = folder / _SAFETENSORS
    if not file.exists():
        _require_any(folder)
        raise _of_other_form(folder, f"it has {_PICKLED}")
    with _reading(file), safe_open(file, "pt") as stored:
        named = stored.keys()
        raw = {name: stored.get_tensor(name) if name in _MAPS else
               torch.empty(stored.get_slice(name).get_shape(), device="meta") for name in named}
    tensors = _by_own_name(raw)
    _require_sound(file, tensors, config)
    other = sorted(raw.keys() - tensors.keys() - {name for name in raw if name.endswith(_COMPUTED)})
    lacks = [name for name in own_keys(config) if values.get(name) is None]
    if other or "d2t" not in raw or lacks:
        raise _of_other_form(folder, f"it has {other[0]}" if other else
                             f"its config.json lacks {lacks[0]}" if lacks else "it has no d2t")


def _of_other_form(folder, sign):
    return InvalidInput(f"'{shown(folder)}' is a head in another published form ({sign}); make EAGLE-3's form of "
                        f"it: slimpack draft convert {shown(folder)} --out FOLDER")


def save_head(head, folder):
    """Writes config.json and model.safetensors with EAGLE-3's names. Files that were there before stay until
    both are complete."""
    from safetensors.torch import save_file

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in head.state_dict().items()}
    partial = {name: folder / f".{name}.{os.getpid()}" for name in (_SAFETENSORS, "config.json")}
    try:
        save_file(state, partial[_SAFETENSORS], metadata={"format": "pt"})
        partial["config.json"].write_text(config_json(head.config), encoding="utf-8")
        for name, file in partial.items():
            file.replace(folder / name)
    finally:
        for file in partial.values():
            file.unlink(missing_ok=True)


def require_fit(head, target):
    """Raises InvalidInput where a head is for another target."""
    config = head.config
    for name, of_head, of_target in (("hidden size", config.target_hidden_size, target.hidden_size),
                                     ("vocabulary", config.vocab_size, target.vocabulary)):
        if of_head != of_target:
            raise InvalidInput(f"the head is for a {name} of {of_head}, the target's is {of_target}; "
                               "give the head of this target")
    deepest = max(config.target_layers or [0])
    if deepest >= target.layers:
        raise InvalidInput(f"the head takes the input of layer {deepest}, the target has "
                           f"{target.layers} layers; give the head of this target")
    if config.hidden_size != target.hidden_size and not hasattr(head, "embed_tokens"):
        raise InvalidInput(f"the head has no embed_tokens, and its hidden size {config.hidden_size} is "
                           f"not the target's {target.hidden_size}; take a complete head")


def _require_sound(file, tensors, config):
    """Adds the maps of the vocabulary that are missing. Returns the DraftHead, without weights."""
    try:
        with torch.device("meta"):
            head = DraftHead(config, own_embedding="embed_tokens.weight" in tensors)
        _add_vocabulary(tensors, config)
        _require_names(tensors, head)
    except InvalidInput as error:
        raise InvalidInput(f"'{file}': {error}") from None
    return head


def _tensors_in(folder):
    """(file, tensors by EAGLE-3's name)."""
    _require_any(folder)
    file = folder / _SAFETENSORS
    if not file.exists():
        file = folder / _PICKLED
    with _reading(file):
        raw = _read(file)
    if not isinstance(raw, dict) or not all(isinstance(t, torch.Tensor) for t in raw.values()):
        raise InvalidInput(f"'{file}' holds no tensors by name; give the folder of a draft head")
    return file, _by_own_name(raw)


def _require_any(folder):
    if not any((folder / name).exists() for name in (_SAFETENSORS, _PICKLED)):
        raise InvalidInput(f"'{folder}' has neither {_SAFETENSORS} nor {_PICKLED}; give the folder of a "
                           "draft head")


@contextlib.contextmanager
def _reading(file):
    """Tells in one line that a file cannot be read."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, ValueError, RuntimeError, EOFError, SafetensorError, pickle.UnpicklingError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise InvalidInput(f"cannot read '{file}': {reason}; copy the head again") from None


def _read(file):
    if file.name == _PICKLED:
        return torch.load(file, map_location="cpu", weights_only=True)
    from safetensors.torch import load_file

    return load_file(file)


def _by_own_name(raw):
    return {_own_name(name): tensor for name, tensor in raw.items() if not name.endswith(_COMPUTED)}


def _own_name(name):
    name = name.removeprefix("model.")
    return "midlayer." + name.removeprefix("layers.0.") if name.startswith("layers.0.") else name


def _add_vocabulary(tensors, config):
    """Checks d2t and t2d, and adds what is missing of them."""
    size, vocabulary = config.draft_vocab_size, config.vocab_size
    if "d2t" not in tensors:
        if size != vocabulary:
            raise InvalidInput(f"d2t is missing, and the head guesses {size:,} of {vocabulary:,} tokens; "
                               "take a complete head")
        tensors["d2t"] = torch.zeros(size, dtype=torch.int64)
    d2t = tensors["d2t"] = tensors["d2t"].to(torch.int64)
    if d2t.shape != (size,):
        raise InvalidInput(f"d2t has shape {list(d2t.shape)}, config.json says [{size}]")
    ids = torch.arange(size) + d2t
    if ids.min() < 0 or ids.max() >= vocabulary or len(ids.unique()) != size:
        raise InvalidInput(f"d2t does not name {size:,} different tokens of {vocabulary:,}; take another "
                           "copy of the head")
    known = torch.zeros(vocabulary, dtype=torch.bool)
    known[ids] = True
    if "t2d" in tensors and not torch.equal(tensors["t2d"].to(torch.bool), known):
        raise InvalidInput("t2d and d2t name different tokens; take another copy of the head")
    tensors["t2d"] = known


def _require_names(tensors, head):
    wanted = head.state_dict()
    for name in wanted:
        if name not in tensors:
            raise InvalidInput(f"tensor {name} is missing; take a complete EAGLE-3 head")
    for name, tensor in tensors.items():
        if name not in wanted:
            raise InvalidInput(f"tensor {name} is unknown; heads of another kind are not supported")
        if tensor.shape != wanted[name].shape:
            raise InvalidInput(f"tensor {name} has shape {list(tensor.shape)}, config.json says "
                               f"{list(wanted[name].shape)}")
