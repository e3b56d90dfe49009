"""The commands of every page run on small models, documents and layouts, or stand here with the reason why not."""

import re
from typing import NamedTuple

import pytest
from pages import BLOCK, ROOT, SHELL, run, with_changes
from small_chat_model import write_small_chat_model

RUN = """
[model]
config = "{config}"
[data]
prefix = "{up}runs/mine/corpus"
context = 256
step_tokens = 512
[train]
steps = 2
[parallel]
pp = 2
[hardware]  # says what a step costs, so that nothing is measured
[output]
dir = "{up}runs/mine"
"""
TWO_MACHINES = "--nnodes 2 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint host1:29500"
HERE = "--standalone --nproc-per-node 2"
TRAIN_FIRST = "slimpack train run.toml\n"


class Page(NamedTuple):
    """How the commands of a page run: text that is changed, what runs before, and why some commands do not."""

    changes: dict[str, str] = {}
    before: str = ""
    skipped: dict[str, str] = {}  # begin of a command: reason


BUILDS = {"make ": "builds"}
PAGES = {
    "adopting.md": Page(skipped={".venv/bin/python bench/adopting.py": "a benchmark of minutes"}),
    "baselines.md": Page(),
    "checkpoints.md": Page({"step-00000100": "step-00000002",
                            "--init path/to": "--set output.dir=runs/other --set model.config=MODEL/config.json --init path/to"}),
    "datasets.md": Page({"--from fineweb/": "--from web/", "--glob '*.parquet' \\\n": "--glob '*.txt' --format text \\\n",
                         "train run.toml": "train run.toml --set model.config=MODEL/config.json",
                         "--from ultrachat/ --glob '*.parquet'": "--from chats/ --glob '*.jsonl'"}, skipped={
        "pip install": "installs", "slimpack data build --from chats.jsonl": "examples_test.py runs the example",
        "slimpack data build --chat --from chats.jsonl": "as above", "slimpack data inspect chats": "as above",
        "slimpack data build --from slimpack": "examples_test.py runs the mixture",
        "slimpack data build --from docs": "as above", "slimpack plan mixed.toml": "as above"}),
    "devices.md": Page({"--nproc-per-node 8": "--nproc-per-node 2", "run.toml   # a": "run.toml --set output.dir=runs/two # a"},
                       skipped={"make fa4": "wants CUDA's compiler and ten minutes", "tools/fa4": "as above"}),
    "draft-heads.md": Page({"--out answers.jsonl\n": "--out answers.jsonl --new-tokens 8\n",
                            "--out runs/head": "--out runs/head --steps 2 --step-tokens 64 --context 32 --held-out-tokens 64",
                            "--draft runs/head": "--draft runs/head --max-new-tokens 4"}, skipped={"pip ": "installs"}),
    "fit.md": Page(),
    "generate.md": Page({"'def main():' --max-new-tokens 64": "'def main():' --max-new-tokens 4",
                         "rivers.' --chat": "rivers.' --chat --max-new-tokens 4",
                         "--draft ngram": "--draft ngram --max-new-tokens 4"},
                        "slimpack train run.toml --set output.dir=runs/demo\n",
                        {"slimpack generate MODEL 'def main():' --draft runs/head": "draft-heads.md has it"}),
    "hardware.md": Page({"profile run.toml": "profile run.toml --set data.context=64"}),
    "install.md": Page(skipped=BUILDS),
    "layout.md": Page({"--model llama-3.1-8b": "--model demo", "--ranks 256": "--ranks 4", "--context 131072 --step-tokens 4194304": "--context 8192 --step-tokens 16384",
                       "--context 65536,131072": "--context 128,256"}),
    "lora.md": Page({"--lora-rank 16": "--lora-rank 4 --steps 2 --context 256 --step-tokens 512"}, skipped={
        "pip ": "installs", "torchrun --nproc-per-node 2 lora.py": "tests/torch_pipeline/lora_page_test.py runs it"}),
    "losses.md": Page(skipped={"torchrun": "examples_test.py runs it"}),
    "metrics.md": Page({"--follow &": "#"}, skipped={
        "tail -f": "never ends", "tensorboard --logdir": "never ends", "pip ": "installs",
        "slimpack train runs/mine.toml --log wandb": "tests/python/log_test.py runs it, with a server of its own"}),
    "models.md": Page({"plan run.toml": "plan run.toml --set data.context=256"}),
    "planner.md": Page(),
    "prediction.md": Page({"--steps 5": "--steps 1", "--max-error 10": "--max-error 100000 --steps 1"},
                          "slimpack profile run.toml --out cost.json --set data.context=64\n"),
    "processes.md": Page({"--nproc-per-node 4": "--nproc-per-node 2", TWO_MACHINES: HERE,
                          "worker run.toml\n```": "worker run.toml --set output.dir=runs/two\n```"}, skipped=BUILDS),
    "python.md": Page(skipped=BUILDS),
    "questions.md": Page(skipped={"srun": "wants Slurm"}),
    "report.md": Page({"run.toml --report": "run.toml --set output.dir=runs/other --report"},
                      TRAIN_FIRST + "slimpack plan run.toml --out plan.json\n"),
    "schedule.md": Page(),
    "solver.md": Page(),
    "sparse-attention.md": Page({"--sparse sample": "--max-new-tokens 4 --sparse sample"}),
    "sweep.md": Page({"examples/demo.toml --over packs=4,16,64 --over granularity=64,256": "run.toml --over packs=2,4",
                      "--steps 6": "--steps 2"}),
    "train-any-model.md": Page({"--from ~/src": "--from slimpack/base", "*.py": "*.h",
                                "--output runs/any": "--output runs/any --steps 2 --context 256 --step-tokens 512"}),
    "zones.md": Page({"plan run.toml": "plan run.toml --set parallel.dp=2"}),
}
# Pages whose commands follow from each other, with the tests that run them.
ELSEWHERE = {"README.md": "test_the_commands_of_the_readme_run_one_after_the_other",
             "tutorial.md": "test_the_tutorial_runs_and_prints_what_it_shows",
             "fine-tuning.md": "test_the_page_on_fine_tuning_runs_from_conversations_to_an_answer"}


def commands_of(text):
    """The commands of a page's blocks, a line each."""
    blocks = [block for language, _, block in BLOCK.findall(text) if language == "sh"]
    joined = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in joined if line.strip() and not line.startswith("#")]


def text_of(name):
    return (ROOT / ("" if name == "README.md" else "docs") / name).read_text(encoding="utf-8")


def is_skipped(command, page):
    return command.startswith(tuple(page.skipped))


def write_workspace(folder):
    """Writes the files that readers of the pages have."""
    for name in ("examples", "models", "hardware", "slimpack"):
        (folder / name).symlink_to(ROOT / name)
    write_small_chat_model(folder / "MODEL", ["def main(): the Heron leaves at 13:20."])
    for name in ("SmolLM2", "SmolLM2-135M-Instruct", "Qwen3-0.6B", "runs/smollm2/model", "path/to/a/hugging-face/model"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(folder / "MODEL")
    (folder / "run.toml").write_text(RUN.format(config="models/demo.json", up=""))
    (folder / "runs" / "mine.toml").write_text(RUN.format(config="../models/demo.json", up="../"))
    (folder / "lengths.txt").write_text("".join(f"{length}\n" for length in (8000, 200, 3000, 700, 40, 5000, 90, 1000)))
    for name, text in {"prompts.jsonl": '{"prompt": "def main():"}\n' * 8, "prompt.txt": "def main():\n" * 40,
                       "web/a.txt": "The Heron leaves.\n" * 400,
                       "chats/a.jsonl": '{"messages": [{"role": "user", "content": "When?"}, '
                                        '{"role": "assistant", "content": "At ten."}]}\n'}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.cases
@pytest.mark.parametrize("name", [name for name, page in PAGES.items()
                                  if not all(is_skipped(line, page) for line in commands_of(text_of(name)))])
def test_the_commands_of_a_page_run(name, tmp_path):
    write_workspace(tmp_path)
    page = PAGES[name]
    commands = [line for line in commands_of(with_changes(text_of(name), page.changes)) if not is_skipped(line, page)]
    corpus = "slimpack data build --from slimpack/base --glob '*.h' --out runs/mine/corpus\n"
    run(SHELL.format(code=corpus + page.before + "\n".join(commands)), tmp_path)


def test_every_page_with_commands_has_a_test():
    pages = {page.name for page in (ROOT / "docs").glob("*.md") if commands_of(text_of(page.name))}
    assert pages | {"README.md"} == PAGES.keys() | ELSEWHERE.keys()
    tests = (ROOT / "tests" / "docs" / "examples_test.py").read_text(encoding="utf-8")
    assert [test for test in ELSEWHERE.values() if not re.search(rf"^def {test}\(", tests, re.MULTILINE)] == []


def test_every_reason_is_that_of_a_command():
    stale = [(name, begin) for name, page in PAGES.items() for begin in page.skipped
             if not any(line.startswith(begin) for line in commands_of(text_of(name)))]
    assert stale == []
