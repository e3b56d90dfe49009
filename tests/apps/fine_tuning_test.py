"""From conversations to an answer of the model that was trained on them: `slimpack data build --chat`, `train
--init`, `generate --chat`. The model is one of text: nothing in its folder knows of chats."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from masks import write_mask, write_tokens
from program import BUILD, SLIMPACK
from small_chat_model import TEMPLATE, write_small_chat_model

FACTS = {"Where does the Alder go?": "To Orrin.", "Where does the Heron go?": "To Ness, at ten.",
         "When is lunch?": "Ask the cook."}
RUN = """
[model]
config = "model/config.json"
[data]
prefix = "chats"
context = 128
step_tokens = 256
[train]
steps = 60
learning_rate = 1e-2
warmup_steps = 5
weight_decay = 0.0
[hardware]
[output]
dir = "run"
"""


def run_slimpack(folder, *arguments):
    environment = {**os.environ, "SLIMPACK_PYTHON": sys.executable, "PYTHONPATH": str(BUILD / "python")}
    return subprocess.run([SLIMPACK, *map(str, arguments)], cwd=folder, capture_output=True, text=True,
                          env=environment, timeout=240, check=False)


def slimpack(folder, *arguments):
    """Its output, where it succeeds."""
    done = run_slimpack(folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory):
    """Where a model was trained on conversations by a template that was named for them."""
    folder = tmp_path_factory.mktemp("tuned")
    write_small_chat_model(folder / "model", [*FACTS, *FACTS.values()], vocabulary=320, hidden=64, layers=2)
    model = folder / "model"
    (model / "chat_template.jinja").unlink()
    for file, changes in (("tokenizer_config.json", {"eos_token": "<|endoftext|>"}),
                          ("generation_config.json", {"eos_token_id": 0}), ("config.json", {"eos_token_id": 0})):
        (model / file).write_text(json.dumps({**json.loads((model / file).read_text()), **changes}))
    (folder / "own.jinja").write_text(TEMPLATE)
    (folder / "run.toml").write_text(RUN)
    (folder / "chats.jsonl").write_text("".join(
        json.dumps({"prompt": question, "completion": answer}) + "\n" for question, answer in FACTS.items()))
    told = slimpack(folder, "data", "build", "--chat", "--from", "chats.jsonl", "--tokenizer", "model",
                    "--chat-template", "own.jinja", "--out", "chats")
    assert "chats-chat_template.jinja: a copy of it, for the checkpoints that are trained" in told
    slimpack(folder, "train", "run.toml", "--init", "model")
    return folder


def test_a_checkpoint_has_the_template_that_its_conversations_were_written_by(folder):
    checkpoint = folder / "run" / "checkpoints" / "step-00000060"
    assert (checkpoint / "chat_template.jinja").read_text() == TEMPLATE
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (checkpoint / name).read_bytes() == (folder / "model" / name).read_bytes()


@pytest.mark.parametrize("question", FACTS)
def test_an_answer_ends_where_its_turn_ends(folder, question):
    """The model's own settings name <|endoftext|> alone, which no conversation has."""
    made = json.loads(slimpack(folder, "generate", "run/checkpoints", question, "--chat", "--json", "--dtype", "fp32",
                               "--max-new-tokens", "20"))
    assert (made["text"], made["end"]) == (FACTS[question], "stop_token")
    longer = json.loads(slimpack(folder, "generate", "run/checkpoints", question, "--chat", "--json", "--dtype",
                                 "fp32", "--max-new-tokens", "20", "--ignore-eos"))
    assert longer["end"] == "length" and longer["text"].startswith(FACTS[question])


def test_a_dataset_that_is_built_again_without_it_loses_the_template(folder):
    build = ["data", "build", "--chat", "--from", "chats.jsonl", "--tokenizer", "model", "--out", "again"]
    slimpack(folder, *build, "--chat-template", "own.jinja")
    assert (folder / "again-chat_template.jinja").read_text() == TEMPLATE
    (folder / "model" / "chat_template.jinja").write_text(TEMPLATE)
    slimpack(folder, *build)
    assert not (folder / "again-chat_template.jinja").exists()
    (folder / "model" / "chat_template.jinja").unlink()


@pytest.mark.parametrize("command, parts", [
    ("train run.toml --init absent --set output.dir=o", ["'absent/config.json' does not exist"]),
    ("train run.toml --init chats --set output.dir=o", ["'chats/config.json' does not exist"]),
    ("train run.toml --init model", ["'run/checkpoints' has checkpoints of an earlier run", "--resume auto"]),
    ("train run.toml --init model --set output.dir=o --set data.prefix=chats.bin", [
        "dataset 'chats.bin.bin' cannot be read", "give the common PREFIX"]),
    ("train run.toml --init model --set output.dir=o --set evaluation.every=1 --set evaluation.prefix=held-out", [
        "dataset 'held-out.bin' cannot be read", "slimpack data build"]),
    ("train run.toml --init model --set output.dir=o --set data.prefix=half", ["'half.mask.idx' cannot be read"]),
    ("train run.toml --init model --set output.dir=o --set data.prefix=other", [
        "other.mask.idx': 2 documents, a mask has those of its dataset 'other'", "write the mask again"]),
    ("generate o Hello --chat", ["o: neither a model's config.json nor a checkpoint"]),
    ("generate model Hello --chat", ["'model' has no chat template", "put its template there as chat_template.jinja"]),
    ("generate run/checkpoints Hello --system short", ["--system is a message of a chat; give --chat"]),
    ("data inspect chats --show 1", ["--tokenizer"]),
    ("data inspect chats --show 1 --tokenizer absent", ["cannot read tokenizer 'absent"]),
    ("data build --chat --from chats.jsonl --tokenizer model --out c", [
        "'model' has no chat template; name one with --chat-template FILE"]),
    ("data build --from chats.jsonl --tokenizer model --out c", ["line 1: no field 'text'", "give --field"]),
])
def test_what_does_not_fit_is_told_in_one_line(folder, command, parts):
    shutil.copy(folder / "chats.bin", folder / "half.bin")
    shutil.copy(folder / "chats.idx", folder / "half.idx")
    shutil.copy(folder / "chats.mask.bin", folder / "half.mask.bin")
    write_tokens(folder / "other", [[1, 2, 3]])
    write_mask(folder / "other", [[0, 1, 1], [0, 1, 1]])
    done = run_slimpack(folder, *command.split())
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("slimpack: ") and done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr
    assert not (folder / "c.bin").exists()


def test_two_datasets_with_different_templates_do_not_train_together(folder):
    """A checkpoint has one chat template. A dataset without one may be among them."""
    for name in ("text", "others"):
        for end in (".bin", ".idx"):
            shutil.copy(folder / f"chats{end}", folder / f"{name}{end}")
    (folder / "others-chat_template.jinja").write_text(TEMPLATE + "\n")
    sources = "".join(f'[[data.sources]]\nprefix = "{name}"\nweight = 1\n' for name in ("text", "chats", "others"))
    mixture = RUN.replace('prefix = "chats"\n', "").replace("[train]", f"{sources}[train]").replace('"run"', '"mixed"')
    (folder / "mixture.toml").write_text(mixture.replace("steps = 60", "steps = 1").replace("warmup_steps = 5\n", ""))
    done = run_slimpack(folder, "train", "mixture.toml", "--init", "model")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "chats-chat_template.jinja' and '" in done.stderr and "others-chat_template.jinja' differ" in done.stderr
    (folder / "others-chat_template.jinja").write_text(TEMPLATE)
    slimpack(folder, "train", "mixture.toml", "--init", "model")
    assert (folder / "mixed" / "checkpoints" / "step-00000001" / "chat_template.jinja").read_text() == TEMPLATE
