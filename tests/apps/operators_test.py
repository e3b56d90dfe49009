"""The launches of a layer on a GPU stay within bounds: tests/operators counts them."""

import json
import subprocess
from pathlib import Path

import pytest
from processes import BUILD

SOURCE = Path(__file__).parents[2]

WHOLE = {"sliced": False, "recompute": "elementwise", "qk_norm": False}


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """The figures of cases on the pretended GPU."""
    file = tmp_path_factory.mktemp("operators") / "operators.json"
    subprocess.run([BUILD / "tests" / "operators" / "operators", "--json", file], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)
    cases = [case for case in json.loads(file.read_text())["cases"] if case["device"] != "cpu"]
    # Three policies, sliced or not, on 1, 2 and 4 tensor-parallel ranks, and with q/k norms on 1.
    assert len(cases) == 24
    return cases


# A quarter of Llama 1.2B: what a token moves is all but proportional to these widths.
HIDDEN, Q, KV, FFN, VOCABULARY = 512, 8 * 64, 2 * 64, 2048, 32064


@pytest.fixture(scope="module")
def token_bytes(tmp_path_factory):
    """Bytes of elementwise operators for a token in bf16."""
    folder = tmp_path_factory.mktemp("operators")
    model = json.loads((SOURCE / "bench" / "data" / "llama_1b.json").read_text())
    model |= {"hidden_size": HIDDEN, "num_attention_heads": 8, "num_key_value_heads": 2,
              "intermediate_size": FFN, "vocab_size": VOCABULARY}
    (folder / "model.json").write_text(json.dumps(model))
    subprocess.run([BUILD / "tests" / "operators" / "operators", "--bytes", "--model", folder / "model.json",
                    "--json", folder / "bytes.json"], check=True, timeout=300,
                   stdout=subprocess.DEVNULL)
    return json.loads((folder / "bytes.json").read_text())


def case_of(counted, tp):
    [case] = [c for c in counted if c["tp"] == tp and WHOLE.items() <= c.items()]
    return case


@pytest.mark.whole
def test_a_whole_document_in_bf16_takes_few_operators(counted):
    case = case_of(counted, 1)
    assert case["forward_per_layer"] <= 12
    assert case["backward_per_layer"] <= 24


@pytest.mark.whole
def test_norms_of_queries_and_keys_take_three_more(counted):
    """Backward makes q again, and adds up the sums of two weights. The rest is rope's."""
    [case] = [c for c in counted if {**WHOLE, "qk_norm": True}.items() <= c.items()]
    plain = case_of(counted, 1)
    assert case["forward_per_layer"] == plain["forward_per_layer"]
    assert case["backward_per_layer"] == plain["backward_per_layer"] + 3


@pytest.mark.whole
def test_a_further_document_takes_none(counted):
    assert all(case["per_extra_document"] == 0 for case in counted if not case["sliced"])


@pytest.mark.whole
def test_a_further_slice_with_a_prefix_joins_the_call_of_the_others(counted):
    """Copies of its keys into the store, and what it leaves of its sequence's dK and dV: no attention
    and no rope of its own. It is the last of its sequence, for which no other has left anything."""
    assert all(case["per_extra_document"] <= 8 for case in counted if case["sliced"])


@pytest.mark.whole
def test_the_host_waits_at_most_once_for_an_action(counted):
    for case in counted:
        assert case["host_syncs_per_action"] <= 1, case
        assert case["host_syncs_per_action_of_threads"] <= 1, case


@pytest.mark.whole
def test_tensor_parallel_rows_take_as_many_operators_for_any_number_of_ranks(counted):
    """A gather copies the own rows into one tensor and selects once, two and one more forward, for
    attention and MLP each. A scatter selects once and adds the others' sums, tp - 1 times."""
    two, four = case_of(counted, 2), case_of(counted, 4)
    for figure, scatters in (("forward_per_layer", 2), ("backward_per_layer", 2)):
        assert four[figure] - two[figure] == 2 * scatters, figure


def test_products_move_the_bytes_that_their_shapes_say(token_bytes):
    """Forward: the inputs and outputs of qkv, o, gate and up, down; o and down also read the
    residual. Backward: dy, w -> dx and x, dy -> dw of the same four, without what does not grow with
    tokens; under kFull qkv and gate and up run again."""
    qkv, o, gate_up, down = Q + 2 * KV + HIDDEN, Q + HIDDEN, HIDDEN + 2 * FFN, FFN + HIDDEN
    forward = 2 * (qkv + o + gate_up + down + 2 * HIDDEN)
    backward = 2 * 2 * (qkv + o + gate_up + down)
    passes = token_bytes["layer"]["elementwise"]
    assert passes["forward"]["products"] == forward
    assert passes["backward"]["products"] == backward


def test_a_block_of_the_heads_rows_moves_its_matrix_and_the_sums_of_its_gradient(token_bytes):
    """Matrix in bf16 forward and backward, sums in fp32 read and written: what cost_from_hardware
    counts of a block (OnAGpuFollowsTheKernelsOfTheBuild), whatever the number of rows."""
    assert token_bytes["head_bytes_per_block"] == (2 * 2 + 2 * 4) * VOCABULARY * HIDDEN


def test_fused_kernels_move_the_bytes_that_no_fusion_saves(token_bytes):
    """In bf16, forward + backward: SwiGLU reads or writes 3 + 6 arrays of FFN. A norm has 2 + 5 of
    HIDDEN, as its backward adds a residual and gives n ⊙ w; the last one has 2 + 3. Rope has 2 + 2 of
    q, k and v. Cross-entropy reads the logits twice and writes them once. The rest is small: angles
    and figures of a row. In Llama 1.2B they are 230 KB in a layer and 0.8 MB in the head."""
    layer = 2 * (9 * FFN + 2 * (2 + 5) * HIDDEN + 4 * (Q + 2 * KV))
    head = 2 * 3 * VOCABULARY + 2 * (2 + 3) * HIDDEN
    for policy in ("nothing", "elementwise"):
        assert layer <= token_bytes["layer_bytes_per_token"][policy] <= 1.006 * layer
    assert head <= token_bytes["head_bytes_per_token"] <= 1.006 * head
