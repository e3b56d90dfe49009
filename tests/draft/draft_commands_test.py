"""`slimpack draft` from outside: prompts to answers to a head, a stop on the way, and mistakes."""

import json
import os
import signal
import subprocess
import sys

import pytest
from draft_models import write_answer_lines, write_dataset
from heads import tiny_head
from processes import BUILD, PATIENCE, environment
from safetensors.torch import load_file
from slimpack.draft import __main__ as program
from slimpack.draft import load_head, save_head, train_command

TRAIN = ["--step-tokens", "150", "--context", "32", "--learning-rate", "1e-2", "--warmup-steps", "1",
         "--evaluate-every", "2", "--checkpoint-every", "100"]


@pytest.fixture(scope="module", name="answers")
def fixture_answers(prompts, tmp_path_factory):
    """Answers of nobody: text that counts upwards."""
    file = tmp_path_factory.mktemp("data") / "answers.jsonl"
    return write_answer_lines(file, [(p, [(p[-1] + k) % 40 for k in range(1, 25)]) for p in prompts])


def run(*arguments):
    return program.main([str(argument) for argument in arguments])


def test_the_program_hands_draft_over_to_python_and_lists_it():
    chosen = {**environment(), "SLIMPACK_PYTHON": sys.executable}
    listed = subprocess.run([BUILD / "slimpack", "--help"], capture_output=True, text=True, check=True)
    assert "draft  " in listed.stdout
    told = subprocess.run([BUILD / "slimpack", "draft", "train", "--frob", "1"], env=chosen,
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert told.stderr == ("slimpack: unknown option '--frob'; try 'slimpack draft train --help'\n")
    missing = subprocess.run([BUILD / "slimpack", "draft"], env={**chosen, "SLIMPACK_PYTHON": "nowhere"},
                             capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert missing.returncode == 2 and "SLIMPACK_PYTHON" in missing.stderr


@pytest.mark.parametrize("command", [[], ["train"], ["answers"], ["convert"]])
def test_help_fits_eighty_columns_and_has_an_example(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as ended:
        run(*command, "--help")
    said = capsys.readouterr().out
    assert ended.value.code == 0 and "example" in said and "  slimpack draft " in said
    assert max(map(len, said.splitlines())) <= 80


def test_prompts_become_answers_and_answers_a_head(target_folder, tmp_path, prompts, capsys):
    write_dataset(tmp_path / "p", prompts)
    assert run("answers", "--target", target_folder, "--prompts", tmp_path / "p", "--new-tokens", 20,
               "--prompt-tokens", 3, "--batch", 7, "--out", tmp_path / "a.jsonl") == 0
    said = capsys.readouterr()
    assert "24 answers" in said.out and "24 of 24 answers" in said.err
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [line["prompt"] for line in lines] == [prompt[:3] for prompt in prompts]

    assert run("train", "--target", target_folder, "--data", tmp_path / "a.jsonl", "--out",
               tmp_path / "head", "--steps", 3, "--draft-vocabulary", 20, *TRAIN) == 0
    said = capsys.readouterr()
    assert "accepted length" in said.out and "guesses 20 tokens" in said.err
    assert load_head(tmp_path / "head").config.draft_vocab_size == 20
    assert {"config.json", "model.safetensors", "acceptance.json", "metrics.jsonl", "checkpoint.pt"} <= {
        file.name for file in (tmp_path / "head").iterdir()}


def test_a_stopped_run_ends_with_130_and_goes_on_to_the_same_head(target_folder, answers, tmp_path,
                                                                capsys, monkeypatch):
    common = ["train", "--target", target_folder, "--data", answers, "--steps", 5, *TRAIN]
    assert run(*common, "--out", tmp_path / "whole") == 0

    def stop(line):
        if "step 2/5" in line:
            os.kill(os.getpid(), signal.SIGINT)
    monkeypatch.setattr(train_command, "_say", stop)
    assert run(*common, "--out", tmp_path / "parts") == 130
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.undo()
    assert run(*common, "--out", tmp_path / "parts") == 0
    assert "going on after step 2 of 5" in capsys.readouterr().err
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all((tensor == parts[name]).all() for name, tensor in whole.items())


def test_a_published_head_is_converted(tmp_path, capsys):
    save_head(tiny_head(), tmp_path / "in")
    assert run("convert", tmp_path / "in", "--out", tmp_path / "out") == 0
    assert "guesses 6 of 11 tokens" in capsys.readouterr().out
    assert load_head(tmp_path / "out").config == load_head(tmp_path / "in").config
    assert run("convert", tmp_path / "nothing", "--out", tmp_path / "none") == 2
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("more, words", [
    (["--draft-vocabulary", "41"], ["--draft-vocabulary is 41", "the target has 40"]),
    (["--init", "HEAD", "--eagle31"], ["--init", "leave one away"]),
    (["--init", "HEAD"], ["hidden size of 8", "target's is 32"]),
    (["--data", "nowhere"], ["nowhere"]),
    (["--held-out", "nowhere.jsonl"], ["nowhere.jsonl"]),
    (["--device", "nonsense"], ["--device is 'nonsense'"]),
    (["--out", "/dev/null/x"], ["/dev/null/x"]),
])
def test_a_training_that_is_refused(target_folder, answers, tmp_path, more, words, capsys):
    save_head(tiny_head(), tmp_path / "head")
    more = [str(tmp_path / "head") if word == "HEAD" else word for word in more]
    assert run("train", "--target", target_folder, "--data", answers, "--out", tmp_path / "out",
               "--steps", 1, *TRAIN, *more) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("slimpack: ")
    for word in words:
        assert word in line
    assert not (tmp_path / "out" / "model.safetensors").exists()


@pytest.mark.parametrize("arguments, words", [
    (["train", "--steps", "0"], ["--steps", "'0'"]),
    (["train", "--learning-rate", "nan"], ["--learning-rate", "'nan'"]),
    (["train", "--dtype", "fp8"], ["--dtype", "fp8"]),
    (["answers", "--temprature", "1"], ["unknown option '--temprature'", "'--temperature'"]),
    (["trian"], ["'trian'", "train"]),
    ([], ["COMMAND"]),
    (["answers", "--target", "t", "--prompts", "p", "--out", "a.txt"], ["a.txt", ".jsonl"]),
])
def test_options_that_are_refused(arguments, words, capsys):
    try:
        code = run(*arguments)
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr()
    assert code == 2 and said.out == "" and said.err.count("\n") == 1
    for word in words:
        assert word in said.err
