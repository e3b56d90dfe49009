"""Random command lines: whatever is given, a command ends with an exit code of docs/commands.md and, where it
fails, one line."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest
import tokenizers
import torch
import transformers
from command_server import PATIENCE, command_server
from processes import environment
from program import SLIMPACK, VOCABULARY, run
from slimpack.draft.config import HeadConfig
from slimpack.draft.files import save_head
from slimpack.draft.head import DraftHead

# Values that people, scripts and files give by mistake; some options take some of them.
MISTAKES = ["", " ", "0", "-1", "2.5", "1e400", "nan", "-inf", "9" * 25, "9" * 5000, "0x10", "٣", "x",
            "True", "--", "-", "\n", "a\nb", "\udcff", "\udced\udca0\udcbd", "é", "日本", "🙂", "\x1b[31m", "'",
            "%s", "{}", "*", "a" * 300, "/", "/dev/null", "/nowhere/at/all", "MODEL", "TEXT", "CORPUS", "RUN",
            "\\ud800", "--help", "-h"]
PROMPTS = ["abc", "Grüße", "日本語", "🙂 é", "a\nb\tc", "%d {x}", "\x7f", "a" * 60, "'\"\\"]
# By command: words that it needs, and further options, each with a value that it takes and that ends soon.
# None: the option has no value.
GENERATE = (["MODEL", "PROMPT"], {
    "--temperature": "0.7", "--top-k": "5", "--top-p": "0.9", "--min-p": "0.1",
    "--seed": "18446744073709551615", "--max-new-tokens": "5", "--stop": "e", "--ignore-eos": None,
    "--draft": "ngram", "--draft-rule": "fixed", "--dtype": "fp32", "--threads": "1", "--prefill-slice": "3",
    "--sparse": "flex-prefill", "--json": None})
GUESSES = (["MODEL", "PROMPT", "--draft", "HEAD"], {
    "--draft-rule": "fixed", "--draft-depth": "3", "--draft-rows": "9", "--draft-width": "2", "--json": None})
CHAT = (["MODEL", "PROMPT", "--chat"], {"--system": "Be brief.", "--tokenizer": "TOKENIZER", "--json": None})
FILE = (["MODEL", "--file", "TEXT"], {"--tokenizer": "TOKENIZER", "--stop": "a"})
ANSWERS = (["answers", "--target", "MODEL", "--prompts", "CORPUS", "--out", "OUT.jsonl", "--count", "2"], {
    "--prompt-tokens": "2", "--new-tokens": "3", "--temperature": "0.5", "--batch": "2", "--dtype": "bf16",
    "--restart": None})
ANSWERS_OF_TEXT = (["answers", "--target", "MODEL", "--prompts", "PROMPTS", "--out", "OUT.jsonl"], {
    "--field": "text", "--count": "1"})
TRAIN_HEAD = (["train", "--target", "MODEL", "--data", "CORPUS", "--out", "OUT", "--steps", "1"], {
    "--held-out": "CORPUS", "--held-out-tokens": "9", "--draft-vocabulary": "20", "--eagle31": None,
    "--step-tokens": "40", "--context": "20", "--learning-rate": "1e-3", "--warmup-steps": "0",
    "--clip-norm": "1", "--ttt-length": "2", "--seed": "3", "--evaluate-every": "1",
    "--checkpoint-every": "1", "--init": "HEAD", "--dtype": "fp32", "--restart": None})
CONVERT = (["convert", "HEAD", "--out", "OUT"], {})
BUILD = {"--glob": "*", "--exclude-folder": "x", "--format": "auto", "--field": "text", "--append-eod": None,
         "--eod-token": "<e>", "--restart": None}
NEEDED = ["--from", "TEXTS", "--out", "OUT", "--processes", "1"]
CHATS = (["--chat", "--from", "CHATS", "--out", "OUT", "--processes", "1", "--tokenizer", "TOKENIZER",
          "--chat-template", "TEMPLATE"], {"--loss-on": "last", "--field": "messages", **BUILD})
PYTHON = {
    "generate": [GENERATE, GENERATE, GUESSES, CHAT, FILE],
    "draft": [ANSWERS, ANSWERS_OF_TEXT, TRAIN_HEAD, CONVERT],
    "build": [([*NEEDED, "--tokenizer", "TOKENIZER"], BUILD), ([*NEEDED, "--train-tokenizer", "300"], BUILD),
              CHATS],
    "show": [(["CORPUS", "--show", "2", "--tokenizer", "TOKENIZER"], {})],
    "tensorboard": [(["METRICS"], {})],
    "worker": [(["RUN", "--set", "output.dir=OUT"], {
        "--set": "train.steps=1", "--against": "packed", "--resume": "auto", "--init": "MODEL"})],
}
PLANNED = {"--set": "plan.planner=packed", "--lengths": "LENGTHS", "--json": "OUT"}
COMPILED = [
    (["data", "inspect", "CORPUS"], {"--json": "OUT"}),
    (["data", "build", "--from", "TEXTS", "--out", "OUT"], {"--glob": "*", "--exclude-folder": "x"}),
    (["plan", "RUN"], {**PLANNED, "--out": "OUT"}),
    (["compare", "RUN"], {**PLANNED, "--only": "slimpack"}),
    (["fit", "RUN"], PLANNED),
    (["layout", "RUN"], PLANNED),
    (["sweep", "RUN", "--vary", "parallel.pp=1,2"], PLANNED),
    (["simulate", "PLAN"], {"--json": "OUT"}),
    (["train", "RUN", "--set", "output.dir=OUT"], {
        "--set": "train.steps=1", "--clock": "virtual", "--resume": "auto", "--init": "MODEL"}),
    (["validate", "RUN", "--steps", "1", "--repetitions", "1"], {"--max-error": "1", "--json": "OUT"}),
]
STARTS = {"generate": ["generate"], "draft": ["draft"], "build": ["data", "build"], "show": ["data", "inspect"],
          None: []}


@pytest.fixture(scope="module", name="places")
def fixture_places(workspace):
    """The places that words in capitals stand for."""
    folder = workspace.folder
    torch.manual_seed(0)
    shape = dict(hidden_size=32, intermediate_size=48, num_attention_heads=4, max_position_embeddings=64)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, num_hidden_layers=2, eos_token_id=None, bos_token_id=None, **shape))
    model.save_pretrained(folder / "model")
    head = DraftHead(HeadConfig(vocab_size=VOCABULARY, draft_vocab_size=50, target_hidden_size=32,
                                num_key_value_heads=2, head_dim=8, **{
                                    **shape, "max_position_embeddings": 64}))
    save_head(head, folder / "head")
    vocabulary = {letter: number for number, letter in enumerate("abcd <e>")}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {"<u>": len(vocabulary), **vocabulary}, unk_token="<u>"))
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "prompts.jsonl").write_text('{"prompt": "abc"}\n{"prompt": "\\ud800"}\n')
    (folder / "chats.jsonl").write_text('{"prompt": "a b", "completion": " c"}\n')
    (folder / "chat.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    (folder / "lengths.txt").write_text("5\n40\n300\n")
    assert run("plan", workspace.config("planned"), "--out", folder / "plan.json").returncode == 0
    (folder / "prompt.txt").write_text("abc")
    (folder / "metrics").mkdir()
    (folder / "metrics" / "metrics.jsonl").write_text(
        '{"step": 1, "loss": 2.5}\n{"step": 2, "loss": 1e400, "n": %s}\n' % ("9" * 400))
    return {"MODEL": folder / "model", "HEAD": folder / "head", "TOKENIZER": folder / "tokenizer.json",
            "CHATS": folder / "chats.jsonl", "TEMPLATE": folder / "chat.jinja",
            "PROMPTS": folder / "prompts.jsonl", "LENGTHS": folder / "lengths.txt",
            "TEXT": folder / "prompt.txt", "TEXTS": folder / "text", "CORPUS": folder / "corpus",
            "METRICS": folder / "metrics", "RUN": workspace.config("fuzz"), "PLAN": folder / "plan.json"}


@pytest.fixture(scope="module", name="server")
def fixture_server():
    with command_server({**environment(), "RANK": "0", "WORLD_SIZE": "1"}) as ask:
        yield ask


def a_mistake(r, words):
    """Words that are less right."""
    at = r.randrange(len(words))
    kind = r.randrange(5)
    if kind == 0:  # lost
        return words[:at] + words[at + 1 :]
    if kind == 1:  # misspelled
        return [*words[:at], words[at] + r.choice(["x", "=", "=1", "\udcff", "\n"]), *words[at + 1 :]]
    if kind == 2:  # too much
        return [*words[:at], r.choice(MISTAKES), *words[at:]]
    return [*words[:at], r.choice(MISTAKES), *words[at + 1 :]]


def random_case(seed, places, out):
    """(command, words, encoding, stdout). command: of PYTHON, or None: it is compiled."""
    r = random.Random(seed)
    command = r.choice([None, None, "generate", "generate", "draft", "draft", "build", "build", "show", "tensorboard",
                        "worker"])
    needed, options = r.choice(COMPILED if command is None else PYTHON[command])
    words = [r.choice(PROMPTS) if word == "PROMPT" else word for word in needed]
    for name, value in r.sample(sorted(options.items(), key=str), min(len(options), r.randrange(4))):
        words += [name] if value is None else [name, value]
    for _ in range(r.choice([0, 1, 1, 2])):
        words = a_mistake(r, words or [""])
    words = [str(places.get(word, word)).replace("OUT", str(out)) for word in words]
    encoding = r.choice(["utf-8", "utf-8", "latin-1", "ascii", "cp1252"])
    return command, words, encoding, r.choice(["file"] * 5 + ["full", "closed", "gone"])


def run_program(words, encoding, stdout, folder):
    """In a process of its own."""
    full = os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    os.close(reader)

    def before():
        if stdout == "full":
            os.dup2(full, 1)
        elif stdout == "gone":
            os.dup2(writer, 1)
        elif stdout == "closed":
            os.close(1)

    chosen = {**os.environ, "SLIMPACK_PYTHON": sys.executable, "PYTHONIOENCODING": encoding}
    try:
        return subprocess.run([SLIMPACK, *words], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=chosen,
                              encoding="utf-8", errors="backslashreplace", timeout=PATIENCE, check=False,
                              preexec_fn=before)
    finally:
        os.close(full)
        os.close(writer)


@pytest.mark.parametrize("seed", range(300))
def test_any_command_line_ends_with_a_code_and_one_line(seed, places, server, tmp_path):
    command, words, encoding, stdout = random_case(seed, places, tmp_path / "out")
    if command is None or (seed % 10 == 0 and command in STARTS):
        done = run_program(STARTS[command] + words, encoding, stdout, tmp_path)
    else:
        done = server(command, words, tmp_path, encoding, stdout)
    shutil.rmtree(tmp_path, ignore_errors=True)
    told = f"{command} {json.dumps(words)} to {stdout} in {encoding}: {done}"
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr, told
    if done.returncode == -signal.SIGPIPE:
        assert stdout == "gone", told
        return
    lines = [line for line in done.stderr.splitlines() if line.startswith("slimpack: ")]
    assert done.returncode in (0, 1, 2) and len(lines) == (done.returncode != 0), told
    failed = "slimpack: rank 0: " if command == "worker" else "slimpack: failed: "
    assert done.returncode != 1 or lines[0].startswith(failed), told
    assert "an error of this program" not in done.stderr, told
