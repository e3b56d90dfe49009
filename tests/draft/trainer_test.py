"""A head that trains: it guesses better, goes on to the same bits, and data that is refused."""

import json

import numpy as np
import pytest
import torch
from draft_models import VOCABULARY, write_answer_lines, write_dataset
from safetensors.torch import load_file
from slimpack import InvalidInput
from slimpack.draft import TransformersTarget, load_head
from slimpack.draft.answers import TransformersGenerator
from slimpack.draft.data import Documents, read_documents
from slimpack.draft.trainer import Options, Trainer, rate_at
from slimpack.draft.vocabulary import most_frequent, new_head

SHORT = Options(steps=6, step_tokens=200, context=48, learning_rate=1e-2, warmup_steps=2,
                evaluate_every=3, checkpoint_every=2)


@pytest.fixture(scope="module", name="target")
def fixture_target(target_folder):
    return TransformersTarget(target_folder)


@pytest.fixture(scope="module", name="answers")
def fixture_answers(target, prompts, tmp_path_factory):
    """The target's own answers: each goes on as the target would, so that they can be guessed."""
    file = tmp_path_factory.mktemp("answers") / "answers.jsonl"
    replies = TransformersGenerator(target, 40)(prompts)
    return write_answer_lines(file, zip(prompts, replies))


def make(target, answers, folder, options, tell=lambda line: None, **more):
    documents, held_out = read_documents(answers).split(200)
    ids = most_frequent(documents.counts(VOCABULARY), 30)
    return Trainer(new_head(target, ids, seed=1), target, documents, held_out, folder, options, tell,
                   **more)


def lines_of(folder):
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "unix_ms"} for line in lines]


@pytest.mark.whole
def test_held_out_guesses_become_right(target, answers, tmp_path):
    before = {name: tensor.clone() for name, tensor in target.model.state_dict().items()}
    told = []
    options = Options(**{**vars(SHORT), "steps": 40, "evaluate_every": 1000})
    evaluation = make(target, answers, tmp_path, options, told.append).train()
    first = lines_of(tmp_path)[0]
    assert first["step"] == 0 and first["accepted_length"] < 1.5
    assert evaluation.acceptance.accepted_length > first["accepted_length"] + 1.5
    assert evaluation.loss < first["evaluation_loss"]
    # The written head is the evaluated one: another object counts the same.
    written = json.loads((tmp_path / "acceptance.json").read_text())
    assert written["accepted_length"] == evaluation.acceptance.accepted_length
    documents, held_out = read_documents(answers).split(200)
    again = Trainer(load_head(tmp_path, target), target, documents, held_out, tmp_path / "again",
                    options, told.append).evaluate()
    assert again.acceptance == evaluation.acceptance
    steps = [line for line in told if line.startswith("step ")]  # say how long the rest takes
    assert len(steps) == 40 and all(line.endswith(" left") for line in steps[:-1])
    assert "took" in steps[-1]
    assert all(torch.equal(tensor, before[name])
               for name, tensor in target.model.state_dict().items())


def killed_after(step):
    def tell(line):
        if line.split()[:2] == ["step", f"{step}/6"]:
            raise ConnectionError
    return tell


@pytest.mark.parametrize("killed", [2, 3, 5])
def test_a_run_that_was_killed_goes_on_to_the_same_bits(target, answers, tmp_path, killed):
    make(target, answers, tmp_path / "whole", SHORT).train()
    with pytest.raises(ConnectionError):
        make(target, answers, tmp_path / "parts", SHORT, killed_after(killed)).train()
    trainer = make(target, answers, tmp_path / "parts", SHORT)
    assert trainer.done == (killed - 1) // 2 * 2  # checkpoints come every two steps, after the line
    trainer.train()
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(tensor, parts[name]) for name, tensor in whole.items())
    assert lines_of(tmp_path / "parts") == lines_of(tmp_path / "whole")


def test_what_must_be_the_same_to_go_on(target, answers, tmp_path):
    make(target, answers, tmp_path, SHORT).train()
    with pytest.raises(InvalidInput, match="steps was 6, here it is 7; .* --restart"):
        make(target, answers, tmp_path, Options(**{**vars(SHORT), "steps": 7}))
    trainer = make(target, answers, tmp_path, Options(**{**vars(SHORT), "steps": 7}), restart=True)
    assert trainer.done == 0
    trainer.train()
    assert [line["step"] for line in lines_of(tmp_path) if "loss" in line] == [1, 2, 3, 4, 5, 6, 7]
    (tmp_path / "checkpoint.pt").write_bytes(b"PK")
    del trainer
    with pytest.raises(InvalidInput, match="cannot read .*checkpoint.pt.* --restart"):
        make(target, answers, tmp_path, SHORT)


def test_the_learning_rate_rises_and_falls():
    options = Options(steps=12, warmup_steps=4, learning_rate=1.0)
    # A quarter more in each step of the warm-up; then (1 + cos(pi k / 8)) / 2 for k = 0 … 7.
    rates = [rate_at(step, options) for step in range(12)]
    assert rates[:5] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert rates[8] == pytest.approx(0.5) and rates[11] == pytest.approx(0.5 * (1 - 0.9238795))


def test_the_most_frequent_tokens_ascend():
    assert most_frequent([3, 9, 0, 9, 3, 1], 4).tolist() == [0, 1, 3, 4]
    assert most_frequent([0, 0, 5], 2).tolist() == [0, 2]  # what never comes fills up


def test_a_new_head_has_the_widths_of_its_target(target):
    head = new_head(target, np.array([1, 5, 39]), seed=1)
    assert head.target_ids.tolist() == [1, 5, 39]
    assert torch.equal(head.lm_head.weight, target.head_VE[[1, 5, 39]])
    assert (head.config.num_key_value_heads, head.config.head_dim) == (2, 8)
    assert head.config.target_layers == (1, 2, 3)
    same, other = new_head(target, [1, 5, 39], seed=1), new_head(target, [1, 5, 39], seed=2)
    assert torch.equal(head.fc.weight, same.fc.weight)
    assert not torch.equal(head.fc.weight, other.fc.weight)


def test_documents_are_split_and_counted():
    tokens = [[1, 2, 3, 4], [5, 6, 7], [8, 9, 9]]
    documents = Documents(tokens.__getitem__, [4, 3, 3], [2, 0, 1])
    ids, first = documents.sequence(0, 1, 3)
    assert (ids.tolist(), first) == ([2, 3, 4], 1)
    counts = documents.counts(10)  # of answers: 3 4, 5 6 7, 9 9
    assert counts.tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 0, 2]
    rest, last = documents.split(3)
    assert rest.lengths.tolist() == [4, 3] and last.lengths.tolist() == [3]
    assert last.sequence(0, 0, 3)[0].tolist() == [8, 9, 9] and last.first_answers.tolist() == [1]
    with pytest.raises(InvalidInput, match="document 2 has token 9, the target knows 9"):
        documents.counts(9)


def test_a_dataset_is_learned_from_whole(tmp_path):
    write_dataset(tmp_path / "d", [[1, 2, 3], [4, 5]])
    documents = read_documents(tmp_path / "d")
    assert documents.lengths.tolist() == [3, 2] and documents.first_answers.tolist() == [0, 0]
    assert documents.sequence(0, 0, 3)[0].tolist() == [1, 2, 3]


@pytest.mark.parametrize("text, words", [
    ('{"prompt": [1]}', ["line 1", "no 'answer'", "slimpack draft answers"]),
    ('{"prompt": [1], "answer": [2]}\n{', ["line 2"]),
    ('{"prompt": [1], "answer": "two"}', ["line 1", "no answer"]),
    ('{"prompt": [1], "answer": [2.5]}', ["line 1", "whole numbers"]),
    ('{"prompt": [1], "answer": [3000000000]}', ["line 1"]),
    ("[]", ["line 1"]),
    ("\xff", ["line 1", "utf-8"]),
    ('{"prompt": [1], "answer": [2]}', ["no document of three tokens"]),
    ("", ["no document of three tokens"]),
    (None, ["cannot read", "No such file"]),
])
def test_answers_that_are_refused(tmp_path, text, words):
    file = tmp_path / "a.jsonl"
    if text is not None:
        file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InvalidInput) as error:
        read_documents(file)
    assert "\n" not in str(error.value) and str(file) in str(error.value)
    for word in words:
        assert word in str(error.value)


def test_single_tokens_teach_nothing_and_end_no_run(target, tmp_path):
    """A step of one token takes one document; those of a single token have no row."""
    tokens = [[7], [8], [1, 2, 3, 4], [9]]
    documents = Documents(tokens.__getitem__, [1, 1, 4, 1], [0] * 4)
    head = new_head(target, list(range(VOCABULARY)), seed=1)
    options = Options(**{**vars(SHORT), "steps": 4, "step_tokens": 1})
    Trainer(head, target, documents, documents, tmp_path / "run", options, print).train()
    steps = [line for line in lines_of(tmp_path / "run") if "loss" in line]
    assert sorted(line["tokens"] for line in steps) == [1, 1, 1, 4]
    assert [line["loss"] > 0 for line in steps] == [line["tokens"] > 1 for line in steps]
    # Steps 0, 1 and 2 have 3, 2 and 1 rows of four tokens.
    assert [len(line["loss_by_guess"]) for line in steps if line["tokens"] > 1] == [3]
    short = Documents(tokens[:2].__getitem__, [1, 1], [0, 0])
    with pytest.raises(InvalidInput, match="no sequence of three tokens"):
        Trainer(head, target, documents, short, tmp_path / "short", options, print).train()
