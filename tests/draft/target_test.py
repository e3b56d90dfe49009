"""Features of a target, against hooks on its layers, and the answers that it writes."""

import json

import pytest
import torch
from draft_models import VOCABULARY, save_target, small_config, write_answer_lines, write_dataset
from slimpack import InvalidInput
from slimpack.draft.answers import TransformersGenerator, answered, write_answers
from slimpack.draft.engine_answers import EngineGenerator
from slimpack.draft.target import TransformersTarget, load_target
from transformers import AutoModelForCausalLM, GraniteConfig, GraniteForCausalLM


def test_features_are_what_enters_the_layers_and_the_lm_head(target_folder):
    target = TransformersTarget(target_folder)
    assert (target.layers, target.hidden_size, target.vocabulary) == (4, 32, VOCABULARY)
    tokens = [3, 1, 4, 1, 5, 9, 2, 6]
    seen = {}
    model = AutoModelForCausalLM.from_pretrained(target_folder)
    for number, layer in enumerate(model.model.layers):
        layer.register_forward_pre_hook(
            lambda _, args, kwargs, n=number: seen.update({n: (*args, *kwargs.values())[0][0]}),
            with_kwargs=True)
    model.lm_head.register_forward_pre_hook(lambda _, args: seen.update(head=args[0][0]))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens])).logits[0]
    found = target.features(tokens, (1, 2, 3))
    torch.testing.assert_close(found.hidden_T3E, torch.cat([seen[1], seen[2], seen[3]], -1))
    torch.testing.assert_close(found.final_TE, seen["head"])
    assert found.best_T.tolist() == logits.argmax(-1).tolist()
    assert not found.hidden_T3E.requires_grad and not target.head_VE.requires_grad


def test_the_weights_of_a_target_begin_where_torch_begins_its_own(target_folder):
    target = TransformersTarget(target_folder)
    assert all(parameter.data_ptr() % 64 == 0 for parameter in target.model.parameters())


def test_a_target_that_scales_its_logits_is_refused(tmp_path):
    config = GraniteConfig(**{**small_config().to_dict(), "model_type": "granite",
                              "architectures": None, "logits_scaling": 8.0})
    save_target(tmp_path, GraniteForCausalLM, config)
    with pytest.raises(InvalidInput, match="scales or shifts its logits"):
        TransformersTarget(tmp_path)


@pytest.mark.parametrize("folder, dtype, device, words", [
    ("missing", "fp32", "cpu", ["cannot load the target", "missing"]),
    (None, "fp32", "nonsense", ["--device is 'nonsense'", "cpu or cuda"]),
])
def test_targets_that_cannot_be_loaded(target_folder, tmp_path, folder, dtype, device, words):
    with pytest.raises(InvalidInput) as error:
        load_target(tmp_path / folder if folder else target_folder, dtype, device)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def greedy(model, prompt, count, end):
    """One token at a time, without a cache."""
    tokens = list(prompt)
    while len(tokens) < len(prompt) + count:
        with torch.no_grad():
            tokens.append(int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()))
        if tokens[-1] == end:
            break
    return tokens[len(prompt):]


def test_answers_are_greedy_and_end_at_their_end(target_folder, prompts):
    target = TransformersTarget(target_folder)
    model = AutoModelForCausalLM.from_pretrained(target_folder)
    plain = [greedy(model, prompt, 12, None) for prompt in prompts[:6]]
    end = plain[0][5]
    wanted = [greedy(model, prompt, 12, end) for prompt in prompts[:6]]
    assert len({len(answer) for answer in wanted}) > 1
    assert TransformersGenerator(target, 12, end=end)(prompts[:6]) == wanted
    assert EngineGenerator(target_folder, 12, end=[end])(prompts[:6]) == wanted


@pytest.mark.parametrize("engine", ["transformers", "slimpack"])
def test_warm_answers_are_the_same_for_the_same_prompts(target_folder, prompts, engine):
    generate = (EngineGenerator(target_folder, 12, temperature=1.0) if engine == "slimpack" else
                TransformersGenerator(TransformersTarget(target_folder), 12, temperature=1.0))
    first = generate(prompts[:4])
    assert generate(prompts[4:8]) != first and generate(prompts[:4]) == first


class Counting:
    """A target whose answer to a prompt is its sum, three times. Fails at a call of number `last`."""

    prompts_at_once = 5

    def __init__(self, last=None):
        self.asked, self.calls, self.last = [], 0, last

    def __call__(self, prompts):
        if self.calls == self.last:
            raise KeyboardInterrupt
        self.calls += 1
        self.asked += prompts
        return [[sum(prompt)] * 3 for prompt in prompts]


def test_a_start_goes_on_behind_the_last_whole_answer(tmp_path, prompts):
    whole = tmp_path / "whole.jsonl"
    told = []
    assert write_answers(whole, prompts, Counting(), answered(whole, prompts),
                         lambda *args: told.append(args)) == 3 * 24
    lines = [json.loads(line) for line in whole.read_text().splitlines()]
    assert lines == [{"prompt": prompt, "answer": [sum(prompt)] * 3} for prompt in prompts]
    assert told == [(5, 15), (10, 30), (15, 45), (20, 60), (24, 72)]

    parts = tmp_path / "parts.jsonl"
    with pytest.raises(KeyboardInterrupt):
        write_answers(parts, prompts, Counting(last=2))
    with parts.open("ab") as out:
        out.write(b'{"prompt": [1')  # as a kill leaves it
    rest = Counting()
    write_answers(parts, prompts, rest, answered(parts, prompts))
    assert rest.asked == prompts[10:] and parts.read_bytes() == whole.read_bytes()
    again = Counting()
    assert write_answers(parts, prompts, again, answered(parts, prompts)) == 0
    assert not again.asked and answered(parts, prompts) == 24
    assert answered(parts, prompts[:3], restart=True) == 0 and parts.read_bytes() == b""


def test_a_prompt_without_a_token_has_an_empty_answer_in_its_place(tmp_path):
    prompts, counting = [[1, 2], [], [3], [], [], [], []], Counting()
    assert write_answers(tmp_path / "a.jsonl", prompts, counting) == 6
    assert counting.asked == [[1, 2], [3]]
    lines = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert lines == [{"prompt": prompt, "answer": [sum(prompt)] * 3 if prompt else []} for prompt in prompts]
    assert answered(tmp_path / "a.jsonl", prompts) == 7


def test_answers_to_other_prompts_are_not_gone_on_with(tmp_path, prompts):
    file = write_answer_lines(tmp_path / "a.jsonl", [(prompts[0], [1]), ([7, 7], [1])])
    before = file.read_bytes()
    with pytest.raises(InvalidInput, match="line 2 answers another prompt .* --restart"):
        answered(file, prompts)
    assert file.read_bytes() == before
