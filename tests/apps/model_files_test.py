"""A model's folder has more than weights and shape. All of it comes through to every checkpoint:
token ids, generation settings, the tokenizer, and fields of config.json that training knows nothing
of."""

import json
import os
import shutil

import pytest
from forking import forked_job
from program import (MODEL, VOCABULARY, assert_refused, newest_checkpoint, read_checkpoint_state,
                     run, settings)
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig,
                          PreTrainedTokenizerFast)

TEXT = "some words, and\nothers: été"
CHAT = [{"role": "user", "content": "hello"}]
IDS = dict(bos_token_id=7, eos_token_id=[11, 12], pad_token_id=13)
# Fields of transformers' PreTrainedConfig or its Llama's, all unlike their defaults; and a field
# that no library has.
OTHERS = dict(use_cache=False, problem_type="regression", id2label={"0": "only"},
              label2id={"only": 0}, note_of_ours={"of": ["nobody", 3]})
WRITTEN_ANEW = {"dtype", "torch_dtype", "transformers_version", "_name_or_path", "architectures"}


@pytest.fixture(scope="module")
def source(workspace):
    """A model of transformers with everything that comes with one."""
    folder = workspace.folder / "source"
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    bpe = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    assert bpe.get_vocab_size() < VOCABULARY
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bpe, bos_token=alphabet[7],
                                        eos_token=alphabet[11], pad_token=alphabet[13])
    tokenizer.chat_template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    tokenizer.save_pretrained(folder)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", **MODEL, **IDS, **OTHERS))
    model.generation_config = GenerationConfig(**IDS, do_sample=True, top_k=17, temperature=0.5)
    model.save_pretrained(folder)
    # Older folders have these; what is in them, no tokenizer of today reads.
    for name in ("added_tokens.json", "merges.txt", "vocab.json", "special_tokens_map.json"):
        (folder / name).write_text("{}")
    (folder / "tokenizer.model").write_bytes(bytes(range(256)))
    return folder


def companions(folder):
    ours = ("config.json", "cost.json", "training_state.json")
    return {f.name: f.read_bytes() for f in folder.iterdir()
            if f.name not in ours and not f.name.endswith((".safetensors", ".index.json"))}


def fields(folder):
    config = AutoConfig.from_pretrained(folder).to_dict()
    return {key: value for key, value in config.items() if key not in WRITTEN_ANEW}


def assert_carried(folder, source):
    assert companions(folder) == companions(source)
    assert set(companions(source)) <= {f["name"] for f in read_checkpoint_state(folder)["files"]}
    assert fields(folder) == fields(source)
    assert json.loads((folder / "config.json").read_text())["dtype"] == "float32"
    tokenizer, expected = map(AutoTokenizer.from_pretrained, (folder, source))
    assert tokenizer(TEXT).input_ids == expected(TEXT).input_ids
    assert tokenizer.special_tokens_map == expected.special_tokens_map
    assert (tokenizer.apply_chat_template(CHAT, tokenize=False)
            == expected.apply_chat_template(CHAT, tokenize=False) == "<user>hello")
    generation, wanted = map(GenerationConfig.from_pretrained, (folder, source))
    assert generation.to_dict() == wanted.to_dict() and generation.top_k == 17


def train(workspace, output, init, *overrides):
    done = run("train", workspace.config(output), *settings(overrides), "--init", init)
    assert done.returncode == 0, done.stderr
    return newest_checkpoint(workspace.folder / output)


def test_a_checkpoint_has_what_the_model_came_with_and_so_has_one_that_starts_from_it(
        workspace, source):
    first = train(workspace, "first", source, "parallel.pp=2")
    assert_carried(first, source)
    assert_carried(train(workspace, "second", first), source)


def test_a_run_that_goes_on_has_it_from_its_checkpoint(workspace, source):
    train(workspace, "goes-on", source, "checkpoint.every=1", "checkpoint.keep_last=3")
    checkpoints = workspace.folder / "goes-on" / "checkpoints"
    for later in ("step-00000002", "step-00000003"):
        shutil.rmtree(checkpoints / later)
    # Nothing but the checkpoint is there any more: no --init, and model.config has no token ids.
    done = run("train", workspace.config("goes-on"), "--resume", "auto")
    assert done.returncode == 0, done.stderr
    assert_carried(checkpoints / "step-00000003", source)


def test_processes_write_what_threads_write(workspace, source):
    file = workspace.config("processes")
    command = ["-m", "slimpack.worker", file, *settings(["parallel.pp=2"]), "--init", source]
    with forked_job(workspace.folder, *[command] * 2) as processes:
        assert processes.codes() == [0, 0], processes.text()
    assert_carried(newest_checkpoint(workspace.folder / "processes"), source)


def test_a_run_from_random_weights_has_what_is_beside_its_model_config(workspace, source):
    file = workspace.config("random")
    file.write_text(file.read_text().replace("random-model.json", str(source / "config.json")))
    assert run("train", file).returncode == 0
    assert_carried(newest_checkpoint(workspace.folder / "random"), source)


def test_a_model_config_of_another_name_gives_its_fields_alone(workspace, source):
    shutil.copy(source / "tokenizer.json", workspace.folder / "tokenizer.json")
    file = workspace.config("fields", **IDS, **OTHERS)
    assert run("train", file).returncode == 0
    checkpoint = newest_checkpoint(workspace.folder / "fields")
    assert companions(checkpoint) == {}
    assert {key: fields(checkpoint)[key] for key in (*IDS, "use_cache", "note_of_ours")} == {
        **IDS, "use_cache": False, "note_of_ours": OTHERS["note_of_ours"]}


@pytest.mark.parametrize("damage, parts", [
    (lambda file: file.mkdir(), ["tokenizer.json", "not a regular file"]),
    (lambda file: file.symlink_to("nowhere"), ["tokenizer.json", "does not exist"]),
    (lambda file: file.touch() or os.truncate(file, (128 << 20) + 1),
     ["tokenizer.json", "134217729 bytes", "at most 134217728"]),
])
def test_a_file_that_cannot_be_read_is_found_before_training(workspace, source, damage, parts):
    folder = workspace.folder / "unreadable"
    shutil.copytree(source, folder)
    (folder / "tokenizer.json").unlink()
    damage(folder / "tokenizer.json")
    done = run("train", workspace.config("not-started"), "--init", folder)
    shutil.rmtree(folder)
    assert_refused(done, *parts)
    assert not (workspace.folder / "not-started").exists()
