"""Documents of a micro-batch as one row without padding."""

import torch

IGNORED = -100  # label of a token that no loss is computed for


class PackedCollator:
    """What transformers' DataCollatorWithFlattening(return_flash_attn_kwargs=True) gives, from lists,
    arrays or tensors: input_ids, labels and position_ids of shape [1, tokens], and cu_seq_lens_q,
    cu_seq_lens_k, max_length_q and max_length_k for variable-length attention.

    The first label of a document is -100, so no target crosses documents when the model shifts them.
    """

    def __init__(self, *, position_ids=True, sequence_lengths=True):
        self.position_ids = position_ids
        self.sequence_lengths = sequence_lengths

    def __call__(self, documents):
        ids = [torch.as_tensor(document["input_ids"], dtype=torch.int64) for document in documents]
        labels = [torch.as_tensor(document.get("labels", tokens), dtype=torch.int64).clone()
                  for document, tokens in zip(documents, ids, strict=True)]
        for of_document in labels:
            of_document[:1] = IGNORED
        batch = {"input_ids": torch.cat(ids)[None], "labels": torch.cat(labels)[None]}
        lengths = [len(tokens) for tokens in ids]
        if self.position_ids:
            batch["position_ids"] = torch.cat([torch.arange(length) for length in lengths])[None]
        if self.sequence_lengths:
            cumulative = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
            batch["cu_seq_lens_q"] = batch["cu_seq_lens_k"] = cumulative
            batch["max_length_q"] = batch["max_length_k"] = max(lengths)
        return batch
