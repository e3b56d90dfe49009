"""slimpack generate: what it prints and what it refuses."""

import json
import os
import subprocess
import sys

import pytest
import torch
import transformers
from program import BUILD, SLIMPACK
from terminal import on_terminal

ANSWER = ["--max-new-tokens", "8", "--dtype", "fp32", "--threads", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=257, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=64, eos_token_id=None, bos_token_id=None)).save_pretrained(folder)
    return folder


def generate(*arguments, text=None):
    environment = {**os.environ, "SLIMPACK_PYTHON": sys.executable, "PYTHONPATH": str(BUILD / "python")}
    return subprocess.run([SLIMPACK, "generate", *map(str, arguments)], input=text, text=True,
                          capture_output=True, env=environment, timeout=120, check=False)


def test_the_answer_is_on_standard_output_and_its_figures_are_not(model):
    ran = generate(model, "abc", *ANSWER)
    assert ran.returncode == 0
    assert ran.stdout.endswith("\n")
    assert "3 tokens in, first token after" in ran.stderr and "8 out" in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_figures_on_a_terminal_have_a_line_of_their_own_where_the_answer_goes_through_a_pipe(model):
    """A reader of the pipe, such as tee, may show the end of the answer after the figures."""
    command = f"{SLIMPACK} generate {model} abc {' '.join(ANSWER)} | cat > /dev/null"
    environment = {**os.environ, "SLIMPACK_PYTHON": sys.executable, "PYTHONPATH": str(BUILD / "python")}
    text, _ = on_terminal(["bash", "-c", command], 80, env=environment)
    assert text.startswith("\r\n3 tokens in, first token after")


def test_figures_say_how_many_in_words_that_are_counted(model):
    assert generate(model, "a", *ANSWER).stderr.startswith("1 token in, first token after")


def test_a_file_and_a_pipe_give_the_same_answer_as_an_argument(model, tmp_path):
    (tmp_path / "prompt").write_text("abc")
    argument = generate(model, "abc", *ANSWER).stdout
    assert generate(model, *ANSWER, text="abc").stdout == argument
    assert generate(model, "--file", tmp_path / "prompt", *ANSWER).stdout == argument


def test_json_holds_answer_and_figures(model):
    made = json.loads(generate(model, "abc", "--json", *ANSWER).stdout)
    assert made["prompt_tokens"] == 3 and len(made["tokens"]) == 8 and made["end"] == "length"
    assert made["tokens_per_second"] > 0 and made["first_token_seconds"] > 0


def test_help_teaches():
    ran = generate("--help")
    assert ran.returncode == 0
    assert "slimpack generate" in ran.stdout and "--temperature" in ran.stdout and "--chat" in ran.stdout
    assert max(map(len, ran.stdout.splitlines())) <= 80


@pytest.mark.parametrize("arguments, message", [
    (["MODEL", ""], "the prompt has no token; give some text to go on from"),
    (["MODEL", "a" * 65], "the prompt has 65 tokens, the model 64 positions; shorten the prompt"),
    (["/nowhere", "a"], "/nowhere: neither a model's config.json nor a checkpoint"),
    (["MODEL", "a", "--file", "x"], "PROMPT and --file both give a prompt; leave one away"),
    (["MODEL", "--file", "/nowhere"], "cannot read '/nowhere': No such file or directory; check the path"),
    (["MODEL", "a", "--system", "b"], "--system is a message of a chat; give --chat, too"),
    (["MODEL", "a", "--chat"], "has no chat template; leave --chat away"),
    (["MODEL", "a", "--top-p", "2"], "top-p is 2, it must be above 0 and at most 1"),
    (["MODEL", "a", "--max-new-tokens", "x"], "try 'slimpack generate --help'"),
    (["MODEL", "a", "--threads", "0"], "'0' is no number of threads; give 1 to 1024"),
    (["MODEL", "a", "--threads", "1025"], "'1025' is no number of threads; give 1 to 1024"),
    (["MODEL", "a", "--threads", "9" * 20], "is no number of threads; give 1 to 1024"),
    (["MODEL", "a", "--tokenizer", "/nowhere.json"], "cannot read tokenizer '/nowhere.json'"),
    (["MODEL", "a", "--device", "cuda"], "cuda"),
    ([], "try 'slimpack generate --help'"),
])
def test_bad_input_is_one_line(model, arguments, message):
    ran = generate(*[model if a == "MODEL" else a for a in arguments])
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith("slimpack: ") and ran.stderr.count("\n") == 1, ran.stderr
    assert message in ran.stderr


def test_text_that_is_none_is_refused(model, tmp_path):
    (tmp_path / "prompt").write_bytes(b"ab\xff")
    ran = generate(model, "--file", tmp_path / "prompt")
    assert ran.returncode == 2
    assert "is no UTF-8 text (byte 2); convert it" in ran.stderr


def test_a_model_with_experts_is_refused_with_what_generates(tmp_path):
    config = dict(model_type="qwen3_moe", hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                  num_attention_heads=4, vocab_size=257, max_position_embeddings=64)
    (tmp_path / "config.json").write_text(json.dumps(config))
    ran = generate(tmp_path, "abc", *ANSWER)
    assert ran.returncode == 2
    assert 'model_type is "qwen3_moe"' in ran.stderr and "transformers and vLLM" in ran.stderr
