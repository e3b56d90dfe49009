"""Byte-level models trained by `slimpack train` on the sources of Python's standard library."""

import json
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from commands import run

HERE = Path(__file__).resolve().parent
HELD_OUT_EVERY = 10  # of the modules, sorted by path, every tenth
RUNS = {"byte-short": ["byte-short"],  # run files, each going on from the weights of the one before
        "byte-long": ["byte-long", "byte-long-extended"]}
# A GPU takes more steps in less time: those of byte-long two minutes on an H100. The model then learns
# to copy from its context, which the steps of two cores do not reach.
STEPS_ON_GPU = {"byte-long": 2280, "byte-long-extended": 190}
SLIMPACK = [sys.executable, "-m", "slimpack"]


def link_sources(folder):
    """folder/train and folder/held-out: links to the modules, in folders as the library's."""
    library = Path(sysconfig.get_path("stdlib"))
    modules = sorted(m for m in library.rglob("*.py")
                     if "site-packages" not in m.relative_to(library).parts)
    for index, module in enumerate(modules):
        part = "train" if index % HELD_OUT_EVERY else "held-out"
        link = folder / part / module.relative_to(library)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(module)


def build_corpus(folder):
    """Datasets folder/train and folder/held-out: a document for each module, its bytes as tokens."""
    sources = folder / "sources"
    link_sources(sources)
    for part in ("train", "held-out"):
        run([*SLIMPACK, "data", "build", "--from", sources / part, "--glob", "*.py",
             "--out", folder / part], f"dataset {part}", folder / f"{part}.log")


def newest_checkpoint(output):
    """None where there is none. Folders of this name are complete."""
    return max(output.glob("checkpoints/step-*"), default=None)


def trained_steps(output):
    checkpoint = newest_checkpoint(output)
    return json.loads((checkpoint / "training_state.json").read_text())["steps"] if checkpoint else 0


def steps_of(name, device):
    written = tomllib.loads((HERE / f"{name}.toml").read_text())["train"]["steps"]
    return written if device == "cpu" else STEPS_ON_GPU.get(name, written)


def train_run(name, output, corpus, init, seconds, device):
    """Goes on from the newest checkpoint, until the run's last step or for `seconds` (0: no limit). The
    program itself prints progress."""
    settings = {"data.prefix": corpus / "train", "evaluation.prefix": corpus / "held-out",
                "output.dir": output, "train.max_seconds": seconds, "train.device": device,
                "train.steps": steps_of(name, device)}
    if device != "cpu":
        settings["parallel.pp"] = 1  # the run files' two stages are for two cores
    command = [*SLIMPACK, "train", HERE / f"{name}.toml", "--resume", "auto"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value}"]
    if init is not None:
        command += ["--init", init]
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(f"training {name} has stopped; the same command goes on from its last checkpoint")


def train(model, folder, corpus, seconds, device):
    """Trains what is left of the model's runs on a device ("cpu", "cuda"); returns the newest checkpoint.
    `seconds` as above, for each run; one that is not at its end leaves the next for another time."""
    checkpoint = None
    for name in RUNS[model]:
        output = folder / name
        steps = steps_of(name, device)
        if trained_steps(output) < steps:
            train_run(name, output, corpus, checkpoint, seconds, device)
        checkpoint = newest_checkpoint(output)
        if trained_steps(output) < steps:
            break
    return checkpoint
