"""The examples of the documentation run, and print what the pages show."""

import json
import re
import shutil
import subprocess
import sys
import textwrap

import pytest
from pages import BLOCK, ROOT, SHELL, lines, run, with_changes
from processes import BUILD
from small_chat_model import write_small_chat_model

# docs/python.md says that its reader has this.
PREPARED = """
import torch
dataset = [{"input_ids": torch.zeros(5, dtype=torch.int64)}] * 70  # as many as the page has lengths
"""
RUN = """
[model]
config = "{root}/models/demo.json"
[data]
prefix = "corpus"
context = 256
step_tokens = 512
[hardware]
[output]
dir = "run"
"""


def outputs(text):
    """The outputs that a page shows for its Python examples: the lines of the block after the example,
    if it has no title. A line "…" stands for others."""
    blocks = BLOCK.findall(text)
    return [line for before, (language, title, shown) in zip(blocks, blocks[1:], strict=False)
            if before[0] == "python" and language == "text" and not title
            for line in lines(shown) if line != "…"]


def shows(line, printed):
    """Whether a line of a page is a printed one; "…" at its end stands for what follows."""
    return line == printed or line.endswith("…") and printed.startswith(line.removesuffix("…"))


def require_in_order(wanted, printed):
    assert wanted
    rest = iter(printed)
    assert [line for line in wanted if not any(shows(line, other) for other in rest)] == []


@pytest.mark.whole
def test_the_commands_of_the_readme_run_one_after_the_other(tmp_path):
    """In a fresh folder with the repository's files; torchrun on two processes of this machine."""
    for name in ("examples", "models", "hardware", "slimpack", "python"):
        (tmp_path / name).symlink_to(ROOT / name)
    text = with_changes((ROOT / "README.md").read_text(encoding="utf-8"), {
        # Less of everything.
        "s/= 32768/= 8192/": "s/= 32768/= 1024/; s/= 8192/= 512/; s/^steps = 20/steps = 4/; s/= 131072/= 2048/",
        "train.steps=40": "train.steps=8", "step-00000040": "step-00000008", "steps 3": "steps 1",
        "layout examples/llama.toml --lengths examples/lengths.txt":
            "layout examples/llama.toml --lengths <(head -n 12 examples/lengths.txt)",
        "--nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint host1:29500": "--standalone --nproc-per-node 2",
        "parallel.dp=8 --set train.device=cuda": "output.dir=runs/processes",
    })
    blocks = [block for language, _, block in BLOCK.findall(text)
              if language == "sh" and not block.startswith("make")]
    printed = run("".join(SHELL.format(code=block) for block in blocks), tmp_path)
    faster = [re.fullmatch(r"slimpack trains ([\d.]+) times as fast as .*", line) for line in printed]
    assert [float(found[1]) > 1 for found in faster if found] == [True]  # the example shows a gain
    for file in ("llama.json", "llama.html", "llama.svg", "sweep.svg", "trace.json", "mine/report.html",
                 "again/report.html", "processes/metrics.jsonl"):
        assert (tmp_path / "runs" / file).stat().st_size > 0, file
    assert len((tmp_path / "runs" / "mine" / "metrics.jsonl").read_text().splitlines()) >= 8
    assert list((tmp_path / "runs" / "mine").rglob("events.out.tfevents*"))


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_python_examples_run_and_print_what_is_shown(page, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / "text.txt").write_bytes(b"some text of the demo " * 40)
    (tmp_path / "run.toml").write_text(RUN.format(root=ROOT))
    subprocess.run([BUILD / "slimpack", "data", "build", "--from", tmp_path, "--glob", "text.txt",
                    "--out", tmp_path / "corpus"], check=True, capture_output=True)
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = [code for language, _, code in BLOCK.findall(text) if language == "python"]
    code = "".join([PREPARED, *blocks])
    for more, fewer in {"train.steps=100": "train.steps=2", "steps=2).best": "steps=1).best",
                        "layout(lengths,": "layout(lengths[:8],"}.items():
        code = code.replace(more, fewer)  # more say no more
    require_in_order(outputs(text), run(code, tmp_path))


def test_the_tutorial_runs_and_prints_what_it_shows(tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    folder = tmp_path / "runs" / "tutorial"
    (folder / "model").mkdir(parents=True)
    text = with_changes((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), {
        '"$LIBRARY"/*.py': '"$LIBRARY"/a*.py',  # less of everything
        "steps = 10\n": "steps = 2\n", "context = 4096 ": "context = 512 ",
        "step_tokens = 16384": "step_tokens = 1024",
        "train.steps=20": "train.steps=4", "step-00000020": "step-00000004",
        'dir = "run"\n': 'dir = "run"\n[hardware]\n',  # and no measuring
    })
    code = ""
    for language, title, block in BLOCK.findall(text):
        if language in ("json", "toml"):
            (folder / title).write_text(block)
        elif language == "python":
            code += block
        elif language == "sh" and not block.startswith("make setup"):
            code += SHELL.format(code=block)
    require_in_order(outputs(text), run(code, folder))
    assert (folder / "run" / "checkpoints" / "step-00000004" / "tokenizer.json").exists()
    assert len((folder / "run" / "metrics.jsonl").read_text().splitlines()) == 4


def test_the_example_of_a_mixture_runs_and_prints_what_is_shown(tmp_path):
    for name in ("slimpack", "docs", "models"):
        (tmp_path / name).symlink_to(ROOT / name)
    text = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text.partition("\n## Mixtures")[2].partition("\n## ")[0])
    (_, title, run_file), (_, _, commands), (_, _, shown) = blocks
    (tmp_path / title).write_text(run_file)
    require_in_order(lines(shown), run(SHELL.format(code=commands), tmp_path))


def test_the_page_on_fine_tuning_runs_from_conversations_to_an_answer(tmp_path):
    """On a small model in place of SmolLM2, for three steps."""
    examples = tmp_path / "examples"
    examples.mkdir()
    for program in ("conversations.py", "train_any_model.py"):
        shutil.copy(ROOT / "examples" / program, examples)
    (examples / "fine-tune.toml").write_text("[hardware]\n" + with_changes(
        (ROOT / "examples" / "fine-tune.toml").read_text(encoding="utf-8"), {"steps = 40": "steps = 3"}))
    write_small_chat_model(tmp_path / "SmolLM2-135M-Instruct", ["When does the Heron leave? The Heron leaves at 13:20."])
    blocks = BLOCK.findall(with_changes((ROOT / "docs" / "fine-tuning.md").read_text(encoding="utf-8"), {
        "--output runs/any": "--output runs/any --steps 2 --step-tokens 2048"}))
    code = SHELL.format(code="".join(block for language, _, block in blocks if language == "sh"))
    printed = run(code, tmp_path)
    # The lines of the page that do not depend on the model.
    shown = lines(next(block for _, title, block in blocks if title.startswith("Prints") and "document 0" in block))
    own = [line for line in shown if "tokens" not in line and not line.startswith(("…", "You are"))]
    require_in_order(own, printed)
    metrics = (tmp_path / "runs" / "ferries" / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["evaluation_loss"] for line in metrics if "evaluation_loss" in line]
    assert losses[-1] < losses[0]


@pytest.mark.whole
@pytest.mark.parametrize("page", ["losses.md"])
def test_a_page_begins_with_a_script_that_runs_and_prints_what_is_shown(page, tmp_path):
    script, command, shown = BLOCK.findall((ROOT / "docs" / page).read_text(encoding="utf-8"))[:3]
    (tmp_path / script[1]).write_text(script[2])
    require_in_order(lines(shown[2]), run(SHELL.format(code=command[2]), tmp_path))


def test_what_the_page_on_losses_goes_on_with_runs_behind_its_script(tmp_path):
    (_, _, script), *others = BLOCK.findall((ROOT / "docs" / "losses.md").read_text(encoding="utf-8"))
    further = [*(code for language, _, code in others if language == "python"),
               "print('own', engine.step_on_logprobs(plan, documents, most_of_all).loss > 0)\n"]
    code = script.replace("\npipeline.launch", textwrap.indent("".join(further), "    ") + "\npipeline.launch")
    require_in_order(["own True"], run(code, tmp_path))


def test_the_script_of_the_page_on_trainers_runs(tmp_path):
    """On a small model in place of SmolLM2, for two steps."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    write_small_chat_model(tmp_path / "SmolLM2-135M-Instruct", ["When does the Heron leave? The Heron leaves at 13:20."])
    page = with_changes((ROOT / "docs" / "trainer.md").read_text(encoding="utf-8"), {
        'eval_strategy="epoch"': 'eval_strategy="steps", eval_steps=1, max_steps=2, logging_steps=1, use_cpu=True'})
    (script,) = [block for language, _, block in BLOCK.findall(page) if language == "python"]
    printed = run(SHELL.format(code="python examples/conversations.py runs/ferries --count 32 --held-out 8") + script, tmp_path)
    losses = [re.findall(rf"'{name}': '([0-9.]+)'", "\n".join(printed)) for name in ("loss", "eval_loss")]
    assert [len(of_name) for of_name in losses] == [2, 2], printed
    assert (tmp_path / "runs" / "chats" / "checkpoint-2" / "model.safetensors").exists()


def test_the_converter_of_the_page_on_fine_tuning_gives_lines_that_are_conversations(tmp_path):
    page = (ROOT / "docs" / "fine-tuning.md").read_text(encoding="utf-8")
    (converter,) = [block for _, title, block in BLOCK.findall(page) if title == "convert.py"]
    turns = [("system", "Be brief."), ("human", "When?"), ("gpt", "At ten.")]
    line = json.dumps({"id": 1, "conversations": [{"from": role, "value": text} for role, text in turns]})
    done = subprocess.run([sys.executable, "-c", converter], input=line + "\n", text=True, capture_output=True,
                          check=True)
    assert json.loads(done.stdout) == {"messages": [
        {"role": role, "content": text} for role, (_, text) in zip(("system", "user", "assistant"), turns)]}


def test_the_example_of_conversations_runs_and_prints_what_is_shown(tmp_path):
    text = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(text.partition("### A complete example")[2].partition("\n## ")[0])
    for _, title, block in blocks:
        if title:
            (tmp_path / title).write_text(block)
    code = "".join(SHELL.format(code=block) for language, _, block in blocks if language == "sh")
    require_in_order([line for language, _, block in blocks if language == "text" for line in lines(block)],
                     run(code, tmp_path))
