"""Documents, packs and batches of torch_pipelining.py."""
import copy
import random
from dataclasses import dataclass
from pathlib import Path

import torch

IGNORE = -100


@dataclass
class Piece:
    """A run of tokens that attends to itself only, with its next-token labels."""

    tokens: torch.Tensor
    labels: torch.Tensor

    def __len__(self):
        return len(self.tokens)


@dataclass
class Pack:
    pieces: list

    @property
    def lengths(self):
        return [len(p) for p in self.pieces]

    @property
    def used(self):
        return sum(self.lengths)

    @property
    def cost(self):  # attention pairs + linear work, only used to order packs
        return sum(n * n for n in self.lengths) + 4096 * self.used


class Batch:
    """The micro-batches of one step, padded to one shape."""

    def __init__(self, packs, width):
        self.packs, self.width = packs, width
        self.tokens = torch.zeros(len(packs), width, dtype=torch.long)
        self.labels = torch.full((len(packs), width), IGNORE)
        self.positions = torch.zeros(len(packs), width, dtype=torch.long)
        for row, pack in enumerate(packs):
            at = 0
            for piece in pack.pieces:
                end = at + len(piece)
                self.tokens[row, at:end] = piece.tokens
                self.labels[row, at:end] = piece.labels
                self.positions[row, at:end] = torch.arange(len(piece))
                at = end
        self.ids = torch.arange(len(packs))
        self.targets = int((self.labels != IGNORE).sum())

    def __len__(self):
        return len(self.packs)

    def warmup(self, cut=256):
        """These micro-batches with documents of at most `cut` tokens: same shapes, little attention."""
        batch = copy.copy(self)
        batch.packs = []
        for pack in self.packs:
            pieces = []
            for p in pack.pieces:
                pieces += [Piece(p.tokens[i : i + cut], p.labels[i : i + cut]) for i in range(0, len(p), cut)]
            batch.packs.append(Pack(pieces))
        return batch


def read_documents(root, seed):
    files = sorted(p for p in Path(root).rglob("*.py") if "site-packages" not in p.parts)
    random.Random(seed).shuffle(files)
    for path in files:
        data = path.read_bytes()
        if len(data) >= 2:
            yield torch.tensor(list(data), dtype=torch.long)


def take_step(documents, context, budget):
    """Documents cut at `context` until `budget` tokens are in."""
    pieces, total = [], 0
    while total < budget:
        tokens = next(documents)[:context]
        labels = torch.cat([tokens[1:], torch.tensor([IGNORE])])
        pieces.append(Piece(tokens, labels))
        total += len(tokens)
    return pieces


def pack_bfd(pieces, capacity):
    packs = []
    for piece in sorted(pieces, key=len, reverse=True):
        fits = [p for p in packs if p.used + len(piece) <= capacity]
        if fits:
            max(fits, key=lambda p: p.used).pieces.append(piece)
        else:
            packs.append(Pack([piece]))
    return packs


def pack_balanced(pieces, capacity):
    """Packs of about equal cost, as many as best-fit makes: the longest document first, each into the
    cheapest pack so far."""
    packs = [Pack([]) for _ in pack_bfd(pieces, capacity)]
    for piece in sorted(pieces, key=len, reverse=True):
        min(packs, key=lambda p: p.cost).pieces.append(piece)
    return packs


def make_even(packs):
    """Looped schedules in torch refuse an odd number of micro-batches above 3: split one pack."""
    if len(packs) % 2 and len(packs) > 3:
        source = max(packs, key=lambda p: (len(p.pieces) > 1, p.used))
        if len(source.pieces) > 1:
            half = len(source.pieces) // 2
            packs.append(Pack(source.pieces[half:]))
            source.pieces = source.pieces[:half]
        else:  # nothing but one-document packs: an empty micro-batch
            packs.append(Pack([Piece(torch.zeros(1, dtype=torch.long), torch.tensor([IGNORE]))]))
    return packs


def build_batch(pieces, args):
    if args.packing == "pad":
        packs = [Pack([p]) for p in pieces]
    else:
        pack = {"bfd": pack_bfd, "balanced": pack_balanced}[args.packing]
        packs = pack(pieces, args.pack_len)
    width = max(p.used for p in packs)
    if args.looped:
        packs = make_even(packs)
    if args.order != "given":
        packs.sort(key=lambda p: p.cost, reverse=args.order == "desc")
        if args.order == "hill":  # cheap packs at both ends of the step
            packs = packs[0::2] + packs[1::2][::-1]
    return Batch(packs, width)
