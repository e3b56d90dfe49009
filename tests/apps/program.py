"""The program from outside: a small corpus, configurations of a tiny model, runs of slimpack."""

import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

BUILD = Path(os.environ.get("SLIMPACK_BUILD", "build/release")).resolve()
SLIMPACK = BUILD / "slimpack"
VOCABULARY = 257  # of `data build`: bytes, and 256 at the end of a document
LENGTHS = [5, 300, 40, 1, 120, 500, 33, 64, 128, 257, 90, 20]  # bytes
TOKENS = sum(LENGTHS) + len(LENGTHS)
TIMEOUT = "parallel.timeout=5"  # seconds

MODEL = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    vocab_size=VOCABULARY,
    max_position_embeddings=1024,
    initializer_range=0.2,  # wide, so that losses of different models differ in the first digits
    tie_word_embeddings=False,
    sliding_window=None,
)
CONFIG = """
[model]
config = "{model}"
[data]
prefix = "corpus"
context = 1024
step_tokens = {tokens}
[train]
steps = 3
learning_rate = 1e-2
min_learning_rate = 1e-2
warmup_steps = 0
[plan]
granularity = 64
[hardware]  # says what a step costs, so that nothing is measured
[output]
dir = "{output}"
"""


def run(*arguments, **options):
    return subprocess.run([SLIMPACK, *map(str, arguments)], capture_output=True, text=True,
                          timeout=60, check=False, **options)


def with_full_disk(limit, *arguments, **options):
    """Files end at `limit` bytes (ulimit -f) and writing beyond fails as on a full disk."""
    def before_start():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return run(*arguments, preexec_fn=before_start, **options)


@contextlib.contextmanager
def training(file, *overrides):
    """A run under way."""
    command = [SLIMPACK, "train", file, *settings(overrides)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for_line(process, start):
    for line in process.stderr:
        if line.startswith(start):
            return
    pytest.fail(f"the log ended without a line that starts with {start!r}")


def worker(file, *overrides):
    """The words behind the interpreter in the command of a process of a job."""
    return ["-m", "slimpack.worker", file, *settings(overrides)]


def complaint(processes):
    """The one line that says why a job of processes ended; without the lines of its log."""
    lines = [line for line in processes.text().splitlines() if line.startswith("slimpack: ")]
    assert len(lines) == 1, processes.text()
    return lines[0]


class Workspace:
    """A folder with corpus.bin, corpus.idx and model files; each run writes to its own folder."""

    def __init__(self, folder):
        self.folder = folder
        r = random.Random(1)
        (folder / "text").mkdir()
        for i, length in enumerate(LENGTHS):
            text = "".join(r.choice("abcd ") for _ in range(length))
            (folder / "text" / f"{i:02}.txt").write_text(text)
        done = run("data", "build", "--from", folder / "text", "--out", folder / "corpus")
        assert done.returncode == 0, done.stderr

    def config(self, output, family="llama", **model):
        """Writes OUTPUT.toml and its model's file; the run will write into the folder OUTPUT."""
        name = f"{output}-model.json"
        (self.folder / name).write_text(json.dumps({"model_type": family, **MODEL, **model}))
        file = self.folder / f"{output}.toml"
        file.write_text(CONFIG.format(model=name, tokens=TOKENS, output=output))
        return file

    def measured_config(self, output):
        """A config() without figures of hardware: the run measures its ranks."""
        file = self.config(output)
        text = file.read_text()
        hardware = next(line for line in text.splitlines() if line.startswith("[hardware]"))
        file.write_text(text.replace(hardware, ""))
        return file

    def train(self, output, *overrides, family="llama", model=(), **options):
        """A run that has to succeed; its folder."""
        done = run("train", self.config(output, family, **dict(model)), *settings(overrides),
                   **options)
        assert done.returncode == 0, done.stderr
        return self.folder / output

    def copy_corpus(self, name):
        """Another dataset to damage: its prefix."""
        for ending in (".bin", ".idx"):
            shutil.copy(self.folder / f"corpus{ending}", self.folder / f"{name}{ending}")
        return self.folder / name


    def spoil_third_step(self, name):
        """Another dataset, with a token that the model does not know in the document of the third
        step where a step has one document. Its prefix, and the document."""
        third = metrics(self.train(f"{name}-order", "data.step_tokens=1"))[2]["tokens"]
        document = LENGTHS.index(third - 1)  # lengths differ, so that a step's tells which it is
        prefix = self.copy_corpus(name)
        at = sum(map(len, read_documents(prefix)[:document]))  # stored in order, as uint16
        with open(f"{prefix}.bin", "r+b") as file:
            file.seek(2 * at)
            file.write((VOCABULARY).to_bytes(2, "little"))
        return prefix, document


def newest_checkpoint(folder):
    """The folder of the newest checkpoint that a run has written."""
    return max((folder / "checkpoints").glob("step-*"))


def read_checkpoint_state(checkpoint):
    return json.loads((checkpoint / "training_state.json").read_text())


def weights(folder):
    """The bytes of the weights in a run's newest checkpoint, file by file."""
    return {f.name: f.read_bytes() for f in newest_checkpoint(folder).glob("model*.safetensors")}


def tensors(folder):
    """The bytes of weights and optimizer in the newest checkpoint, file by file."""
    return {f.name: f.read_bytes() for f in newest_checkpoint(folder).glob("*.safetensors")}


def settings(overrides):
    return [word for override in overrides for word in ("--set", override)]


def all_metrics(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def metrics(folder):
    """The lines of steps."""
    return [line for line in all_metrics(folder) if "loss" in line]


def learned(folder):
    """The figures that do not depend on how fast a step was."""
    keys = ["step", "loss", "gradient_norm", "learning_rate", "documents", "tokens"]
    return [[line[key] for key in keys] for line in metrics(folder)]


def evaluations(folder):
    """The lines of evaluations, without what the machine's speed and the time of day decide."""
    return [{k: v for k, v in line.items() if k not in ("evaluation_ns", "unix_ms")}
            for line in all_metrics(folder) if "evaluation_loss" in line]


def losses(folder):
    return [line["loss"] for line in metrics(folder)]


def read_documents(prefix):
    """Every document's tokens, straight from Megatron's layout: header of 34 bytes, int32 lengths,
    int64 byte pointers, int64 indices of each document's first sequence."""
    index = Path(f"{prefix}.idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0"
    dtype = {4: np.int32, 8: np.uint16}[index[17]]
    sequences, entries = np.frombuffer(index, np.int64, 2, 18)
    lengths = np.frombuffer(index, np.int32, sequences, 34)
    pointers = np.frombuffer(index, np.int64, sequences, 34 + 4 * sequences)
    firsts = np.frombuffer(index, np.int64, entries, 34 + 12 * sequences)
    tokens = np.fromfile(f"{prefix}.bin", dtype)
    parts = [tokens[p // dtype().itemsize :][:n] for p, n in zip(pointers, lengths)]
    return [[int(t) for part in parts[a:b] for t in part] for a, b in zip(firsts, firsts[1:])]


def assert_refused(done, *parts):
    """Exit code 2 and one line that holds all the parts, after nothing but lines of the log."""
    assert done.returncode == 2, done.stderr
    assert_last_line(done, "slimpack: ", *parts)


def assert_failed(done, *parts):
    """The run failed on good input: exit code 1, and a last line with these parts."""
    assert done.returncode == 1, done.stderr
    assert_last_line(done, "slimpack: failed: ", *parts)


def assert_last_line(done, start, *parts):
    *log, line = done.stderr.splitlines()
    for before in log:
        assert before.startswith(("model: ", "data: ", "cost: ", "step ", "resume: ",
                                  "evaluation ", "warning: steps take ")), done.stderr
    assert line.startswith(start), done.stderr
    for part in parts:
        assert str(part) in line
