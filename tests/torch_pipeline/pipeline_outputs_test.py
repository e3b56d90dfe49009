"""The Trainer's output folder: one run at a time, whichever program, and damage in checkpoints is
found before they are used."""

import os
import re
import shutil
import socket

import numpy as np
import pytest
from output_ranks import load_each, refused_and_free, second_runs, told_while_resuming
from processes import BUILD
from ranks import outcomes, run
from slimpack.torch.pipeline import Checkpoints
from training_ranks import lines, resume, train


@pytest.fixture(name="whole", scope="module")
def fixture_whole(tmp_path_factory):
    """(folder, weights by rank) of a run of four steps, with checkpoints after 2 and 4."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, run(2, train, folder, 2, 4, "whole", {"checkpoint_every": 2})


def test_a_folder_in_use_keeps_both_programs_out(tmp_path):
    demo = BUILD / "python" / "slimpack" / "models" / "demo.json"
    config = tmp_path / "run.toml"
    config.write_text(f'[model]\nconfig = "{demo}"\n[data]\nprefix = "nowhere"\n'
                      f'[output]\ndir = "{tmp_path}/run"\n')
    (program, second, there, left), = run(1, second_runs, tmp_path / "run",
                                          [BUILD / "slimpack", "train", config])
    holder = (rf"'{tmp_path}/run' is in use by process \d+ on {socket.gethostname()} since "
              r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC; wait until that run has ended, or set ")
    assert program[0] == 2
    assert re.fullmatch(f"slimpack: output.dir {holder}output.dir to another folder\n", program[1])
    assert re.fullmatch(f"output {holder}output to another folder", second)
    assert there and not left


def test_a_trainer_that_is_refused_leaves_its_folder_free(whole):
    (message, done), _ = run(2, refused_and_free, whole[0])
    assert message.endswith("give resume=True to go on with it, or another folder")
    assert done == 4


def truncate(file):
    os.truncate(file, file.stat().st_size - 1)


def halve(file):
    os.truncate(file, file.stat().st_size // 2)


def flip(file):
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def grow_tokens(file):
    file.write_text(re.sub(r'"tokens": (\d)', r'"tokens": 1\1', file.read_text()))


DAMAGES = [
    (truncate, "__1_0.distcp", r"' has (\d+) bytes, (\d+) were written; use another checkpoint"),
    (flip, "__0_0.distcp", r"' has checksum (\w{16}), (\w{16}) was written; use another "
                           "checkpoint"),
    (os.unlink, ".metadata", "': No such file or directory; use another checkpoint"),
    (grow_tokens, "training_state.json", "' was changed after it was written; use another "
                                         "checkpoint"),
    (halve, "training_state.json", "': .*; use another checkpoint"),
    (os.unlink, "training_state.json", r"': .*No such file or directory.*; use another checkpoint"),
]


def test_damage_is_told_in_one_line_that_names_the_file(whole, tmp_path):
    folders = []
    for number, (damage, name, _) in enumerate(DAMAGES):
        folders.append(tmp_path / str(number))
        shutil.copytree(whole[0] / "checkpoints", folders[-1] / "checkpoints")
        damage(folders[-1] / "checkpoints" / "step-00000004" / name)
    first, second = run(2, load_each, folders)
    assert first == second and len(first) == len(DAMAGES)
    for said, folder, (_, name, expected) in zip(first, folders, DAMAGES, strict=True):
        found = re.search(f"'{folder}/checkpoints/step-00000004/{re.escape(name)}{expected}$", said)
        assert found and "\n" not in said, said
        assert len(set(found.groups())) == len(found.groups())


def test_a_run_goes_on_from_the_newest_sound_checkpoint(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path, dirs_exist_ok=True)
    newest = tmp_path / "checkpoints" / "step-00000004"
    flip(newest / "__0_0.distcp")
    got, told = zip(*run(2, told_while_resuming, tmp_path), strict=True)
    passed_over, resumed = told[0].splitlines()
    assert passed_over.startswith(
        f"{newest} is passed over: '{newest}/__0_0.distcp' has checksum ")
    assert resumed == f"resume: {newest.with_name('step-00000002')}"
    assert told[1] == ""
    for weights, expected in zip(got, whole[1], strict=True):
        assert all(np.array_equal(weights[name], expected[name]) for name in expected)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4]


def test_a_run_without_any_sound_checkpoint_is_refused(whole, tmp_path):
    shutil.copytree(whole[0] / "checkpoints", tmp_path / "checkpoints")
    for step in Checkpoints(tmp_path / "checkpoints").steps():
        truncate(tmp_path / "checkpoints" / f"step-{step:08}" / "__0_0.distcp")
    for failed, (kind, text, _) in outcomes(2, resume, tmp_path, 2, 6):
        assert failed and kind == "InvalidInput"
        assert text == (f"{tmp_path}/checkpoints has no checkpoint that can be used; remove that "
                        "folder to train from the beginning")
    assert len(Checkpoints(tmp_path / "checkpoints").steps()) == 2
