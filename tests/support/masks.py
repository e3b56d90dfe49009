"""Datasets and their masks, laid out by hand as Megatron's format says. A mask is PREFIX.mask.bin and
PREFIX.mask.idx, a byte for each token."""

import struct
from pathlib import Path

import torch


def write_documents(prefix, documents, code, kind):
    """Each document is a sequence. code: of the numbers' type, which struct names `kind`."""
    lengths, count = [len(document) for document in documents], len(documents)
    begins = [struct.calcsize(kind) * sum(lengths[:d]) for d in range(count)]
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, count, count + 1)  # version 1
    index += struct.pack(f"<{count}i{count}q{count + 1}q", *lengths, *begins, *range(count + 1))
    Path(f"{prefix}.idx").write_bytes(index)
    numbers = [int(number) for document in documents for number in document]
    Path(f"{prefix}.bin").write_bytes(struct.pack(f"<{len(numbers)}{kind}", *numbers))


def write_tokens(prefix, documents):
    write_documents(prefix, documents, 4, "i")


def write_mask(prefix, masks):
    """masks: by document 1 for each token that is a target, else 0."""
    write_documents(f"{prefix}.mask", masks, 1, "B")


def masked_loss(model, documents, masks, mean="token"):
    """Loss of a Hugging Face model by its labels of -100: mean over the targets of all documents, or over
    documents that have one of their means ("document")."""
    total, count = 0.0, 0
    with torch.no_grad():
        for tokens, mask in zip(documents, masks, strict=True):
            labels = torch.tensor([t if flag else -100 for t, flag in zip(tokens, mask, strict=True)])
            logits = model(input_ids=torch.tensor([tokens])).logits[0].double()
            loss = torch.nn.functional.cross_entropy(logits[:-1], labels[1:], ignore_index=-100,
                                                     reduction="sum").item()
            targets = int((labels[1:] != -100).sum())
            if targets:
                total += loss / targets if mean == "document" else loss
                count += 1 if mean == "document" else targets
    return total / count
