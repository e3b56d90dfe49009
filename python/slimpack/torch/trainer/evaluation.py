"""The loss of an evaluation in packs, and its predictions by document."""

import numpy as np
import torch
from transformers import EvalPrediction

_NONE = -100  # what Trainer pads predictions and labels with


class Evaluation:
    """Adds up the loss of this rank and notes which document each row of the gathered predictions is.

    steps: how many the evaluation has.
    """

    def __init__(self, steps):
        self.loss, self.targets = 0.0, 0
        self._steps_left = steps
        self.order = []  # by gathered row a document, or -1

    def add(self, loss, targets):
        self.loss, self.targets = self.loss + loss, self.targets + targets

    def mean_here(self):
        """The mean over the targets of this rank so far; 0 without any."""
        return self.loss / max(self.targets, 1)

    def mean(self, accelerator):
        """The mean over all targets of all ranks; NaN without any."""
        both = torch.tensor([[self.loss, self.targets]], dtype=torch.float64, device=accelerator.device)
        loss, targets = accelerator.gather(both).sum(0).tolist()
        return loss / targets if targets else float("nan")

    def rows(self, packs, documents_by_rank, rank):
        """(logits, labels) with a row for each document of this rank's packs, of as many rows on every rank.
        packs: [(logits, labels, lengths)], of packs with or without documents."""
        count = max(map(len, documents_by_rank))
        self.order += [document for of_rank in documents_by_rank
                       for document in of_rank + [-1] * (count - len(of_rank))]
        own = len(documents_by_rank[rank])
        of_documents = [rows for logits, labels, lengths in packs
                        for rows in zip(logits[0].split(lengths), labels[0].split(lengths), strict=True)][:own]
        logits, labels = packs[0][:2]
        of_documents += [(logits[0, :0], labels[0, :0])] * (count - len(of_documents))
        return tuple(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=_NONE)
                     for rows in zip(*of_documents, strict=True))

    def ordered(self, compute_metrics):
        """compute_metrics, given rows in the order of the dataset: all of them, or with batch_eval_metrics those
        of a step, and then whether it is the last one."""
        def of_all(prediction):
            return compute_metrics(EvalPrediction(self.sorted(prediction.predictions), self.sorted(prediction.label_ids)))

        def of_step(prediction, compute_result):
            self._steps_left -= 1
            count = len(prediction.label_ids)
            rows = self.sorted(prediction.predictions, count), self.sorted(prediction.label_ids, count)
            return compute_metrics(EvalPrediction(*rows), compute_result=self._steps_left == 0)

        return lambda prediction, **by_step: of_step(prediction, **by_step) if by_step else of_all(prediction)

    def sorted(self, values, count=None):
        """Rows of the last `count` documents in the order of the dataset, without those of none."""
        if values is None:
            return None
        if isinstance(values, (tuple, list)):
            return type(values)(self.sorted(one, count) for one in values)
        order = np.array(self.order[-(count or len(self.order)):])
        places = np.argsort(order, kind="stable")[(order < 0).sum():]
        return values[places] if isinstance(values, np.ndarray) else values[torch.from_numpy(places).to(values.device)]
