"""The Trainer's log: a stand-in for wandb is sent what its metrics say."""

import os
import sys
import tomllib

import pytest
import training_ranks
from ranks import outcomes, run
from slimpack import InvalidInput
from slimpack.torch.pipeline.logs import log_names, toml_of
from wandb_server import WandbServer, row_of


def train_logged(output, server, until, log, trouble=""):
    """Trains with the stand-in; a rank of two stages. Returns what the first rank was told of."""
    os.environ |= WandbServer(server).variables({**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                                                STAND_IN_TROUBLE=trouble)
    told = []
    trainer = training_ranks.trainer_of(output, 2, resume=until > 2, log=log, **training_ranks.with_held_out(1))
    trainer._tell = told.append
    ended = trainer.train(until)
    return ended, told


def test_a_run_and_its_going_on_are_one_run_of_wandb(tmp_path):
    output, server = tmp_path / "mine", WandbServer(tmp_path / "server")
    for until in (2, 4):
        run(2, train_logged, output, server.folder, until, "wandb")
    lines = training_ranks.all_lines(output)
    assert server.rows() == [(step, row_of([line for line in lines if line["step"] == step])) for step in range(5)]
    starts = [record["start"] for record in server.records() if "start" in record]
    assert len(starts) == 2 and starts[0] == starts[1]
    config = starts[0]["config"]
    assert config["parallel"] == {"pp": 2, "dp": 1} and config["data"]["step_tokens"] == 200
    assert (config["optimizer"]["name"], config["optimizer"]["max_norm"]) == ("AdamW", 1.0)


def test_trouble_costs_a_warning(tmp_path):
    (ended, told), _ = run(2, train_logged, tmp_path / "mine", tmp_path / "server", 2, ["wandb"], "die")
    assert ended == "done" and len(training_ranks.lines(tmp_path / "mine")) == 2
    (warning,) = [line for line in told if line.startswith("warning: ")]
    assert "ended with exit code 9; python -m slimpack.log" in warning


def test_a_missing_library_ends_all_ranks_before_the_first_step(tmp_path):
    (tmp_path / "wandb.py").write_text("raise ImportError(\"No module named 'wandb'\")")
    for failed, (kind, text, _) in outcomes(2, train_without, tmp_path / "mine", tmp_path):
        assert failed and kind in ("InvalidInput", "RanksFailed") and "wandb is not installed" in text
    assert not (tmp_path / "mine" / "metrics.jsonl").exists()


def train_without(output, folder):
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path, str(folder)])
    training_ranks.trainer_of(output, 2, log="wandb").train(1)


def test_names_are_checked():
    assert log_names(()) == log_names("") == [] and log_names("wandb, tensorboard") == ["wandb", "tensorboard"]
    with pytest.raises(InvalidInput, match="'mlflow', which is none of tensorboard, wandb"):
        log_names(["mlflow"])


def test_settings_are_toml():
    tables = {"a": {"x": 1e-05, "y": True, "name": 'quoted "text"'}, "b": {}}
    assert tomllib.loads(toml_of(tables)) == tables
