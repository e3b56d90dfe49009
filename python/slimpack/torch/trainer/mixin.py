"""transformers.Trainer and what is made of it, on balanced batches of whole documents."""

import contextlib
import copy

import torch
from transformers import Trainer

from slimpack.balancing import require_positive, require_under_cap
from slimpack.torch.trainer.documents import documents_of
from slimpack.torch.trainer.steps import Steps, loader_of
from slimpack.torch.trainer.work import costs_of_model


class SlimPackMixin:
    """Put before a Trainer, such as TRL's SFTTrainer, it packs whole documents without padding, as heavy on
    every data-parallel rank, and lets each target of a step count alike.

        class MyTrainer(SlimPackMixin, SFTTrainer): pass

    max_tokens: no micro-batch of a rank holds more. By default the largest padded batch of the same
        arguments: per_device_train_batch_size × the tokens of the longest document.

    A step has the documents that the arguments say: per_device_train_batch_size ×
    gradient_accumulation_steps of each rank. They run in as few micro-batches as hold them, so
    `args.gradient_accumulation_steps` is 1 afterwards and `args.per_device_train_batch_size` the product.

    Raises InvalidInput for settings that cannot hold.
    """

    def __init__(self, *args, max_tokens=None, **kwargs):
        require_positive("max_tokens", max_tokens)
        super().__init__(*args, **kwargs)
        per_batch = self.args.per_device_train_batch_size
        self.args = copy.copy(self.args)
        self.args.per_device_train_batch_size *= self.args.gradient_accumulation_steps
        self.args.gradient_accumulation_steps = 1
        self._train_batch_size = self.args.train_batch_size
        self._train_steps = None if self.train_dataset is None else self._steps_of(
            self.train_dataset, "train_dataset", self.args.train_batch_size, max_tokens, per_batch)

    def _steps_of(self, dataset, name, batch_size, max_tokens, per_batch):
        documents = documents_of(dataset, self.data_collator, name,
                                 has_final_labels=hasattr(self, "completion_only_loss"))
        if max_tokens is None:
            max_tokens = per_batch * int(documents.lengths.max())
        require_under_cap(documents.lengths, max_tokens, "max_tokens", "document")
        ranks = self.args.world_size
        return Steps(documents, costs_of_model(self.model, documents.lengths), per_step=batch_size * ranks,
                     max_tokens=max_tokens, ranks=ranks, rank=self.args.process_index, seed=self.args.seed)

    def get_train_dataloader(self):
        return loader_of(self._train_steps, self.args)

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Runs this rank's micro-batches of a step. num_items_in_batch: targets of the step, on all ranks."""
        batches = inputs["micro_batches"]
        self.current_gradient_accumulation_steps = len(batches)
        loss = torch.zeros((), device=self.args.device)
        for number, batch in enumerate(batches):
            is_last = number == len(batches) - 1
            with contextlib.nullcontext() if is_last else self.accelerator.no_sync(model):
                loss = loss + super().training_step(model, batch, num_items_in_batch.clamp(min=1))
        return loss


class SlimPackTrainer(SlimPackMixin, Trainer):
    """transformers.Trainer with SlimPackMixin."""
