"""transformers.Trainer and what is made of it, on balanced batches of whole documents."""

import contextlib
import copy

import numpy as np
import torch
from transformers import Trainer

from slimpack import InvalidInput
from slimpack.balancing import require_under_cap
from slimpack.labelled import IGNORED
from slimpack.torch.trainer.apart import keep_apart
from slimpack.torch.trainer.attention import packed
from slimpack.torch.trainer.documents import documents_of
from slimpack.torch.trainer.evaluation import Evaluation
from slimpack.torch.trainer.refusals import require_caps, require_settings, require_sliceable, require_trainer
from slimpack.torch.trainer.sliced import SlicedDocuments
from slimpack.torch.trainer.steps import Steps, costs_of_model, loader_of


class SlimPackMixin:
    """Put before a Trainer, such as TRL's SFTTrainer, it packs whole documents without padding, as heavy on
    every data-parallel rank, and lets each target of a step count alike.

        class MyTrainer(SlimPackMixin, SFTTrainer): pass

    max_tokens: no micro-batch of a rank holds more. By default the largest padded batch of the same
        arguments: per_device_train_batch_size × the tokens of the longest document.
    max_slice_tokens: longer documents, also than max_tokens, run in slices of so many tokens, so that the
        activations of one slice exist at a time. Backward passes compute slices again. The model must be one
        that slimpack.torch.check finds exact.

    A step has the documents that the arguments say: per_device_train_batch_size ×
    gradient_accumulation_steps of each rank. They run in as few micro-batches as hold them, so
    `args.gradient_accumulation_steps` is 1 afterwards and `args.per_device_train_batch_size` the product.

    eval_loss is the mean over all targets. compute_metrics gets logits and labels by document, padded with
    -100, in the order of the dataset.

    Raises InvalidInput for settings that cannot hold.
    """

    def __init__(self, model=None, args=None, *others, max_tokens=None, max_slice_tokens=None, **options):
        require_caps(max_tokens, max_slice_tokens)
        if args is not None:
            require_settings(args)
        super().__init__(model, args, *others, **options)
        require_settings(self.args)
        require_trainer(self, super())
        self._max_tokens, self._per_batch = max_tokens, self.args.per_device_train_batch_size
        self._sliced = None
        if max_slice_tokens is not None:
            require_sliceable(self, super())
            self._sliced = SlicedDocuments(self._base_model(), max_slice_tokens)
        self.args = copy.copy(self.args)
        self.args.per_device_train_batch_size *= self.args.gradient_accumulation_steps
        self.args.gradient_accumulation_steps = 1
        self._train_batch_size = self.args.train_batch_size
        self._evaluation, self._train_steps = None, None
        self._eval_steps = {}  # by name (dataset, Steps)
        self._is_apart, self._to_keep_apart = False, None  # before the first step two documents
        if self.train_dataset is not None:
            self._train_steps = self._steps_of(self.train_dataset, "train_dataset", self.args.train_batch_size,
                                               self._per_batch, self._seed())

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        order = cls.__mro__
        if Trainer in order and not issubclass(order[order.index(SlimPackMixin) + 1], Trainer):
            raise InvalidInput(f"SlimPackMixin stands behind a Trainer in {cls.__name__}; put it first: class "
                               f"{cls.__name__}(SlimPackMixin, …)")

    def get_train_dataloader(self):
        if self._train_steps is None:
            raise InvalidInput("there is no train_dataset; give one")
        if self.args.gradient_accumulation_steps != 1:
            raise InvalidInput(f"gradient_accumulation_steps was set to {self.args.gradient_accumulation_steps} after the "
                               "trainer was made, which chooses micro-batches itself; give it before")
        return loader_of(self._train_steps, self.args)

    def get_eval_dataloader(self, eval_dataset=None):
        name = "eval_dataset"
        if isinstance(eval_dataset, str):
            name, eval_dataset = f"eval_dataset[{eval_dataset!r}]", self.eval_dataset[eval_dataset]
        eval_dataset = self.eval_dataset if eval_dataset is None else eval_dataset
        if eval_dataset is None:
            raise InvalidInput("there is no eval_dataset; give one")
        return self._evaluated(eval_dataset, name)

    def get_test_dataloader(self, test_dataset):
        return self._evaluated(test_dataset, "test_dataset")

    def training_step(self, model, inputs, num_items_in_batch=None):
        """Runs this rank's micro-batches of a step. num_items_in_batch: targets of the step, on all ranks."""
        self._keep_apart(model)
        batches = inputs["micro_batches"]
        self.current_gradient_accumulation_steps = len(batches)
        targets = num_items_in_batch.clamp(min=1)
        loss = torch.zeros((), device=self.args.device)
        for batch in inputs["long"]:  # before the last micro-batch, which sums gradients over ranks
            loss = loss + self._sliced.add_gradients(batch, targets.item() / self.args.world_size)
        for number, batch in enumerate(batches):
            is_last = number == len(batches) - 1
            with contextlib.nullcontext() if is_last else self.accelerator.no_sync(model), packed(batch):
                loss = loss + super().training_step(model, batch, targets)
        return loss

    def prediction_step(self, model, inputs, prediction_loss_only, ignore_keys=None):
        """Runs this rank's micro-batches of a step of an evaluation."""
        self._keep_apart(model)
        self.current_gradient_accumulation_steps = len(inputs["micro_batches"])
        packs = [self._predict(model, batch, prediction_loss_only) for batch in inputs["micro_batches"]]
        for batch in inputs["long"]:
            if not prediction_loss_only:
                raise InvalidInput(f"a document to predict has {batch['labels'].shape[1]} tokens, max_slice_tokens is "
                                   f"{self._sliced.slice_tokens}; leave compute_metrics out, or shorten it")
            self._evaluation.add(self._sliced.loss(batch).item(), int((batch["labels"] != IGNORED).sum()))
        loss = torch.tensor(self._evaluation.mean_here(), device=self.args.device)
        if prediction_loss_only:
            return loss, None, None
        return loss, *self._evaluation.rows(packs, inputs["documents"], self.args.process_index)

    def evaluation_loop(self, dataloader, description, prediction_loss_only=None, ignore_keys=None,
                        metric_key_prefix="eval"):
        self._evaluation, given = Evaluation(len(dataloader)), self.compute_metrics
        self.compute_metrics = given and self._evaluation.ordered(given)
        try:
            output = super().evaluation_loop(dataloader, description, prediction_loss_only, ignore_keys,
                                             metric_key_prefix)
        finally:
            self.compute_metrics = given
        output.metrics[f"{metric_key_prefix}_loss"] = self._evaluation.mean(self.accelerator)
        return output._replace(predictions=self._evaluation.sorted(output.predictions),
                               label_ids=self._evaluation.sorted(output.label_ids))

    def _predict(self, model, batch, loss_only):
        """(logits, labels, lengths of the documents) of a pack; None where only its loss is wanted."""
        batch, lengths = self._prepare_inputs(batch), batch["cu_seq_lens_q"].diff().tolist()
        labels = batch["labels"]
        with torch.no_grad(), self.compute_loss_context_manager(), packed(batch), self._without_balancing():
            found = self.compute_loss(model, batch, return_outputs=not loss_only,
                                      num_items_in_batch=torch.ones((), device=self.args.device))
        loss, outputs = (found, None) if loss_only else found
        ranks = self.args.world_size if self.args.average_tokens_across_devices else 1  # by which it was multiplied
        self._evaluation.add(loss.item() / ranks, int((labels != IGNORED).sum()))
        return None if loss_only else (outputs["logits"], labels, lengths)

    @contextlib.contextmanager
    def _without_balancing(self):
        """Within it TRL's trainers leave the balancing loss of experts out, which is no mean over targets."""
        enabled = getattr(self, "aux_loss_enabled", False)
        if enabled:
            self.aux_loss_enabled = False
        try:
            yield
        finally:
            if enabled:
                self.aux_loss_enabled = True

    def _steps_of(self, dataset, name, batch_size, per_batch, seed):
        documents = documents_of(dataset, self.data_collator, name,
                                 has_final_labels=hasattr(self, "completion_only_loss"))
        long_from = None if self._sliced is None else self._sliced.slice_tokens + 1
        whole = documents.lengths[documents.lengths < (long_from or np.inf)]
        max_tokens = self._max_tokens or per_batch * int(whole.max(initial=1))
        if len(whole):
            require_under_cap(documents.lengths if long_from is None else whole, max_tokens, "max_tokens",
                              f"{name}: document")
        if not self._is_apart:
            self._to_keep_apart = documents.longest_two()
        ranks = self.args.world_size
        return Steps(documents, costs_of_model(self.model, documents.lengths), per_step=batch_size * ranks,
                     max_tokens=max_tokens, ranks=ranks, rank=self.args.process_index, seed=seed, long_from=long_from)

    def _evaluated(self, dataset, name):
        known, steps = self._eval_steps.get(name, (None, None))
        if known is not dataset:
            size = self.args.eval_batch_size
            steps = self._steps_of(dataset, name, size, size, None)
            self._eval_steps[name] = dataset, steps
        return loader_of(steps, self.args)

    def _seed(self):
        if self.args.train_sampling_strategy == "sequential":
            return None
        return self.args.seed if self.args.data_seed is None else self.args.data_seed

    def _base_model(self):
        """The transformers model, without what was put around it."""
        base = self.accelerator.unwrap_model(self.model)
        return base.get_base_model() if hasattr(base, "get_base_model") else base

    def _keep_apart(self, model):
        """Before the first step: the model must keep the documents of a pack apart."""
        if self._is_apart:
            return

        def forward(batch):
            with torch.no_grad(), self.compute_loss_context_manager():
                return model(**self._prepare_inputs(batch))["logits"]

        base = self._base_model()
        reduced = torch.bfloat16 if self.args.bf16 else torch.float16 if self.args.fp16 else base.dtype
        was_training = model.training
        model.eval()
        keep_apart(forward, base, self._to_keep_apart, reduced)
        model.train(was_training)
        self._is_apart, self._to_keep_apart = True, None


class SlimPackTrainer(SlimPackMixin, Trainer):
    """transformers.Trainer with SlimPackMixin."""
