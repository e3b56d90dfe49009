"""bench/generate's measures of sparse prefill and of speculation, on a model of random weights."""

import json
import json
import math
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from processes import BUILD, environment
from transformers import LlamaConfig, LlamaForCausalLM

BENCH = Path(__file__).parents[2] / "bench" / "generate"
sys.path.insert(0, str(BENCH))

from draft_heads import make_head  # noqa: E402
from fixed_tree import TreeSize, fastest_tree  # noqa: E402
from head_prompts import head_requests  # noqa: E402
from intervals import geometric_mean, interval  # noqa: E402
from kinds_of_text import REQUESTS, parts_of_sources  # noqa: E402
from needles import planted  # noqa: E402

MODULE = '''"""%s"""

TABLE = [
%s]


def longest(a, b):
    """
%s    """
%s    return a
'''


@pytest.fixture(scope="module", name="made")
def fixture_made(tmp_path_factory):
    """A folder such as prepare.py makes, with a model that was never trained."""
    out = tmp_path_factory.mktemp("made")
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, head_dim=8,
                         max_position_embeddings=2048, initializer_range=0.3)
    LlamaForCausalLM(config).save_pretrained(out / "tiny" / "fp32")
    (out / "tiny" / "origin.json").write_text("{}")
    sources = out / "corpus" / "sources" / "held-out"
    sources.mkdir(parents=True)
    for i in range(3):
        text = MODULE % (f"About number {i}. " * 60, "".join(f"    {n},  # {i}\n" for n in range(90)),
                         "".join(f"    >>> longest({n}, {i})\n    {n}\n" for n in range(60)),
                         "".join(f"    a += {n} * b\n" for n in range(80)))
        (sources / f"m{i}.py").write_text(text)
    return out


def measure(program, out, *arguments):
    file = out / f"{program}.json"
    done = subprocess.run([sys.executable, BENCH / f"{program}.py", "--out", out, "--model", "tiny",
                           "--precision", "fp32", "--threads", "1", "--json", file, *arguments],
                          capture_output=True, text=True, check=False,
                          env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stderr
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    return json.loads(file.read_text()), done.stdout


def test_sparse_prefill_is_measured_beside_dense(made):
    figures, _ = measure("sparse", made, "--lengths", "600", "--turns", "2", "--needles", "2",
                         "--methods", "sample-attention", "x-attention", "--measured", "0", "3")
    [case] = figures["cases"]
    dense = case["ways"]["dense"]
    assert dense["ttft_ratio"] == 1 and dense["bits_ratio"] == 1 and 0 <= dense["needles"] <= 2
    for way in ("sample-attention", "x-attention"):
        of = case["ways"][way]
        assert of["ttft_ratio"] > 0 and 0 < of["density"] <= 1
        assert of["bits_per_token"] == pytest.approx(of["bits_ratio"] * dense["bits_per_token"])
        # A short prompt is dense, which keeps all attention.
        assert of["dense_heads"] == 1 and of["cra"]["least"] == pytest.approx(1, abs=1e-5)


def agreement(out, model, precision):
    done = subprocess.run([sys.executable, BENCH / "agreement.py", "--out", out, "--model", model,
                           "--precision", precision, "--prompts", "2", "--new", "20", "--json",
                           out / "agreement.json"], capture_output=True, text=True, check=False,
                          env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode == 0, done.stdout + done.stderr
    ways = json.loads((out / "agreement.json").read_text())["ways"]
    assert all(of["same"] + of["ties"] == 2 and of["others"] == [] for of in ways.values())
    return set(ways)


@pytest.mark.cases
@pytest.mark.parametrize("precision", ["fp64", "fp32"])
def test_answers_are_held_against_those_of_transformers(made, precision):
    assert agreement(made, "tiny", precision) == {"plain", "sliced", "n-grams"}


def test_speculation_is_measured_beside_plain_decoding(made):
    figures, printed = measure("speculation", made, "--texts", "2", "--new", "12", "--turns", "1")
    assert set(figures["cases"]) == {"code", "prose", "dialogue", "lists", "repetition"}
    for kind, cases in figures["cases"].items():
        assert len(cases) == 2, kind
        for case in cases:
            assert case["plain"]["tokens_per_second_ratio"] == 1
            drafted = case["n-grams, expected"]
            assert drafted["same_tokens"] == 12 and 1 <= drafted["tokens_per_pass"] <= 11
    ratios = [case["n-grams, expected"]["tokens_per_second_ratio"]
              for cases in figures["cases"].values() for case in cases]
    mean, lower, upper = figures["ratio_to_plain"]["all"]["n-grams, expected"]
    assert mean == pytest.approx(math.exp(statistics.fmean(map(math.log, ratios))))
    assert lower <= mean <= upper and "n-grams, expected" in printed


@pytest.mark.whole
def test_many_answers_are_measured_beside_transformers(made):
    figures, printed = measure("batches", made, "--batches", "1", "3", "--prompt", "20", "--new", "6",
                               "--turns", "2")
    assert set(figures["tokens_per_second"]) == {"1", "3"} and "transformers" in printed
    for of in figures["tokens_per_second"].values():
        assert all(of[name] > 0 for name in ("slimpack", "transformers", "ratio"))


@pytest.mark.whole
def test_a_head_that_prepare_made_takes_part(made, monkeypatch):
    model = made / "with-head"
    for precision in ("fp32", "bf16"):
        shutil.copytree(made / "tiny" / "fp32", model / precision)
    (model / "origin.json").write_text("{}")
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    subprocess.run([sys.executable, "-m", "slimpack", "data", "build", "--from", made / "corpus" / "sources",
                    "--glob", "*.py", "--out", made / "corpus" / "train"], check=True)
    make_head(model, made / "corpus", 40, ["--steps", "2"])
    assert agreement(made, "with-head", "fp32") == {"plain", "sliced", "n-grams", "EAGLE-3",
                                                    "EAGLE-3 and n-grams"}


def test_the_fastest_fixed_tree_is_found_one_number_at_a_time():
    asked = []

    def seconds(tree):
        asked.append(tree)
        return abs(tree.draft_rows - 15) + abs(tree.draft_depth - 3) + abs(tree.draft_width - 3)

    # Widths 2 and 4 are equally near to 3, and 2 comes first; then 16 rows, then depth 3, and
    # nothing better.
    assert fastest_tree(seconds, (1, 2, 4)) == TreeSize(draft_rows=16, draft_depth=3, draft_width=2)
    assert asked[0] == TreeSize() and len(asked) == len(set(asked))
    assert fastest_tree(seconds, (4,)) == TreeSize(draft_rows=16, draft_depth=3, draft_width=4)


def test_a_head_learns_from_other_requests_than_those_that_measure_it():
    requests = head_requests()
    assert len(requests) == len(set(requests)) > 2000
    assert not set(requests) & {text for of in REQUESTS.values() for text in of}
    assert requests == head_requests() and all("  " not in text and "{" not in text for text in requests)


@pytest.mark.cases
@pytest.mark.parametrize(("program", "arguments", "message"), [
    ("sparse", ["--model", "other"], "has no model 'other'"),
    ("sparse", ["--lengths", "0"], "--lengths 0: "),
    ("speculation", ["--new", "1"], "--new 1: "),
    ("agreement", ["--longest", "39"], "--longest 39: "),
    ("speculation", ["--model", "tiny", "--head", "none"], "speculation.py: "),
    ("speculation", ["--model", "tiny", "--texts", "9"], "fewer than 9 parts"),
    ("batches", ["--batches", "0"], "--batches 0: "),
    ("batches", ["--model", "tiny", "--prompt", "9999"], "batches.py: the held-out documents have"),
    ("sparse", ["--model", "tiny", "--lengths", "99999"], "sparse.py: the held-out documents have"),
])
def test_bad_input_ends_with_one_line(made, program, arguments, message):
    done = subprocess.run([sys.executable, BENCH / f"{program}.py", "--out", made, "--precision", "fp32",
                           *arguments], capture_output=True, text=True, check=False,
                          env={**environment(), "SLIMPACK_BUILD": str(BUILD)})
    assert done.returncode != 0 and message in done.stderr.splitlines()[-1], done.stderr
    assert "Traceback" not in done.stderr


def test_needles_lie_where_they_are_asked_for():
    source = b"".join(b"line %d\n" % n for n in range(1000))
    for depth in (0, 0.5, 1):
        prompt, value = planted(source, 4000, depth, seed=3)
        assert len(prompt) == 4000 and prompt.endswith(b" == '") and prompt.count(value) == 1
        assert prompt.index(value) / 4000 == pytest.approx(depth, abs=0.03)
        assert prompt.replace(b"'" + value + b"'", b"").count(b"SECRET_") == 2
    assert planted(source, 4000, 0.5, seed=3) != planted(source, 4000, 0.5, seed=4)
    with pytest.raises(ValueError, match="ask for shorter prompts"):
        planted(source[:100], 4000, 0.5, seed=3)


def test_intervals_hold_the_mean_and_shrink_with_more_prompts():
    assert geometric_mean([2, 8]) == pytest.approx(4)
    assert interval([1.5] * 10) == (pytest.approx(1.5),) * 3
    few, many = interval([1, 2] * 5), interval([1, 2] * 500)
    for mean, lower, upper in (few, many):
        assert mean == pytest.approx(math.sqrt(2)) and lower < mean < upper
    # The deviation of a mean of logarithms is log(2)/2 ÷ √n: 1.96 of it with 1,000 prompts is 2.1%.
    assert many[2] / many[0] == pytest.approx(1.0217, abs=0.004)
    assert few[2] - few[1] > 5 * (many[2] - many[1])


def test_sources_have_five_kinds_of_text(made):
    documents = sorted((made / "corpus" / "sources" / "held-out").glob("*.py"))
    found = parts_of_sources(documents, 3, 100)
    assert all(len(of) == 3 and all(len(prompt) == 100 for prompt in of) for of in found.values())
    assert set(found) == set(REQUESTS)
    assert bytes(found["prose"][1]).startswith(b"About number 1.")
    assert bytes(found["code"][0]).startswith(b"def longest")
    assert bytes(found["dialogue"][0]).lstrip().startswith(b">>> longest(0, 0)\n    0\n")
    assert bytes(found["lists"][2]).startswith(b"    0,  # 2\n    1,  # 2\n")
