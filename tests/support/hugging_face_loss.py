"""The loss that Hugging Face's models find, to compare with what runs print."""

import torch

torch.set_num_threads(1)  # tiny tensors; threads would only wait for each other


def hugging_face_loss(model, documents):
    """Mean next-token loss over the targets of all documents, each run by itself."""
    total = 0.0
    with torch.no_grad():
        for tokens in documents:
            ids = torch.tensor([tokens])
            logits = model(input_ids=ids).logits.double()
            total += torch.nn.functional.cross_entropy(
                logits[0, :-1], ids[0, 1:], reduction="sum").item()
    return total / sum(len(d) - 1 for d in documents)
