"""Runs on each rank of a job: output folders in use, and damaged checkpoints."""

import contextlib
import io
import subprocess

import slimpack
from training_ranks import resume, trainer_of, weights_of


def second_runs(output, command):
    """(exit code and stderr of a command, message of a second Trainer, whether the lock's file is
    there) while a Trainer uses a folder, and whether the file is there when it has gone."""
    trainer = trainer_of(output, 1)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    message = _refusal(output)
    lock = output / "slimpack.lock"
    there = lock.exists()
    del trainer
    return (done.returncode, done.stderr), message, there, lock.exists()


def refused_and_free(output):
    """(message of a Trainer that is refused for checkpoints in its folder, steps of one that then
    resumes), in one process."""
    message = _refusal(output)
    return message, trainer_of(output, 2, resume=True).done


def _refusal(output):
    try:
        trainer_of(output, 1)
    except slimpack.InvalidInput as error:
        return str(error)
    return None


def load_each(folders):
    """By folder of damaged checkpoints what loading step 4 says."""
    said = []
    for folder in folders:
        trainer = trainer_of(folder / "new", 2)
        checkpoints = slimpack.torch.pipeline.Checkpoints(folder / "checkpoints")
        before = weights_of(trainer)
        try:
            checkpoints.load(trainer.engine, trainer.optimizer, 4)
        except slimpack.InvalidInput as error:
            after = weights_of(trainer)
            assert all((after[name] == before[name]).all() for name in before)
            said.append(str(error))
    return said


def told_while_resuming(output):
    """(weights by name, what stderr got)."""
    with contextlib.redirect_stderr(io.StringIO()) as told:
        weights = resume(output, 2, 4)
    return weights, told.getvalue()
