"""A Llama of Hugging Face's transformers as a GGUF file, for llama.cpp.

The file has no tokenizer: engines get token ids, so all of them read the same.
"""

import gguf
import torch

FORMATS = {"f32": (torch.float32, gguf.LlamaFileType.ALL_F32),
           "f16": (torch.float16, gguf.LlamaFileType.MOSTLY_F16),
           "bf16": (torch.bfloat16, gguf.LlamaFileType.MOSTLY_BF16)}


def rotated_in_pairs(weight, heads):
    """Rows of a q or k projection in GGUF's order. transformers rotates dimension i of a head with
    dimension i + d/2, GGUF's `llama` with its neighbour."""
    rows, columns = weight.shape
    return weight.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)


def permuted(name, weight, config):
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for projection, count in heads.items():
        if name.endswith(f"{projection}.weight"):
            return rotated_in_pairs(weight, count)
    return weight


def write_shape(writer, config):
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")


def write(model, file, form):
    """`model`: a LlamaForCausalLM on the CPU. `form`: "f32", "f16" or "bf16", of the matrices; norms
    are in fp32, as llama.cpp has them. `file` appears when it is complete."""
    dtype, file_type = FORMATS[form]
    config = model.config
    partial = file.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, "llama")
    write_shape(writer, config)
    writer.add_file_type(file_type)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        weight = permuted(name, weight, config)
        weight = weight.to(dtype if weight.dim() > 1 else torch.float32).contiguous()
        target = names.get_name(name, try_suffixes=(".weight",))
        if weight.dtype == torch.bfloat16:  # numpy has no such type: its bytes
            writer.add_tensor(target, weight.view(torch.uint8).numpy(),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(target, weight.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(file)
