"""slimpack.generate against transformers, and what it refuses."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer, models

import slimpack
from slimpack.generation import Generator
from slimpack.generation.command import main
from slimpack.generation.stops import StopStrings
from slimpack.generation.texts import end_tokens

sys.path.append(str(Path(__file__).parents[1] / "packflow/step"))
from hugging_face import use_fp64_casts  # noqa: E402

VOCABULARY = 257
torch.set_num_threads(1)  # tests run side by side


def save_model(folder, family="llama", **sizes):
    """A model of random weights, large enough that its answers do not settle into one token."""
    torch.manual_seed(0)
    config_class, model_class = {
        "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
        "qwen3": (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
        "mistral": (transformers.MistralConfig, transformers.MistralForCausalLM),
    }[family]
    config = config_class(**{
        "vocab_size": VOCABULARY, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
        "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 512,
        "initializer_range": 0.4, "tie_word_embeddings": False, "bos_token_id": None,
        "eos_token_id": None, **sizes})
    model = model_class(config).to(torch.float64).eval()
    model.save_pretrained(folder)
    use_fp64_casts(model)  # transformers rounds norms and angles to fp32 even in a double model
    return model


def expected_tokens(model, prompt, count):
    prompt_tokens = torch.tensor([prompt])
    out = model.generate(prompt_tokens, attention_mask=torch.ones_like(prompt_tokens),
                         max_new_tokens=count, do_sample=False, pad_token_id=0)
    return out[0, len(prompt):].tolist()


def prompts(count):
    generator = torch.Generator().manual_seed(1)
    for i in range(count):
        length = int(torch.randint(1, 200, (1,), generator=generator))
        yield torch.randint(0, VOCABULARY - 1, (length,), generator=generator).tolist()


@pytest.mark.parametrize("family, sizes", [
    ("llama", {}),
    ("llama", {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True}),
    ("qwen2", {"num_key_value_heads": 3}),
    ("qwen3", {"num_key_value_heads": 1, "head_dim": 20}),
    ("mistral", {"sliding_window": 2}),  # of one, transformers' cache keeps all keys, [-1 + 1:]
    ("mistral", {"sliding_window": 40}),
    ("qwen3", {"use_sliding_window": True, "sliding_window": 9,
               "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}),
])
def test_the_likeliest_tokens_are_those_of_transformers(tmp_path, family, sizes):
    model = save_model(tmp_path, family, **sizes)
    whole = Generator(tmp_path, dtype="fp64")
    sliced = Generator(tmp_path, dtype="fp64")
    for prompt in prompts(5):
        expected = expected_tokens(model, prompt, 64)
        assert len(set(expected)) > 4, "a model that repeats itself tests little"
        assert whole.generate(prompt, max_new_tokens=64, ignore_eos=True).tokens == expected
        # 70 tokens go through libtorch's operators, the rest of 1 to 69 through those of few rows.
        assert sliced.generate(prompt, max_new_tokens=64, ignore_eos=True,
                               prefill_slice=70).tokens == expected


def test_answers_in_a_batch_are_those_of_each_prompt_alone(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")
    asked = list(prompts(9))
    for settings in ({}, {"temperature": 1.0, "seed": 3}):
        alone = [generator.generate(prompt, max_new_tokens=20, ignore_eos=True,
                                    **settings | ({"seed": 3 + i} if settings else {}))
                 for i, prompt in enumerate(asked)]
        told = {}
        made = generator.generate_batch(
            asked, batch=4, max_new_tokens=20, ignore_eos=True,
            on_text=lambda number, text: told.setdefault(number, []).append(text), **settings)
        assert [one.tokens for one in made] == [one.tokens for one in alone]
        assert ["".join(told.get(i, [])) for i in range(9)] == [one.text for one in alone]


def test_answers_in_a_batch_end_each_for_itself(tmp_path):
    save_model(tmp_path, max_position_embeddings=40)
    generator = Generator(tmp_path, dtype="fp64")
    asked = [[1] * 38, [5, 6, 7], [9], [4] * 30, [8] * 5]
    alone = [generator.generate(prompt, max_new_tokens=12, ignore_eos=True) for prompt in asked]
    generator.texts.end_tokens = (alone[1].tokens[5],)
    wanted = [generator.generate(prompt, max_new_tokens=12) for prompt in asked]
    made = generator.generate_batch(asked, batch=3, max_new_tokens=12)
    assert [(one.end, one.tokens) for one in made] == [(one.end, one.tokens) for one in wanted]
    assert {one.end for one in made} == {"positions", "stop_token", "length"}
    assert generator.generate_batch([]) == []


def test_more_answers_than_few_rows_are_made_in_parts(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")
    asked = [[i, 2 * i % 200, 7] for i in range(150)]
    made = generator.generate_batch(asked, batch=150, max_new_tokens=3, ignore_eos=True)
    for i in (0, 74, 149):
        alone = generator.generate(asked[i], max_new_tokens=3, ignore_eos=True)
        assert made[i].tokens == alone.tokens


def test_what_a_listener_of_a_batch_raises_ends_it(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")

    def on_text(number, text):
        raise KeyError(number)

    with pytest.raises(KeyError):
        generator.generate_batch([[70, 71], [72]], max_new_tokens=50, on_text=on_text)
    with pytest.raises(slimpack.InvalidInput, match="batch is 0, it must be 1 or more"):
        generator.generate_batch([[1]], batch=0)
    with pytest.raises(slimpack.InvalidInput, match="the prompt has no token"):
        generator.generate_batch([[1], []])


def test_a_prompt_that_begins_like_the_last_one_is_run_from_there(tmp_path):
    model = save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")
    first = list(range(100))
    made = generator.generate(first, max_new_tokens=10, ignore_eos=True)
    assert made.reused_tokens == 0
    # The nine tokens that were run are kept, too; the tenth was never run.
    longer = first + made.tokens + [7, 8]
    assert generator.generate(longer, max_new_tokens=5).reused_tokens == 109
    other = first[:40] + [200] * 30
    again = generator.generate(other, max_new_tokens=20, ignore_eos=True)
    assert again.reused_tokens == 40
    assert again.tokens == expected_tokens(model, other, 20)
    # If a prompt is there already, its last token runs again, for its logits.
    assert generator.generate(other, max_new_tokens=20, ignore_eos=True).tokens == again.tokens
    assert generator.generate(other, max_new_tokens=1).reused_tokens == 69


def test_it_ends_at_the_models_last_position(tmp_path):
    save_model(tmp_path, max_position_embeddings=40)
    made = Generator(tmp_path, dtype="fp32").generate([1] * 38, max_new_tokens=100, ignore_eos=True)
    # Tokens 39 and 40 take the last positions, the 41st is the answer of the last one.
    assert (made.end, len(made.tokens)) == ("positions", 3)


def test_it_ends_at_the_models_own_end(tmp_path):
    model = save_model(tmp_path)
    plain = expected_tokens(model, [5, 6, 7], 30)
    end = plain[12]
    generator = Generator(tmp_path, dtype="fp64")
    generator.texts.end_tokens = (end,)
    made = generator.generate([5, 6, 7], max_new_tokens=30)
    assert (made.end, made.tokens) == ("stop_token", plain[:plain.index(end)])


def test_the_models_settings_name_its_end(tmp_path):
    (tmp_path / "config.json").write_text('{"eos_token_id": 7}')
    assert end_tokens(tmp_path) == (7,)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert end_tokens(tmp_path) == (1, 2)
    for bad, message in [('{"eos_token_id": "x"}', "it must be a token's number"), ("[]", "no JSON object"),
                         ("{", "is no JSON")]:
        (tmp_path / "generation_config.json").write_text(bad)
        with pytest.raises(slimpack.InvalidInput, match=message):
            end_tokens(tmp_path)


def test_stop_strings_are_found_across_pieces_and_not_told():
    for stops, pieces, told in [
        (["###"], ["a#", "#", "#b"], "a"),
        (["###"], ["a#", "#", "b"], "a##b"),
        (["abc", "bx"], ["aab", "xc"], "aa"),
        (["aab"], ["aaab", "c"], "a"),
        ([], ["x", "y"], "xy"),
    ]:
        stop = StopStrings(stops)
        heard = ""
        for piece in pieces:
            heard += stop.pass_on(piece)
            if stop.stopped:
                break
        assert heard + stop.finish() == told, (stops, pieces)


@pytest.mark.parametrize("prompt, message", [
    (b"alpha", "prompt is bytes; give a text"),
    (bytearray(b"alpha"), "prompt is bytes"),
    (memoryview(b"alpha"), "prompt is bytes"),
    ([1.5, 2], r"prompt\[0\] is 1.5, must be a whole number"),
    ([1, [2]], r"prompt\[1\] is \[2\], must be a whole number"),
    ({1: 2}, "prompt is neither a text nor a list of tokens"),
    ({1, 2}, "prompt is neither"),
    (None, "prompt is neither"),
    (7, "prompt is neither"),
    ("a\ud800", "is no UTF-8 text .character 1 is"),
])
def test_prompts_that_are_neither_text_nor_tokens_are_refused(tmp_path, prompt, message):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp32")
    for call in (generator.generate, generator.score, lambda one: generator.generate_batch([[1], one])):
        with pytest.raises(slimpack.InvalidInput, match=message):
            call(prompt)
    with pytest.raises(slimpack.InvalidInput, match="the prompts are one text; give a list"):
        generator.generate_batch("alpha")
    with pytest.raises(slimpack.InvalidInput, match="stop has b'x', it must be a text"):
        generator.generate("a", stop=b"x")


@pytest.mark.parametrize("prompt, message", [
    ([], "prompt 2: the prompt has no token"),
    ([0] * 41, "prompt 2: the prompt has 41 tokens, the model 40 positions; shorten the prompt"),
    ([3, 257], "prompt 2: token 257 is not in the model's vocabulary of 257"),
    ([2**70], r"prompt 2: prompt\[0\] is 1180591620717411303424, must be a whole number"),
    (b"x", "prompt 2: prompt is bytes"),
])
def test_a_prompt_of_many_that_is_refused_is_named(tmp_path, prompt, message):
    save_model(tmp_path, max_position_embeddings=40)
    generator = Generator(tmp_path, dtype="fp32")
    with pytest.raises(slimpack.InvalidInput, match=message):
        generator.generate_batch([[1], "a", prompt, [1]])


def test_arrays_and_tensors_of_tokens_are_prompts(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")
    made = [generator.generate(prompt, max_new_tokens=4).tokens for prompt in (
        [1, 2, 3], (1, 2, 3), range(1, 4), np.array([1, 2, 3]), torch.tensor([1, 2, 3]), iter([1, 2, 3]))]
    assert all(tokens == made[0] for tokens in made)


def save_tokenizer(folder):
    """Letters, and two special tokens behind them; the model's own end is another."""
    tokenizer = Tokenizer(models.BPE({letter: id for id, letter in enumerate("abcdefgh <>/s")}, []))
    tokenizer.add_special_tokens(["<s>", "</s>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>", "chat_template":
         "{{ bos_token }}{% for m in messages %}{{ m | tojson }}{{ eos_token }}{% endfor %}{{ tools }}"}))


def test_a_chat_is_the_tokens_of_transformers(tmp_path, capsys):
    save_model(tmp_path, vocab_size=15)
    save_tokenizer(tmp_path)
    messages = [{"role": "system", "content": "c 'd'"}, {"role": "user", "content": "<a> & b"}]
    generator = Generator(tmp_path, dtype="fp64")
    heard = []
    generator.generate = lambda prompt, **settings: heard.append((prompt, settings))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for tools in (None, [{"name": "f"}]):
        generator.chat(messages, tools=tools, seed=3)
        assert heard.pop() == (theirs.apply_chat_template(messages, tools=tools, add_generation_prompt=True)
                               .input_ids, {"seed": 3})
    assert main([str(tmp_path), "<a> & b", "--chat", "--system", "c 'd'", "--json", "--max-new-tokens", "2"]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    assert made["prompt_tokens"] == len(theirs.apply_chat_template(messages).input_ids)
    # The & of the message: its other characters have tokens.
    assert "characters of the prompt that have no token and are lost: 1\n" in said.err


def test_an_end_by_its_usual_name_is_said(tmp_path, capsys):
    save_model(tmp_path, vocab_size=15)
    save_tokenizer(tmp_path)
    assert main([str(tmp_path), "a", "--max-new-tokens", "1"]) == 0
    assert "a usual name" not in capsys.readouterr().err
    (tmp_path / "tokenizer_config.json").unlink()
    assert main([str(tmp_path), "a", "--max-new-tokens", "1"]) == 0
    assert "answers end at </s>, a usual name: no file of the model names its end\n" in capsys.readouterr().err
    (tmp_path / "config.json").write_text(json.dumps(
        {**json.loads((tmp_path / "config.json").read_text()), "eos_token_id": 3}))
    assert Generator(tmp_path, dtype="fp32").texts.end_tokens == (3,)


def test_a_prompt_from_a_file_begins_behind_the_mark_of_utf8(tmp_path, capsys):
    save_model(tmp_path / "model")
    (tmp_path / "p.txt").write_bytes(b"\xef\xbb\xbfab")
    assert main([str(tmp_path / "model"), "--file", str(tmp_path / "p.txt"), "--json", "--max-new-tokens", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["prompt_tokens"] == 2


def test_the_seed_decides_what_is_drawn(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp64")

    def drawn(seed, **settings):
        return generator.generate([1, 2, 3], max_new_tokens=20, temperature=1.0, seed=seed, **settings).tokens

    assert drawn(1) == drawn(1) != drawn(2)
    likeliest = generator.generate([1, 2, 3], max_new_tokens=20).tokens
    assert drawn(1, top_k=1) == drawn(2, top_p=1e-9) == drawn(3, min_p=1.0) == likeliest


def test_drawn_tokens_follow_the_models_probabilities(tmp_path):
    model = save_model(tmp_path, initializer_range=0.2)
    generator = Generator(tmp_path, dtype="fp64")
    logits = model(torch.tensor([[1, 2, 3]])).logits[0, -1]
    settings = {"temperature": 0.7, "top_k": 40, "top_p": 0.9, "min_p": 0.02}
    warped = transformers.LogitsProcessorList([
        transformers.TemperatureLogitsWarper(0.7), transformers.TopKLogitsWarper(40),
        transformers.TopPLogitsWarper(0.9), transformers.MinPLogitsWarper(0.02)])(
            torch.tensor([[1, 2, 3]]), logits[None])
    expected = warped[0].softmax(-1)
    draws = 3000
    counts = torch.zeros(VOCABULARY)
    for seed in range(draws):
        counts[generator.generate([1, 2, 3], max_new_tokens=1, seed=seed, **settings).tokens[0]] += 1
    possible = expected > 0
    assert counts[~possible].sum() == 0
    chi_squared = ((counts - draws * expected)[possible] ** 2 / (draws * expected)[possible]).sum()
    freedom = int(possible.sum()) - 1
    # The mean of χ² is its degrees of freedom and its variance twice that: five deviations.
    assert freedom > 5 and chi_squared < freedom + 5 * (2 * freedom) ** 0.5


def test_bytes_are_text_without_a_tokenizer(tmp_path):
    save_model(tmp_path)
    pieces = []
    made = slimpack.generate(tmp_path, "Grüße", dtype="fp32", max_new_tokens=30, on_text=pieces.append)
    assert made.prompt_tokens == 7  # ü and ß are two bytes each
    assert "".join(pieces) == made.text
    assert made.text.startswith(bytes(t for t in made.tokens if t < 256).decode(errors="replace")[:5])


@pytest.mark.parametrize("settings, message", [
    ({"temperature": -1.0}, "temperature is -1, it must be 0 (the likeliest token) or more"),
    ({"temperature": float("nan")}, "temperature is nan, it must be"),
    ({"top_k": -2}, "top-k is -2, it must be 0 (all tokens) or more"),
    ({"top_p": 0.0}, "top-p is 0, it must be above 0"),
    ({"min_p": 1.5}, "min-p is 1.5, it must be from 0 (all tokens) to 1"),
    ({"max_new_tokens": 0}, "max-new-tokens is 0, it must be 1 or more"),
    ({"prefill_slice": 0}, "prefill-slice is 0, it must be 1 or more"),
    ({"prefill_slice": 2**31}, "prefill-slice is 2147483648, it must be at most 2147483647"),
    ({"max_new_tokens": 2**63 - 1}, "max-new-tokens is 9223372036854775807, it must be at most 2147483647"),
    ({"max_new_tokens": 2**63}, "max_new_tokens is 9223372036854775808, must be a whole number from"),
    ({"max_new_tokens": None}, "max_new_tokens is None, must be a whole number"),
    ({"top_k": 10**5000}, "top_k is a number of thousands of digits, must be a whole number"),
    ({"top_k": "5"}, "top_k is '5', must be a whole number"),
    ({"seed": -1}, "seed is -1, must be a whole number from 0 to 18446744073709551615"),
    ({"seed": 2**64}, "seed is 18446744073709551616, must be"),
    ({"seed": None}, "seed is None, must be"),
    ({"seed": 2.5}, "seed is 2.5, must be"),
    ({"seed": True}, "seed is True, must be"),
    ({"temperature": "hot"}, "temperature is 'hot', must be a number"),
    ({"temperature": 10**5000}, "temperature is a number of thousands of digits, must be a number"),
    ({"top_p": None}, "top_p is None, must be a number"),
    ({"min_p": b"0"}, "min_p is b'0', must be a number"),
])
def test_settings_out_of_range_are_refused(tmp_path, settings, message):
    save_model(tmp_path)
    with pytest.raises(slimpack.InvalidInput) as error:
        slimpack.generate(tmp_path, "a", dtype="fp32", **settings)
    assert message in str(error.value)


@pytest.mark.parametrize("prompt, message", [
    ([], "the prompt has no token"),
    ([0] * 41, "the prompt has 41 tokens, the model 40 positions; shorten the prompt"),
    ([3, 257], "token 257 is not in the model's vocabulary of 257"),
    ([-1], "token -1 is not in the model's vocabulary of 257"),
    ([1, 2.5], "prompt[1] is 2.5, must be a whole number"),
    ([1, 2**70], "prompt[1] is 1180591620717411303424, must be a whole number"),
    (["a"], "prompt[0] is 'a', must be a whole number"),
    ("a\ud800", "the text is no UTF-8 text (character 1 is '\\ud800'); convert it"),
])
def test_prompts_that_the_model_cannot_take_are_refused(tmp_path, prompt, message):
    save_model(tmp_path, max_position_embeddings=40)
    generator = Generator(tmp_path, dtype="fp32")
    with pytest.raises(slimpack.InvalidInput) as error:
        generator.generate(prompt)
    assert message in str(error.value)
    assert generator.generate([1, 2], max_new_tokens=2).tokens, "what was refused leaves no trace"


def test_folders_that_hold_no_model_are_refused(tmp_path):
    with pytest.raises(slimpack.InvalidInput, match="neither a model's config.json nor a checkpoint"):
        Generator(tmp_path)
    save_model(tmp_path / "model", vocab_size=300)
    with pytest.raises(slimpack.InvalidInput, match="has no tokenizer.json, and its vocabulary of 300"):
        Generator(tmp_path / "model")
    (tmp_path / "model" / "model.safetensors").unlink()
    with pytest.raises(slimpack.InvalidInput, match="model.safetensors"):
        Generator(tmp_path / "model")
    with pytest.raises(slimpack.InvalidInput, match="dtype is 'fp16'; give one of fp32, bf16, fp64"):
        Generator(tmp_path / "model", dtype="fp16")


def test_chat_templates_run_in_a_sandbox(tmp_path):
    save_model(tmp_path)
    generator = Generator(tmp_path, dtype="fp32")
    messages = [{"role": "user", "content": "Hi"}]
    with pytest.raises(slimpack.InvalidInput, match="has no chat template"):
        generator.chat(messages)
    template = tmp_path / "chat_template.jinja"
    template.write_text("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                        "{% if add_generation_prompt %}<assistant>{% endif %}")
    assert generator.chat(messages, max_new_tokens=1).prompt_tokens == len("<user>Hi<assistant>")
    template.write_text("{{ raise_exception('no system messages') }}")
    with pytest.raises(slimpack.InvalidInput, match="refuses the messages: no system messages"):
        generator.chat(messages)
    template.write_text("{{ messages.__class__.__mro__ }}")
    with pytest.raises(slimpack.InvalidInput, match="fails: access to attribute '__class__'"):
        generator.chat(messages)
    template.write_text("{% if %}")
    with pytest.raises(slimpack.InvalidInput, match="chat template of .* fails"):
        generator.chat(messages)


def test_ctrl_c_ends_it_after_the_token_in_progress(tmp_path):
    save_model(tmp_path)
    heard = []

    def interrupt(text):
        heard.append(text)
        if len(heard) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        slimpack.generate(tmp_path, [65, 66], dtype="fp32", ignore_eos=True, on_text=interrupt)
    assert len(heard) == 3


@pytest.mark.parametrize("method", ["sample-attention", "sample-attention-v1", "flex-prefill", "x-attention"])
def test_sparse_attention_of_short_prompts_is_dense_attention(tmp_path, method):
    save_model(tmp_path)
    prompt = list(range(200))
    dense = Generator(tmp_path, dtype="fp64").generate(prompt, max_new_tokens=8, ignore_eos=True)
    made = Generator(tmp_path, dtype="fp64", sparse=method, measured_heads=[0, 5]).generate(
        prompt, max_new_tokens=8, ignore_eos=True)
    # Too few keys for any choice to pay: every head is dense, so all of its attention is kept.
    assert made.tokens == dense.tokens
    assert made.sparse.dense_heads == 1 and made.sparse.density == 1
    assert made.sparse.least_kept == pytest.approx(1) and made.sparse.mean_kept == pytest.approx(1)
    assert dense.sparse is None


def test_the_score_of_a_text_is_its_loss(tmp_path):
    model = save_model(tmp_path)
    tokens = next(prompts(1))[:100] + list(range(120))
    logits = model(torch.tensor([tokens])).logits[0]
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(tokens[1:]), reduction="none")
    generator = Generator(tmp_path, dtype="fp64")
    assert generator.score(tokens) == pytest.approx(losses.sum().item(), rel=1e-9)
    assert generator.score(tokens, skip=130, prefill_slice=70) == pytest.approx(losses[129:].sum().item(), rel=1e-9)


def test_layers_with_a_window_take_no_sparse_attention(tmp_path):
    save_model(tmp_path / "all", "mistral", sliding_window=30)
    with pytest.raises(slimpack.InvalidInput, match="every layer of the model attends within a window"):
        Generator(tmp_path / "all", dtype="fp64", sparse="sample-attention")
    save_model(tmp_path / "some", "qwen3", use_sliding_window=True, sliding_window=30, max_window_layers=1)
    prompt = list(range(200))
    dense = Generator(tmp_path / "some", dtype="fp64").generate(prompt, max_new_tokens=8, ignore_eos=True)
    made = Generator(tmp_path / "some", dtype="fp64", sparse="sample-attention").generate(
        prompt, max_new_tokens=8, ignore_eos=True)
    assert made.tokens == dense.tokens and made.sparse.dense_heads == 1


def test_sparse_methods_and_heads_that_are_none_are_refused(tmp_path):
    save_model(tmp_path)
    with pytest.raises(slimpack.InvalidInput, match="'exact' is no method of sparse attention; give sample-"):
        Generator(tmp_path, sparse="exact")
    with pytest.raises(slimpack.InvalidInput, match="measured head 6 is not among the model's 6"):
        Generator(tmp_path, sparse="x-attention", measured_heads=[6])


@pytest.mark.parametrize("name", [
    "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight",
    "model.layers.0.input_layernorm.weight", "model.layers.2.mlp.down_proj.weight"])
def test_weights_that_are_not_finite_are_refused_by_file_and_tensor(tmp_path, name):
    save_model(tmp_path)
    file = tmp_path / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    tensors[name].view(-1)[-1] = float("inf")
    safetensors.torch.save_file(tensors, file)
    with pytest.raises(slimpack.InvalidInput, match=f"model.safetensors': tensor {name} holds infinite"):
        Generator(tmp_path, dtype="fp32")
