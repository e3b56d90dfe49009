"""Results do not depend on where a file's tensors lie."""

import pytest
import torch
from families import config_of, model_of
from safetensors.torch import load_file, save_file
from slimpack.torch.alignment import align, aligned
from slimpack.torch.pipeline import Stage
from transformers import AutoModelForCausalLM


def at_byte(tensor, offset):
    """The tensor's values from byte `offset` of memory on that torch allocated."""
    size = tensor.element_size()
    memory = torch.empty(tensor.numel() + 64 // size, dtype=tensor.dtype)
    assert memory.data_ptr() % 64 == 0
    begin = offset // size
    return memory[begin:begin + tensor.numel()].view(tensor.shape).copy_(tensor)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 7, 50])
def test_a_product_has_the_same_bits_wherever_its_operands_were(dtype, rows):
    torch.manual_seed(rows)
    x_TI, weight_OI = (torch.randn(size, 96, dtype=torch.float64).to(dtype) for size in (rows, 40))
    expected = torch.nn.functional.linear(x_TI, weight_OI)
    for offset in range(0, 64, x_TI.element_size()):
        moved = aligned(at_byte(x_TI, offset)), aligned(at_byte(weight_OI, offset))
        assert torch.equal(torch.nn.functional.linear(*moved), expected), offset


def test_what_lies_well_is_not_copied():
    tensor = torch.randn(5, 7)
    assert aligned(tensor) is tensor
    moved = at_byte(tensor.t(), 4).t()
    assert aligned(moved).stride() == moved.stride() and torch.equal(aligned(moved), tensor)


def test_a_model_keeps_its_parameters_and_what_is_tied():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model.register_buffer("known", torch.arange(3.0))
    before, values = list(model.parameters()), [p.clone() for p in model.parameters()]
    for tensor in (*before, model.known):
        tensor.data = at_byte(tensor.data, 8)
    align(model)
    assert all(a is b for a, b in zip(model.parameters(), before, strict=True))
    assert model[1].weight is model[0].weight
    for tensor, value in zip((*before, model.known), (*values, torch.arange(3.0)), strict=True):
        assert tensor.data_ptr() % 64 == 0 and torch.equal(tensor, value)


@pytest.fixture(name="shifted", params=[0, 8, 24, 56])
def fixture_shifted(request, tmp_path):
    """(a model, its folder). Its weights lie so many bytes later in their file."""
    model = model_of(config_of("llama"), 1, torch.float32)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    save_file(load_file(file), file, {"format": "pt", "shift": "x" * request.param})
    return model, tmp_path


def test_weights_of_stages_and_models_begin_as_new_ones_do(shifted):
    model, folder = shifted
    stage = Stage.from_pretrained(folder, [0, 4], 0, dtype=torch.float32)
    loaded = Stage.from_model(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
                              [0, 4], 0)
    for name, parameter in model.named_parameters():
        for other in (stage.model, loaded.model):
            assert other.get_parameter(name).data_ptr() % 64 == 0, name
            assert torch.equal(other.get_parameter(name), parameter), name
