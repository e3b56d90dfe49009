"""Documents of a micro-batch as one row without padding."""

import torch

from slimpack import InvalidInput
from slimpack.labelled import IGNORED

LOSS_MASKS = ("completion_mask", "assistant_masks")  # 0: no loss, as TRL reads them


class PackedCollator:
    """Gives the batches of transformers' DataCollatorWithFlattening(return_flash_attn_kwargs=True), from
    lists, arrays or tensors: input_ids, labels and position_ids of shape [1, tokens], and cu_seq_lens_q,
    cu_seq_lens_k, max_length_q and max_length_k for variable-length attention.

    A document has "input_ids" and, if not all its tokens are targets, "labels" of the same length. The
    first label of a document is -100, so no target crosses documents when the model shifts them. A token
    whose "attention_mask" is 0 is padding and left out; one whose "completion_mask" or "assistant_masks"
    is 0 has no loss. Other entries are left out.

    Without documents it gives one token without loss: a micro-batch for a rank that has none, so that all
    ranks run as many. Sum the loss and divide by the step's targets, as transformers.Trainer does with
    average_tokens_across_devices; the mean over no targets would be NaN.
    """

    def __init__(self, *, position_ids=True, sequence_lengths=True):
        self.position_ids = position_ids
        self.sequence_lengths = sequence_lengths

    def __call__(self, documents):
        pairs = [_tokens_and_labels(document) for document in documents] or [_filler()]
        ids, labels = zip(*pairs, strict=True)
        batch = {"input_ids": torch.cat(ids)[None], "labels": torch.cat(labels)[None]}
        lengths = [len(tokens) for tokens in ids]
        if self.position_ids:
            batch["position_ids"] = torch.cat([torch.arange(length) for length in lengths])[None]
        if self.sequence_lengths:
            cumulative = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
            batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"] = cumulative
            batch["max_length_q"] = batch["max_length_k"] = max(lengths)
        return batch


def _filler():
    return torch.zeros(1, dtype=torch.int64), torch.full((1,), IGNORED)


def _tokens_and_labels(document):
    """1-D int64 tensors of one length; the input is left alone."""
    if "input_ids" not in document:
        raise InvalidInput(f"a document has the entries {', '.join(document)}, must have input_ids; tokenize the "
                           "dataset first")
    ids = _numbers("input_ids", document["input_ids"])
    labels = _numbers("labels", document.get("labels", ids), ids).clone()
    for name in LOSS_MASKS:
        if name in document:
            labels[_numbers(name, document[name], ids) == 0] = IGNORED
    if "attention_mask" in document:
        kept = _numbers("attention_mask", document["attention_mask"], ids) != 0
        ids, labels = ids[kept], labels[kept]
    if len(ids) == 0:
        raise InvalidInput("a document has no tokens; leave empty documents out")
    labels[0] = IGNORED
    return ids, labels


def _numbers(name, values, like=None):
    """A 1-D int64 tensor. like: one that it must be as long as."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        raise InvalidInput(f"{name} is {values!r:.60}, must be a list of whole numbers for each document; give "
                           "token ids") from None
    if tensor.ndim != 1:
        raise InvalidInput(f"{name} has the shape {list(tensor.shape)}, must have 1 dimension; give each document "
                           "without a batch dimension")
    if tensor.numel() and (tensor.is_floating_point() or tensor.is_complex()):
        raise InvalidInput(f"{name} is of type {tensor.dtype}, must be whole numbers; convert it to int64")
    if like is not None and len(tensor) != len(like):
        raise InvalidInput(f"{name} has {len(tensor)} entries, input_ids has {len(like)}; give one for each token")
    return tensor.to(torch.int64)
