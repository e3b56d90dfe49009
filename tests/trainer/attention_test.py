"""Attention by document: exact for families of all kinds, and only where they keep documents apart."""

import datasets
import pytest
import torch
import trl
from families import NAMED, config_of, model_of
from sft import tokenizer
from slimpack import InvalidInput
from slimpack.labelled import IGNORED
from slimpack.torch import PackedCollator, SlimPackMixin, SlimPackTrainer
from slimpack.torch.pipeline.comparison import Fp64Casts
from slimpack.torch.trainer.apart import keep_apart
from slimpack.torch.trainer.attention import OURS, packed
from transformers import AutoConfig, AutoModelForCausalLM
from uneven import arguments, documents, tiny_model

LENGTHS = [20, 3, 33, 1, 17]  # below and above the families' windows of 16
EAGER_ALONE = ["gemma2", "gpt_oss"]


def numbers(vocabulary=97):
    random = torch.Generator().manual_seed(0)
    return [torch.randint(3, vocabulary, (length,), generator=random).tolist() for length in LENGTHS]


def settle(model):
    """Chooses the model's attention as before a trainer's first step."""
    model.eval()
    model.config.use_cache = False  # as Trainer has it
    with torch.no_grad():
        keep_apart(lambda batch: model(**batch)["logits"], model, numbers(model.config.vocab_size)[::2], model.dtype)
    model.train()


def gradients_of(model, batches):
    """The loss's gradients over batches of PackedCollator."""
    model.zero_grad()
    for batch in batches:
        labels = batch.pop("labels")
        with packed(batch):
            logits = model(**batch)["logits"][0, :-1]
        torch.nn.functional.cross_entropy(logits, labels[0, 1:], ignore_index=IGNORED, reduction="sum").backward()
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(("family", "attention"), [
    (family, attention) for family in [*NAMED, "llama4_text", "stablelm"] for attention in OURS
    if attention == "eager" or family not in EAGER_ALONE])
def test_gradients_of_a_pack_are_those_of_one_document_at_a_time(family, attention):
    model, collate = model_of(config_of(family), 1), PackedCollator()
    model.set_attn_implementation(attention)
    with Fp64Casts():
        settle(model)
        # StableLM hands no mask on to its layers: what it had keeps documents apart, too
        assert model.config._attn_implementation == (attention if family == "stablelm" else OURS[attention])
        ours = gradients_of(model, [collate([{"input_ids": ids} for ids in numbers()])])
        model.set_attn_implementation("eager")  # their own, one document at a time
        plain = gradients_of(model, [collate([{"input_ids": ids}]) for ids in numbers() if len(ids) > 1])
    largest = max(gradient.abs().max() for gradient in plain if gradient is not None)
    for one, expected in zip(ours, plain, strict=True):
        assert (one is None) == (expected is None)
        assert one is None or (one - expected).abs().max() < 1e-12 * largest


def test_outside_of_a_pack_the_attention_is_the_models_own():
    model, batch = tiny_model(), torch.tensor(numbers(64)[0]).view(2, 10)
    padding = torch.ones_like(batch)
    padding[0, 7:] = 0
    given = {"input_ids": batch, "attention_mask": padding}
    before, written = model(**given).logits, model.generate(**given, max_new_tokens=5, do_sample=False)
    settle(model.eval())
    model.eval()
    assert model.config._attn_implementation == OURS["sdpa"]
    assert torch.equal(model(**given).logits, before)
    assert torch.equal(model.generate(**given, max_new_tokens=5, do_sample=False), written)


def test_a_saved_model_does_not_name_the_attention(tmp_path):
    model = tiny_model()
    settle(model)
    model.save_pretrained(tmp_path)
    assert AutoModelForCausalLM.from_pretrained(tmp_path).config._attn_implementation == "sdpa"


def test_a_family_that_counts_positions_from_the_beginning_of_a_pack_is_refused():
    with pytest.raises(InvalidInput, match="mixes the documents of a pack: its logits change") as refused:
        settle(model_of(config_of("biogpt"), 1))
    assert "\n" not in str(refused.value)


STATES = {"mamba": {}, "bloom": {"n_layer": 2, "n_head": 4}, "jamba": {"num_experts": 2, "use_mamba_kernels": False}}


@pytest.mark.parametrize("family", STATES)
def test_models_whose_state_runs_through_a_pack_are_refused_before_the_first_step(tmp_path, family):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(family, **{
        "vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, **STATES[family]}))
    before = [parameter.clone() for parameter in model.parameters()]
    trainer = SlimPackTrainer(model, arguments(tmp_path), train_dataset=documents())
    with pytest.raises(InvalidInput, match="mixes the documents of a pack"):
        trainer.train()
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_an_attention_that_computes_with_the_mask_stays_the_models_own():
    class Adding(type(tiny_model().model.layers[0].self_attn)):
        def forward(self, *args, attention_mask=None, **options):
            added = None if attention_mask is None else attention_mask & True
            return super().forward(*args, attention_mask=added, **options)

    model = tiny_model()
    for layer in model.model.layers:
        layer.self_attn.__class__ = Adding
    settle(model)
    assert model.config._attn_implementation == "sdpa"


def test_the_mixin_attends_by_document_in_sft_trainer(tmp_path):
    class Trainer(SlimPackMixin, trl.SFTTrainer):
        pass

    model = tiny_model()
    args = arguments(tmp_path, trl.SFTConfig, max_steps=1, gradient_checkpointing=True)
    trainer = Trainer(model, args, train_dataset=datasets.Dataset.from_list(documents()),
                      processing_class=tokenizer(tmp_path))
    assert model.config._attn_implementation == "sdpa"
    trainer.train()
    assert model.config._attn_implementation == OURS["sdpa"]
