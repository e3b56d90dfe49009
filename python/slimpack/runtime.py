"""The compiled runtime, which needs the torch that it was built for."""

import importlib.util
import os
import sys
from importlib import metadata


def packflow_build():
    """Returns what PackFlow was built for, a module with TORCH and CUDA_KERNELS; None where it is missing."""
    try:
        return importlib.import_module("slimpack._packflow_build")
    except ImportError:
        return None


def check_torch():
    """Raises ImportError with one clear line, unless PackFlow and the torch that it needs are installed."""
    build = packflow_build()
    if build is None:
        raise ImportError("training needs PackFlow, planning does not; pip install slimpack-packflow, or from "
                          "the source folder: pip install ./packflow")
    if importlib.util.find_spec("torch") is None:
        raise ImportError(f"training needs torch, planning does not; pip install "
                          f"torch=={build.TORCH.split('+')[0]}")
    here = metadata.version("torch")
    if release(build.TORCH) != release(here):
        raise ImportError(
            f"PackFlow was built for torch {release(build.TORCH)}, installed is {here}; pip install "
            f"'torch=={release(build.TORCH)}.*', or build it again: pip install --no-build-isolation ./packflow")


def load():
    """The module slimpack._training. Raises ImportError as check_torch does."""
    check_torch()
    importlib.import_module("torch")  # its libraries, which the module is linked with
    return importlib.import_module("slimpack._training")


def release(version):
    """The part of a version that decides whether compiled code runs: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def log_command():
    """The words that start slimpack.log, which sends a run's metrics on."""
    return [sys.executable, "-m", "slimpack.log"]


def train(run, *, settings=(), resume="", init="", on_step=None, on_evaluation=None):
    """Trains as `slimpack train RUN.toml` does, with one thread for each rank. Returns when the run has
    ended: a dict with "end" ("done", "limit" or "stopped"), "message", "steps", "evaluations" and
    "written".

    run: a run configuration (TOML).
    settings: overrides, such as ["train.steps=100", "output.log=wandb"].
    resume: a checkpoint's folder, or "auto". init: a folder of a Hugging Face model.
    on_step, on_evaluation: called with a dict of figures. Without them progress goes to stderr. Of
        several held-out sets each is told by itself, with its "name".

    Ctrl-C ends the run after the step in progress; its state is saved. Raises InvalidInput, ImportError
    without the right torch, or RuntimeError where the run fails.
    """
    native = load()
    arguments = native.TrainArguments()
    arguments.config = os.fspath(run)
    arguments.overrides = list(settings)
    arguments.resume = os.fspath(resume)
    arguments.init = os.fspath(init)
    arguments.log_command = log_command()
    return native.train(arguments, on_step, on_evaluation)
