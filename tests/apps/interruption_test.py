"""Ctrl-C or SIGTERM during training: a prompt end and the weights of the last whole step. Ctrl-C is a
failure for whoever waits for the program, SIGTERM from a scheduler is none."""

import signal

import pytest
from program import metrics, newest_checkpoint, training, wait_for_line, weights
from transformers import AutoModelForCausalLM

PATIENCE = 120  # seconds: a hang, on any machine


def stop(process, how):
    """Sends the signal; exit code, stdout and the rest of stderr."""
    process.send_signal(how)
    out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, out, err


@pytest.mark.parametrize(("how", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_stopped_run_leaves_the_weights_of_its_last_step(workspace, how, expected):
    name = how.name.lower()
    overrides = ["data.step_tokens=400", "parallel.pp=2"]
    with training(workspace.config(name), *overrides, "train.steps=100000") as process:
        wait_for_line(process, "step      3/100000")
        code, out, err = stop(process, how)
    assert code == expected
    folder = workspace.folder / name
    done = metrics(folder)
    assert [line["step"] for line in done] == list(range(1, len(done) + 1))
    last = err.splitlines()[-1]
    assert last.startswith(f"slimpack: stopped on request after {len(done)} of 100000 steps; ")
    assert not [line for line in err.splitlines()[:-1] if not line.startswith("step ")]
    assert f"in {len(done)} steps" in out
    assert not list(folder.rglob("*.tmp*"))
    AutoModelForCausalLM.from_pretrained(newest_checkpoint(folder))

    # The learning rate is the same at every step, so a run of just these ends with the same bits.
    again = workspace.train(f"{name}-again", *overrides, f"train.steps={len(done)}")
    assert weights(folder) == weights(again)


@pytest.mark.parametrize(("how", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_run_stopped_in_its_first_step_writes_nothing(workspace, how, expected):
    # The documents again and again, a million tokens: many seconds.
    with training(workspace.config("first"), "data.step_tokens=1000000") as process:
        wait_for_line(process, "cost: ")
        code, out, err = stop(process, how)
    assert code == expected and out == ""
    assert err.startswith("slimpack: stopped on request before a step")
    assert len(err.splitlines()) == 1
    assert not (workspace.folder / "first").exists()
