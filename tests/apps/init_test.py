"""`slimpack train --init`: from a Hugging Face model and back."""

import json

import pytest
import torch
from hugging_face_loss import hugging_face_loss
from program import (MODEL, assert_refused, evaluations, metrics, newest_checkpoint, read_documents,
                     run, settings)
from rope_scalings import ROPE_SCALINGS
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

FORMATS = dict(fp32=torch.float32, fp64=torch.float64, bf16=torch.bfloat16, fp16=torch.float16)
EXPERTS = ["mixtral", "qwen3_moe", "olmoe"]
STILL = ["train.steps=1", "train.learning_rate=1e-30", "train.min_learning_rate=0",
         "train.weight_decay=0"]


def save_model(folder, family="llama", dtype="fp32", shard="5GB", **sizes):
    """A Hugging Face model with random weights and norms, saved by transformers; as it loads it."""
    torch.manual_seed(3)
    config = AutoConfig.for_model(family, **{**MODEL, **sizes})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    model.to(FORMATS[dtype]).save_pretrained(folder, max_shard_size=shard)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def logits(model, documents):
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([d])).logits[0] for d in documents])


def train(workspace, output, init, *overrides, family="llama", **sizes):
    done = run("train", workspace.config(output, family, **sizes), *settings(overrides), "--init", init)
    assert done.returncode == 0, done.stderr
    return workspace.folder / output


@pytest.mark.parametrize("family, dtype, shard, sizes", [
    ("llama", "fp32", "5GB", {}),
    ("llama", "fp16", "20KB", {}),
    ("llama", "fp64", "5GB", {}),
    ("mistral", "bf16", "20KB", {}),
    ("qwen2", "fp32", "20KB", dict(tie_word_embeddings=True)),
    ("qwen3", "fp32", "5GB", dict(head_dim=16)),
    ("mistral", "fp32", "5GB", dict(sliding_window=50)),
    ("qwen3", "fp64", "20KB", dict(use_sliding_window=True, sliding_window=30, layer_types=[
        "sliding_attention", "full_attention", "full_attention", "sliding_attention"])),
    ("mixtral", "fp32", "5GB", {}),
    ("qwen3_moe", "bf16", "20KB", dict(head_dim=16, num_experts=6, num_experts_per_tok=2)),
    ("olmoe", "fp32", "20KB", dict(num_experts=5, num_experts_per_tok=3, norm_topk_prob=True)),
    *(("llama", "fp32", "5GB", dict(rope_parameters=ROPE_SCALINGS[name]))
      for name in ("linear", "llama3", "yarn", "yarn-betas")),
])
def test_a_model_of_transformers_comes_through_unchanged(workspace, family, dtype, shard, sizes):
    rope = sizes.get("rope_parameters", {})
    name = "-".join(map(str, [family, dtype, shard, *rope.values()]))
    model = save_model(workspace.folder / f"hf-{name}", family, dtype, shard, **sizes)
    parts = list((workspace.folder / f"hf-{name}").glob("*.safetensors"))
    assert (len(parts) > 1) == (shard == "20KB")
    tp = 1 if family in EXPERTS else 2
    folder = train(workspace, name, workspace.folder / f"hf-{name}", *STILL, "parallel.pp=2",
                   f"parallel.tp={tp}", family=family, **sizes)
    documents = read_documents(workspace.folder / "corpus")
    (line,) = metrics(folder)
    assert line["loss"] == pytest.approx(hugging_face_loss(model, documents), rel=1e-5)
    back = AutoModelForCausalLM.from_pretrained(newest_checkpoint(folder), dtype=torch.float32)
    expected = logits(model, documents)
    assert (logits(back, documents) - expected).abs().max() <= 1e-5 * expected.abs().max()


def test_what_was_trained_is_what_transformers_loads(workspace):
    """The loss at the end and the one that the next step would begin with, by us and by
    transformers."""
    save_model(workspace.folder / "hf-trained")
    trained = train(workspace, "trained", workspace.folder / "hf-trained", "parallel.pp=2",
                    f"evaluation.prefix={workspace.folder}/corpus", "evaluation.every=3")
    losses = [line["loss"] for line in metrics(trained)]
    assert losses[-1] < losses[0]
    model = AutoModelForCausalLM.from_pretrained(newest_checkpoint(trained))
    (line,) = metrics(train(workspace, "trained-on", newest_checkpoint(trained), *STILL))
    assert line["loss"] < losses[-1]
    documents = read_documents(workspace.folder / "corpus")
    _, evaluation = evaluations(trained)
    for ours in (line["loss"], evaluation["evaluation_loss"]):
        assert ours == pytest.approx(hugging_face_loss(model, documents), rel=1e-5)


def test_a_tied_model_may_bring_its_head_along(workspace):
    folder = workspace.folder / "hf-with-head"
    save_model(folder, "qwen2", tie_word_embeddings=True)
    (before,) = metrics(train(workspace, "without-head", folder, *STILL, family="qwen2",
                              tie_word_embeddings=True))
    model = AutoModelForCausalLM.from_pretrained(folder)
    state = {k: v.clone() for k, v in model.state_dict().items()}
    assert "lm_head.weight" in state
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (after,) = metrics(train(workspace, "with-head", folder, *STILL, family="qwen2",
                             tie_word_embeddings=True))
    assert after["loss"] == before["loss"]


@pytest.mark.parametrize("names", ["short", "head alone", "short and head alone"])
def test_a_model_under_other_names_has_the_loss_that_transformers_finds(workspace, names):
    """A saved LlamaModel names its tensors so, and some exports name the matrix of a tied model so."""
    folder = workspace.folder / f"hf-{names.replace(' ', '-')}"
    tied = dict(tie_word_embeddings="head" in names)
    save_model(folder, **tied)
    tensors = load_file(folder / "model.safetensors")
    if "head" in names:
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
    if "short" in names:
        tensors = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    (line,) = metrics(train(workspace, f"from-{folder.name}", folder, *STILL, **tied))
    documents = read_documents(workspace.folder / "corpus")
    assert line["loss"] == pytest.approx(hugging_face_loss(model, documents), rel=1e-5)


@pytest.mark.parametrize("content, parts", [
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 12\n",
     ["Git LFS pointer", "git lfs pull"]),
    (b"<!DOCTYPE html><title>Sign in</title>", ["web page", "download"]),
    (b"\0" * 1000, ["zeros", "download"]),
    (lambda file: file[:-100], ["cut off", "download"]),
    (lambda file: file + bytes(64), ["64 bytes follow", "download"]),
])
def test_a_file_in_the_place_of_weights_is_named_with_the_remedy(workspace, content, parts):
    folder = workspace.folder / "hf-spoiled"
    save_model(folder)
    file = folder / "model.safetensors"
    file.write_bytes(content(file.read_bytes()) if callable(content) else content)
    done = run("train", workspace.config("from-spoiled"), *settings(STILL), "--init", folder)
    assert_refused(done, "model.safetensors", *parts)


@pytest.mark.parametrize("files, parts", [
    (["pytorch_model.bin"], ["pytorch_model.bin", "save_pretrained"]),
    (["pytorch_model.bin.index.json"], ["torch.save", "save_pretrained"]),
    (["adapter_config.json", "adapter_model.safetensors"], ["adapter", "merge_and_unload"]),
])
@pytest.mark.parametrize("config", [True, False])
def test_weights_of_another_kind_have_a_remedy_of_their_own(workspace, tmp_path, files, parts, config):
    for name in files:
        (tmp_path / name).write_text("{}")
    if config:
        (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama", **MODEL}))
    elif "adapter" not in files[0]:
        pytest.skip("a model without config.json is named by that")
    done = run("train", workspace.config("from-others"), *settings(STILL), "--init", tmp_path)
    assert_refused(done, tmp_path.name, *parts)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("value, words", [(float("nan"), "not numbers"), (float("inf"), "infinite")])
def test_weights_that_are_not_finite_are_refused_by_file_and_tensor(workspace, dtype, value, words):
    folder = workspace.folder / f"hf-bad-{dtype}-{value}"
    save_model(folder, dtype=dtype, shard="20KB")
    file = sorted(folder.glob("*.safetensors"))[1]
    tensors = load_file(file)
    name = min(tensors)
    tensors[name].view(-1)[-1] = value
    save_file(tensors, file, metadata={"format": "pt"})
    done = run("train", workspace.config("from-bad"), *settings(["parallel.pp=2"]), "--init", folder)
    assert_refused(done, file.name, f"tensor {name} holds", words)
    assert "evaluation" not in done.stderr and "diverged" not in done.stderr


@pytest.mark.parametrize("change, parts", [
    (dict(hidden_size=64), ["lm_head.weight", "[257, 32]", "[257, 64]"]),
    (dict(num_hidden_layers=3), ["model.layers.3.", "no place"]),
    (dict(intermediate_size=64), ["down_proj", "[32, 48]", "[32, 64]"]),
    (dict(num_attention_heads=2, num_key_value_heads=1), ["num_attention_heads is 4", "has 2"]),
])
def test_a_model_of_another_shape_is_refused_in_one_line(workspace, change, parts):
    name = "not-" + next(iter(change))
    save_model(workspace.folder / name)
    file = workspace.config(f"run-{name}", **change)
    done = run("train", file, *settings(STILL), "--init", workspace.folder / name)
    assert_refused(done, *parts)
    assert not (workspace.folder / f"run-{name}").exists()


def test_a_folder_without_a_model_is_refused(workspace):
    empty = workspace.folder / "empty"
    empty.mkdir()
    done = run("train", workspace.config("from-nothing"), "--init", empty)
    assert_refused(done, "empty", "config.json")
    (empty / "config.json").write_text(json.dumps({"model_type": "llama", **MODEL}))
    assert_refused(run("train", workspace.config("from-nothing"), "--init", empty),
                   "neither model.safetensors nor model.safetensors.index.json")
