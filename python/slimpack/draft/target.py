"""A draft head's view of its target: hidden states of three layers, and the distribution of the next
token."""

from typing import NamedTuple, Protocol

import torch

from slimpack import InvalidInput
from slimpack.torch.alignment import align

_ROWS = 1024  # of logits over the whole vocabulary at once


class Features(NamedTuple):
    """Features of one sequence of T tokens. hidden_T3E: the inputs of three layers, side by side.
    final_TE: the inputs of the target's lm_head. best_T: the most likely next token."""

    hidden_T3E: torch.Tensor
    final_TE: torch.Tensor
    best_T: torch.Tensor


class Target(Protocol):
    """A model that a head is trained for. embedding_VE: of its tokens; head_VE: the lm_head's weight."""

    hidden_size: int
    vocabulary: int
    layers: int
    embedding_VE: torch.Tensor
    head_VE: torch.Tensor

    def features(self, tokens, target_layers) -> Features:
        """The Features of one sequence. target_layers: three layers, counted from 0, whose inputs are
        wanted."""


class TransformersTarget:
    """Any causal language model that transformers knows, frozen. Its logits have to be its lm_head's
    products with its last hidden states, nothing else; other models are refused."""

    def __init__(self, folder, dtype=torch.float32, device="cpu"):
        from transformers import AutoModelForCausalLM

        try:
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InvalidInput(f"cannot load the target '{folder}': {reason}") from None
        self.folder = str(folder)
        self.model = model.to(device).eval().requires_grad_(False)
        align(self.model)
        self.config = model.config.get_text_config()
        head = model.get_output_embeddings()
        self.embedding_VE, self.head_VE = model.get_input_embeddings().weight, head.weight
        self.vocabulary, self.hidden_size = self.head_VE.shape
        self.layers = self.config.num_hidden_layers
        self._require_plain_logits(head)

    def features(self, tokens, target_layers):
        states, final_TE = self._states(tokens)
        hidden_T3E = torch.cat([states[layer] for layer in target_layers], -1)
        best = [(rows @ self.head_VE.T).argmax(-1) for rows in final_TE.split(_ROWS)]
        return Features(hidden_T3E, final_TE, torch.cat(best))

    @torch.no_grad()
    def _states(self, tokens):
        """(the input of every layer, the last hidden states)."""
        ids = torch.as_tensor(tokens, dtype=torch.int64, device=self.head_VE.device)[None]
        out = self.model.get_decoder()(input_ids=ids, use_cache=False, output_hidden_states=True)
        return [state[0] for state in out.hidden_states[:-1]], out.last_hidden_state[0]

    @torch.no_grad()
    def _require_plain_logits(self, head):
        tokens = torch.arange(2, device=self.head_VE.device) % self.vocabulary
        theirs = self.model(input_ids=tokens[None], use_cache=False).logits[0].float()
        ours = (self._states(tokens)[1] @ self.head_VE.T).float()
        if head.bias is not None or not torch.allclose(theirs, ours, rtol=1e-2, atol=1e-2):
            raise InvalidInput(f"'{self.folder}' scales or shifts its logits, which draft heads cannot "
                               "learn from yet; give a model whose logits are lm_head(hidden states)")


def load_target(folder, dtype, device):
    """The TransformersTarget in a folder, as the command line names dtype ("fp32", "bf16") and device."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInput(f"--device is '{device}', and torch has none such ({reason}); give cpu or "
                           "cuda") from None
    return TransformersTarget(folder, torch.bfloat16 if dtype == "bf16" else torch.float32, device)


def load_tokenizer(folder):
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InvalidInput(f"cannot load the tokenizer of '{folder}': {reason}") from None
