"""Gradients of sliced, pipelined steps equal those of Hugging Face with autograd, where each document
runs by itself; so do the loss that forward passes alone find, and the weights after three optimizer
steps."""

import random

import pytest
import torch
from driver import run_driver
from hugging_face import gradients, loss_and_backward, make_model, public, use_fp64_casts
from rope_scalings import ROPE_SCALINGS


def random_case(seed):
    """A model shape, lengths from one token up, and a way to cut and pipeline them."""
    r = random.Random(seed)
    kv_heads = r.choice([1, 2])
    sizes = dict(
        hidden_size=r.choice([32, 48]),
        intermediate_size=r.choice([40, 64]),
        num_hidden_layers=4,
        num_attention_heads=kv_heads * r.choice([1, 2, 3]),
        num_key_value_heads=kv_heads,
        head_dim=r.choice([8, 16]),
        vocab_size=r.choice([61, 257]),
        max_position_embeddings=1024,
        tie_word_embeddings=r.random() < 0.5,
    )
    family = r.choice(["llama", "qwen2", "qwen3", "mistral"])
    if family in ("qwen2", "llama"):  # no free head_dim there
        sizes["hidden_size"] = sizes["num_attention_heads"] * sizes["head_dim"]
    if family == "llama":
        sizes["attention_bias"] = r.random() < 0.5
        sizes["mlp_bias"] = r.random() < 0.5
    if family == "mistral":
        sizes["sliding_window"] = None
    lengths = [r.choice([1, 2, 3, r.randint(4, 60), r.randint(61, 400)]) for _ in range(r.randint(1, 9))]
    if max(lengths) < 2:
        lengths.append(5)
    plan = dict(
        planner="slimpack",
        recompute=[],
        pp=r.choice([1, 2, 4]),
        packs=r.choice([1, 2, 3, 7, 16, 40]),
        granularity=r.choice([1, 8, 17, 64, 128]),
        asymmetric=r.random() < 0.75,
        short_first=r.choice([0, 0, 1, 3]),
        taper_packs=r.choice([0, 0, 2]),
        capacity=1024,
    )
    sequences = [[r.randrange(sizes["vocab_size"]) for _ in range(n)] for n in lengths]
    return family, sizes, sequences, plan


def relative_error(ours, reference, floor=0.0):
    """Largest difference over the largest magnitude of the reference tensor, at least `floor`."""
    scale = max(reference.abs().max().item(), floor)
    return (ours.double() - reference.double()).abs().max().item() / (scale or 1.0)


def gradient_floor(gradients):
    """Some gradients are zero but for rounding: of queries, where every document has one token or
    attends to one. A tensor's error is held against at least a millionth of the model's largest."""
    return 1e-6 * max(g.abs().max().item() for g in gradients)


def assert_same_gradients(out, model, loss, bound):
    assert out["loss"].item() == pytest.approx(loss, rel=bound)
    assert out["evaluated_loss"].item() == pytest.approx(loss, rel=bound)
    reference = gradients(model)
    assert {k.removeprefix("gradient/") for k in out if k.startswith("gradient/")} == reference.keys()
    floor = gradient_floor(reference.values())
    worst = {n: relative_error(out["gradient/" + n], g, floor) for n, g in reference.items()}
    name = max(worst, key=worst.get)
    assert worst[name] <= bound, f"{name}: {worst[name]:.2e}"
    return worst[name]


def assert_fp64_gradients_equal_autograd(case, seed, tmp_path):
    family, sizes, sequences, plan = case
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, plan, "fp64")
    assert_same_gradients(out, model, loss, 1e-9)
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    assert out["gradient_norm"].item() == pytest.approx(norm, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_fp64_gradients_equal_autograd_on_each_document(seed, tmp_path):
    assert_fp64_gradients_equal_autograd(random_case(seed), seed, tmp_path)


@pytest.mark.parametrize("name", ROPE_SCALINGS)
@pytest.mark.parametrize("seed", range(80, 84))
def test_fp64_gradients_equal_autograd_with_scaled_rope(seed, name, tmp_path):
    family, sizes, sequences, plan = random_case(seed)
    sizes["rope_parameters"] = ROPE_SCALINGS[name]
    assert_fp64_gradients_equal_autograd((family, sizes, sequences, plan), seed, tmp_path)


RECOMPUTE = ["nothing", "elementwise", "attention", "mlp", "full"]


@pytest.mark.parametrize("recompute", RECOMPUTE)
@pytest.mark.parametrize("seed", range(500, 506))
def test_fp64_gradients_equal_autograd_whatever_is_computed_again(seed, recompute, tmp_path):
    family, sizes, sequences, plan = random_case(seed)
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, dict(plan, recompute=[recompute] * 4), "fp64")
    assert_same_gradients(out, model, loss, 1e-9)


@pytest.mark.parametrize("seed", range(600, 620))
def test_fp64_gradients_equal_autograd_where_layers_differ_in_what_they_compute_again(seed, tmp_path):
    family, sizes, sequences, plan = random_case(seed)
    r = random.Random(seed + 1)
    plan["recompute"] = [r.choice(RECOMPUTE) for _ in range(sizes["num_hidden_layers"])]
    plan["planner"] = r.choice(["slimpack", "slimpack", "packed"])
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, plan, "fp64")
    assert_same_gradients(out, model, loss, 1e-9)


@pytest.mark.parametrize("seed", range(700, 724))
def test_fp64_gradients_equal_autograd_where_backwards_are_split(seed, tmp_path):
    family, sizes, sequences, plan = random_case(seed)
    r = random.Random(seed + 1)
    plan["split_from"] = r.choice([0, 0, 1, 4])
    plan["planner"] = r.choice(["slimpack", "slimpack", "packed"])
    if r.random() < 0.5:
        plan["recompute"] = [r.choice(RECOMPUTE) for _ in range(sizes["num_hidden_layers"])]
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, plan, "fp64")
    assert_same_gradients(out, model, loss, 1e-9)


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16"])
@pytest.mark.parametrize("seed", range(800, 804))
def test_split_backwards_give_the_bits_of_whole_ones(seed, dtype, tmp_path):
    # Weight gradients run in the order of the backward MicroPacks, as they do in whole backwards.
    family, sizes, sequences, plan = random_case(seed)
    model = make_model(family, seed, torch.float32, **sizes)
    whole = run_driver(tmp_path / "whole", model, sequences, plan, dtype)
    split = run_driver(tmp_path / "split", model, sequences, dict(plan, split_from=0), dtype)
    assert whole.keys() == split.keys()
    for name, tensor in whole.items():
        assert torch.equal(split[name], tensor), name


GRIDS = [(pp, dp, tp) for pp in (1, 2, 4) for dp in (1, 2, 3, 4, 8) for tp in (1, 2, 4)
         if pp * dp * tp <= 8]


def random_grid(seed, grids=GRIDS):
    """A case on one of the grids (pp, dp, tp), with random packs, merged sequences, split backwards
    and memory policies."""
    r = random.Random(seed)
    family, sizes, sequences, plan = random_case(seed)
    # Heads that tensor parallelism can divide: 4 query heads over 1 or 2 key/value heads.
    sizes.update(num_attention_heads=4, num_key_value_heads=r.choice([1, 2]))
    if family in ("qwen2", "llama"):
        sizes["hidden_size"] = 4 * sizes["head_dim"]
    pp, dp, tp = r.choice(grids)
    sequences = [s[:80] for s in sequences]
    plan.update(random=seed, pp=pp, dp=dp, tp=tp)
    if r.random() < 0.5:
        plan["split_from"] = 0
    if r.random() < 0.5:
        plan["recompute"] = [r.choice(RECOMPUTE) for _ in range(4)]
    return family, sizes, sequences, plan


@pytest.mark.parametrize("seed", range(500, 560))
def test_fp64_gradients_on_any_grid_equal_autograd_on_each_document(seed, tmp_path):
    assert_fp64_gradients_equal_autograd(random_grid(seed), seed, tmp_path)


def zoned_grid(seed):
    grid = random_grid(seed, [g for g in GRIDS if g[1] > 1])
    with_zones(grid[-1], seed)
    return grid


@pytest.mark.parametrize("seed", range(1300, 1372))
def test_fp64_gradients_of_zones_equal_autograd(seed, tmp_path):
    assert_fp64_gradients_equal_autograd(zoned_grid(seed), seed, tmp_path)


def with_zones(plan, seed):
    """Zones, of which every second plan moves rows, and one of the ways in which members exchange them."""
    plan.update(zoned=True, remapped=seed % 2 == 1,
                cp_comm_type=["direct", "p2p", "all_gather"][seed // 2 % 3])


def with_stages_per_rank(case, count):
    """The case with so many stages on each of its pipeline ranks, which are at least two."""
    family, sizes, sequences, plan = case
    sizes["num_hidden_layers"] = plan["pp"] * count + plan["random"] % 2
    if plan["recompute"]:
        r = random.Random(plan["random"])
        plan["recompute"] = [r.choice(RECOMPUTE) for _ in range(sizes["num_hidden_layers"])]
    return family, sizes, sequences, dict(plan, stages_per_rank=count)


@pytest.mark.parametrize("stages_per_rank", [2, 3])
@pytest.mark.parametrize("seed", range(1000, 1024))
def test_fp64_gradients_of_several_stages_a_rank_equal_autograd(seed, stages_per_rank, tmp_path):
    grid = random_grid(seed, [g for g in GRIDS if g[0] > 1])
    assert_fp64_gradients_equal_autograd(with_stages_per_rank(grid, stages_per_rank), seed, tmp_path)


@pytest.mark.parametrize("seed", range(1050, 1066))
def test_fp64_gradients_of_stages_that_turn_back_equal_autograd(seed, tmp_path):
    family, sizes, sequences, plan = with_stages_per_rank(
        random_grid(seed, [g for g in GRIDS if g[0] > 1]), 2)
    plan["turns_back"] = True
    assert_fp64_gradients_equal_autograd((family, sizes, sequences, plan), seed, tmp_path)


@pytest.mark.parametrize("stages_per_rank", [1, 2, 3])
@pytest.mark.parametrize("seed", range(1100, 1116))
def test_fp64_gradients_of_a_spread_vocabulary_equal_autograd(seed, stages_per_rank, tmp_path):
    grid = random_grid(seed, [g for g in GRIDS if g[0] > 1])
    family, sizes, sequences, plan = with_stages_per_rank(grid, stages_per_rank)
    plan["spread_vocabulary"] = True
    assert_fp64_gradients_equal_autograd((family, sizes, sequences, plan), seed, tmp_path)


def staged_grid(seed):
    """Two stages on each rank, every second time with the vocabulary spread over all ranks."""
    case = with_stages_per_rank(random_grid(seed, [g for g in GRIDS if g[0] > 1]), 2)
    case[-1]["spread_vocabulary"] = seed % 2 == 1
    return case


def with_windows(case, seed):
    """The case with a window: of one key, shorter and longer than slices, longer than all documents;
    Mistral has it in all layers, Qwen in some."""
    family, sizes, sequences, plan = case
    r = random.Random(seed)
    if family == "llama":  # has none
        family = "mistral"
        del sizes["attention_bias"], sizes["mlp_bias"]
    sizes["sliding_window"] = r.choice([1, 2, r.randint(3, 16), r.randint(17, 100), r.randint(101, 250), 500])
    if family == "mistral":
        return family, sizes, sequences, plan
    layers = sizes["num_hidden_layers"]
    sizes["use_sliding_window"] = True
    sizes["max_window_layers"] = r.randrange(layers)
    if r.random() < 0.5:
        sizes["layer_types"] = [r.choice(["full_attention", "sliding_attention"]) for _ in range(layers)]
        sizes["layer_types"][r.randrange(layers)] = "sliding_attention"
    return family, sizes, sequences, plan


WINDOWED = dict(cuts=random_case, grid=random_grid, zones=zoned_grid, stages=staged_grid)


@pytest.mark.parametrize("way", WINDOWED)
@pytest.mark.parametrize("seed", range(1400, 1440))
def test_fp64_gradients_within_windows_equal_autograd(seed, way, tmp_path):
    assert_fp64_gradients_equal_autograd(with_windows(WINDOWED[way](seed), seed), seed, tmp_path)


UNCUT = (1201, 1206)  # seeds of one replica whose documents stay whole: nothing to exchange


@pytest.mark.parametrize("spread", [False, True])
@pytest.mark.parametrize("stages_per_rank", [1, 2, 3])
@pytest.mark.parametrize("seed", [s for s in range(1200, 1212) if s not in UNCUT])
def test_fp64_gradients_of_ranks_that_exchange_attention_equal_autograd(seed, stages_per_rank, spread,
                                                                        tmp_path):
    grid = random_grid(seed, [g for g in GRIDS if g[0] > 1])
    family, sizes, sequences, plan = with_stages_per_rank(grid, stages_per_rank)
    # With several long documents some slice surely runs beside one with another prefix.
    r = random.Random(seed)
    sequences += [[r.randrange(sizes["vocab_size"]) for _ in range(n)] for n in (120, 90, 150, 70)]
    plan.update(spread_vocabulary=spread, exchange_context=True)
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, plan, "fp64")
    # All documents of several replicas may be merged, and merged ones are not exchanged.
    assert out["exchanges"].item() > 0 or plan["dp"] > 1
    assert_same_gradients(out, model, loss, 1e-9)


@pytest.mark.parametrize("seed", range(600, 606))
def test_weights_after_three_sharded_adamw_steps_equal_one_rank_in_fp64(seed, tmp_path):
    family, sizes, sequences, plan = random_grid(seed)
    model = make_model(family, seed, torch.float64, **sizes)
    grid = run_driver(tmp_path / "grid", model, sequences, plan, "fp64", steps=3)
    alone = run_driver(tmp_path / "alone", model, sequences, dict(plan, pp=1, dp=1, tp=1), "fp64", steps=3)
    for name in alone:
        if name.startswith("parameter/"):
            assert relative_error(grid[name], alone[name]) <= 1e-9, name


@pytest.mark.parametrize("seed", range(100, 108))
def test_packed_and_slimpack_agree_with_each_other_in_fp64(seed, tmp_path):
    family, sizes, sequences, plan = random_case(seed)
    model = make_model(family, seed, torch.float64, **sizes)
    sliced = run_driver(tmp_path / "sliced", model, sequences, plan, "fp64")
    packed = run_driver(tmp_path / "packed", model, sequences, dict(plan, planner="packed"), "fp64")
    assert sliced.keys() == packed.keys()
    floor = gradient_floor(packed.values())
    for name, tensor in packed.items():
        assert relative_error(sliced[name], tensor, floor) <= 1e-9, name


def assert_fp32_gradients_equal_the_unpatched_model(case, seed, tmp_path):
    family, sizes, sequences, plan = case
    model = make_model(family, seed, torch.float32, **sizes)
    loss = loss_and_backward(model, sequences)
    out = run_driver(tmp_path, model, sequences, plan, "fp32")
    assert_same_gradients(out, model, loss, 1e-4)


@pytest.mark.parametrize("seed", range(200, 208))
def test_fp32_gradients_equal_the_unpatched_model(seed, tmp_path):
    assert_fp32_gradients_equal_the_unpatched_model(random_case(seed), seed, tmp_path)


def assert_bf16_gradients_point_the_same_way(case, seed, tmp_path):
    """bf16 rounds differently in every order of sums (8 bits: 0.4% a rounding): compare the whole
    gradient as one vector with the fp32 model's, as far as Hugging Face's own bf16 run is from it."""
    family, sizes, sequences, plan = case
    exact = make_model(family, seed, torch.float32, **sizes)
    rounded = make_model(family, seed, torch.float32, **sizes).to(torch.bfloat16)
    exact.load_state_dict({k: v.float() for k, v in rounded.state_dict().items()})
    loss_and_backward(exact, sequences)
    loss_and_backward(rounded, sequences)
    out = run_driver(tmp_path, exact, sequences, plan, "bf16")
    grads = gradients(exact)
    flat = lambda grads_of: torch.cat([grads_of[n].float().flatten() for n in grads])
    reference = flat(grads)
    distance = lambda g: ((flat(g) - reference).norm() / reference.norm()).item()
    theirs = distance(gradients(rounded))
    ours = distance({n: out["gradient/" + n] for n in grads})
    assert ours <= 1.5 * theirs + 1e-3, (ours, theirs)


@pytest.mark.parametrize("seed", range(300, 304))
def test_bf16_gradients_point_the_same_way(seed, tmp_path):
    assert_bf16_gradients_point_the_same_way(random_case(seed), seed, tmp_path)


def assert_weights_after_three_adamw_steps_equal_torch(case, seed, tmp_path):
    """Adam divides by |g| + eps, so a rounding difference in g grows by up to lr / (4 eps) a step:
    with lr = 1e-3 and eps = 1e-4 that is 2.5; with eps = 1e-8 it would drown the comparison."""
    family, sizes, sequences, plan = case
    model = use_fp64_casts(make_model(family, seed, torch.float64, **sizes))
    out = run_driver(tmp_path, model, sequences, plan, "fp64", steps=3)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [dict(params=matrices, weight_decay=0.1), dict(params=vectors, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-4)
    for _ in range(3):
        optimizer.zero_grad()
        loss_and_backward(model, sequences)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    for name, weight in public(model, {n: p.data for n, p in model.named_parameters()}).items():
        assert relative_error(out["parameter/" + name], weight) <= 1e-9, name


@pytest.mark.parametrize("seed", range(400, 406))
def test_weights_after_three_adamw_steps_equal_torch_in_fp64(seed, tmp_path):
    assert_weights_after_three_adamw_steps_equal_torch(random_case(seed), seed, tmp_path)
