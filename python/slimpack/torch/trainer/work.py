"""How long documents take, by the shape of a model."""

import numpy as np


def costs_of_model(model, lengths):
    """By document a number in proportion to the FLOPs of a pass: those of its tokens, by the model's
    parameters, and those of its pairs of tokens."""
    text = model.config.get_text_config()
    head = model.get_output_embeddings()
    parameters = model.num_parameters(exclude_embeddings=True) + (head.weight.numel() if head is not None else 0)
    tokens_of_a_pair = parameters / (2 * text.num_hidden_layers * text.hidden_size)
    return np.ascontiguousarray(tokens_of_a_pair * lengths + lengths.astype(np.float64) ** 2)
