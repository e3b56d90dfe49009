"""Small configurations keep every kind of layer and every feature, which short documents reach."""

from slimpack.torch.pipeline.small_config import MIN_LAYERS, NARROW, OWN_HEADS, WINDOW, small_config
from transformers import AutoConfig


def small(family, widths=NARROW, **settings):
    return small_config(AutoConfig.for_model(family, **settings), widths)


def test_one_layer_of_every_kind_is_kept():
    # Every sixth layer of 48 attends to all tokens: the first such layer is the sixth.
    config = small("gemma3_text", num_hidden_layers=48)
    assert config.layer_types == ["sliding_attention"] * 3 + ["full_attention"]
    assert config.num_hidden_layers == MIN_LAYERS


def test_layers_that_are_named_by_number_keep_their_kind():
    # Layers 7 and 9 are dense and the others have experts: the first four show no dense one.
    config = small("qwen3_moe", mlp_only_layers=[7, 9], num_hidden_layers=12)
    assert config.num_hidden_layers == MIN_LAYERS
    assert config.mlp_only_layers == [3]  # the fourth of the kept layers 0, 1, 2 and 7


def test_first_layers_of_another_kind_are_kept_with_one_behind_them():
    config = small("deepseek_v3", num_hidden_layers=61, first_k_dense_replace=5)
    assert config.num_hidden_layers == MIN_LAYERS
    assert config.first_k_dense_replace == 3  # of the kept layers 0, 1, 2 and 5


def test_short_documents_go_past_windows_chunks_and_ropes():
    assert small("mistral", sliding_window=4096).sliding_window == WINDOW
    llama4 = small("llama4_text")
    assert llama4.attention_chunk_size == WINDOW
    assert llama4.floor_scale < 40  # tokens of the longest document that check tries
    rope = dict(rope_type="longrope", rope_theta=1e4, original_max_position_embeddings=4096,
                short_factor=[1.0] * 48, long_factor=[2.0] * 48)
    phi3 = small("phi3", rope_parameters=rope, original_max_position_embeddings=4096)
    assert phi3.rope_parameters["original_max_position_embeddings"] == 16
    assert len(phi3.rope_parameters["long_factor"]) == 4  # half of a head of 8


def test_heads_stay_in_groups():
    for widths, head in ((NARROW, 8), (OWN_HEADS, 128)):
        config = small("llama", widths, hidden_size=4096, num_attention_heads=32,
                       num_key_value_heads=8)
        assert (config.num_attention_heads, config.num_key_value_heads) == (4, 2)
        assert config.hidden_size == 4 * head
    single = small("llama", num_attention_heads=32, num_key_value_heads=1)
    assert single.num_key_value_heads == 1


def test_a_configuration_is_left_as_it_was():
    config = AutoConfig.for_model("gemma3_text")
    before = config.to_dict()
    small_config(config, NARROW)
    assert config.to_dict() == before
