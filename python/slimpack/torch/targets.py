"""Next-token targets of documents."""

import torch

from slimpack.labelled import IGNORED, labels_of


def targets_of(document):
    """By token of a document the label of the next one; none for the last token. document: a tensor of
    token ids, or LabelledTokens of tensors."""
    labels = labels_of(document)
    targets = torch.full_like(labels, IGNORED)
    targets[:-1] = labels[1:]
    return targets


def count_of(targets):
    """How many targets there are."""
    return int((targets != IGNORED).sum())
