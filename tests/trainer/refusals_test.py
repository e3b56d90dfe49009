"""Misuse is refused with one line, before anything is trained."""

import dataclasses

import datasets
import pytest
import torch
import transformers
import trl
from sft import tokenizer
from slimpack import InvalidInput
from slimpack.torch import SlimPackMixin, SlimPackTrainer
from transformers import LlamaForCausalLM, Trainer
from uneven import arguments, documents, tiny_model


class Packed(SlimPackMixin, trl.SFTTrainer):
    pass


class OwnLoader(SlimPackMixin, type("Owned", (Trainer,), {"get_train_dataloader": lambda self: None})):
    pass


class OwnSampler(SlimPackMixin, type("Owned", (Trainer,), {"_get_train_sampler": lambda self, dataset=None: None})):
    pass


class KeywordlessForCausalLM(LlamaForCausalLM):
    def forward(self, input_ids, attention_mask=None, labels=None):
        return super().forward(input_ids, attention_mask, labels=labels)


def plain(folder, rows=None, model=None, kind=SlimPackTrainer, max_tokens=None, callbacks=None, **changes):
    return kind(model or tiny_model(), arguments(folder, **changes), train_dataset=documents() if rows is None else rows,
                max_tokens=max_tokens)


def sft(folder, **changes):
    return Packed(tiny_model(), arguments(folder, trl.SFTConfig, **changes),
                  train_dataset=datasets.Dataset.from_list(documents()), processing_class=tokenizer(folder))


def balancing(model):
    model.config.output_router_logits = True
    return model


def without_keywords():
    return KeywordlessForCausalLM(tiny_model().config)


def cut(rows):
    return {"input_ids": torch.tensor([row["input_ids"][:20] for row in rows])}


class Streamed(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(documents())


@dataclasses.dataclass
class ManyGpus(transformers.TrainingArguments):
    """Arguments of a process that sees two GPUs."""

    n_gpu = 2


def columns(**given):
    return datasets.Dataset.from_dict(given)


MISUSES = {
    "a cap below a document": (
        lambda folder: plain(folder, max_tokens=39),
        r"train_dataset: document 0 has 40 tokens, max_tokens is 39; split long documents first .*, or raise max_tokens"),
    "no cap": (lambda folder: plain(folder, max_tokens=0), r"max_tokens is 0, must be"),
    "packing": (lambda folder: sft(folder, packing=True), r"packing is True; SlimPackMixin packs .* itself.*; leave it out"),
    "packing to evaluate": (lambda folder: sft(folder, eval_packing=True), r"eval_packing is True; SlimPackMixin packs"),
    "padding-free": (lambda folder: sft(folder, padding_free=True), r"padding_free is True; SlimPackMixin packs"),
    "batches by length": (
        lambda folder: plain(folder, train_sampling_strategy="group_by_length"),
        r"train_sampling_strategy is 'group_by_length', a second way to choose batches; take 'random'"),
    "batches of equal work": (
        lambda folder: plain(folder, train_sampling_strategy="batch_rebalance"), r"'batch_rebalance', a second way"),
    "a stream": (
        lambda folder: plain(folder, Streamed(), max_steps=3),
        r"train_dataset is a Streamed, whose lengths are not known ahead; load it without streaming=True"),
    "a stream of datasets": (
        lambda folder: plain(folder, columns(input_ids=[[1, 2]]).to_iterable_dataset(), max_steps=3),
        r"train_dataset is a IterableDataset, whose lengths"),
    "dispatched batches": (
        lambda folder: plain(folder, accelerator_config={"dispatch_batches": True}),
        r"accelerator_config has dispatch_batches, but every rank has micro-batches of its own"),
    "split batches": (
        lambda folder: plain(folder, accelerator_config={"split_batches": True}), r"accelerator_config has split_batches"),
    "a loader of one's own": (
        lambda folder: plain(folder, kind=OwnLoader), r"OwnLoader has its own get_train_dataloader, a second way"),
    "a sampler of one's own": (
        lambda folder: plain(folder, kind=OwnSampler), r"OwnSampler has its own _get_train_sampler, a second way"),
    "no token ids": (
        lambda folder: plain(folder, columns(text=["a"])),
        r"train_dataset has the columns 'text', must have input_ids; tokenize it first, or take TRL's SFTTrainer"),
    "documents without token ids": (
        lambda folder: plain(folder, [{"text": "a"}]), r"document 0 of train_dataset has the entries 'text', must have"),
    "no documents": (lambda folder: plain(folder, columns(input_ids=[])), r"train_dataset has no documents"),
    "an empty document": (lambda folder: plain(folder, [{"input_ids": []}]), r"a train_dataset: document has no tokens"),
    "padded rows": (
        lambda folder: plain(folder, columns(input_ids=[[5, 0]], attention_mask=[[1, 0]])),
        r"row 0: 'attention_mask' has 0 at position 1, .*; leave padding out"),
    "a collator that cuts": (
        lambda folder: SlimPackTrainer(tiny_model(), arguments(folder), train_dataset=documents(), data_collator=cut),
        r"document 0 has 40 tokens in the dataset and 20 from the data collator; cut documents in the dataset"),
    "packs": (
        lambda folder: plain(folder, columns(input_ids=[[5, 6]], seq_lengths=[[1, 1]])),
        r"train_dataset has a column seq_lengths, so its rows are packs already; give whole documents"),
    "a changed number of micro-batches": (
        lambda folder: setattr(trainer := plain(folder), "args", arguments(folder)) or trainer.train(),
        r"gradient_accumulation_steps was set to 2 after the trainer was made"),
    "no dataset": (lambda folder: SlimPackTrainer(tiny_model(), arguments(folder)).train(), r"there is no train_dataset"),
    "nothing to evaluate": (lambda folder: plain(folder).evaluate(), r"there is no eval_dataset"),
    "a smaller last step": (
        lambda folder: plain(folder, dataloader_drop_last=True), r"dataloader_drop_last is True, which would leave documents"),
    "a batch size that is found": (
        lambda folder: plain(folder, auto_find_batch_size=True), r"auto_find_batch_size is True, .*; lower max_tokens"),
    "noise": (lambda folder: plain(folder, neftune_noise_alpha=5.0), r"neftune_noise_alpha is 5.0, whose noise depends on"),
    "a cache": (lambda folder: plain(folder, use_cache=True), r"use_cache is True, with which transformers does not see"),
    "metrics of inputs": (
        lambda folder: plain(folder, include_for_metrics=["inputs"]), r"include_for_metrics is \['inputs'\], but a row"),
    "predictions apart": (
        lambda folder: plain(folder, eval_do_concat_batches=False), r"eval_do_concat_batches is False, but predictions"),
    "several GPUs in a process": (
        lambda folder: SlimPackTrainer(tiny_model(), ManyGpus(str(folder), use_cpu=True), train_dataset=documents()),
        r"one process sees 2 GPUs, .*; start a process for each with torchrun"),
    "a loss of means": (
        lambda folder: plain(folder, model=without_keywords()), r"KeywordlessForCausalLM.forward takes no num_items_in_batch"),
    "another kind of model": (
        lambda folder: plain(folder, model=transformers.BertForMaskedLM(transformers.BertConfig(
            vocab_size=64, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8))),
        r"BertForMaskedLM is no causal language model"),
    "a loss that balances experts": (
        lambda folder: plain(folder, model=balancing(tiny_model())), r"config.output_router_logits adds a loss of every"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse(tmp_path, misuse):
    run, message = MISUSES[misuse]
    with pytest.raises(InvalidInput, match=message) as refused:
        run(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_mixin_behind_the_trainer_would_do_nothing():
    with pytest.raises(InvalidInput, match=r"stands behind a Trainer in Late; put it first: class Late\(SlimPackMixin, "):
        type("Late", (Trainer, SlimPackMixin), {})
