"""Ropes whose frequencies depend on how long a document is ("longrope").

Their code looks at the largest position that it is given. Here it is given each slice by itself, with
its document's last position behind, whose row is dropped.
"""

import inspect

import torch

KIND = "longrope"


def hook_ropes(decoder, running):
    """Lets such ropes of a decoder see documents while `running` has work."""
    for module in decoder.modules():
        kinds = getattr(module, "rope_type", None)
        if KIND in (kinds.values() if isinstance(kinds, dict) else [kinds]):
            module.register_forward_hook(_hook(running), with_kwargs=True)


def _hook(running):
    def by_document(module, args, kwargs, _):
        arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
        device, found = arguments["position_ids"].device, []
        for sequence, begin, end in running.work.pack.slices:
            last = running.work.key_values.lengths[sequence] - 1
            positions_T = torch.tensor([*range(begin, end), last], device=device)
            output = module.forward(**{**arguments, "position_ids": positions_T[None]})
            found.append([rows_1TD[:, :-1] for rows_1TD in _each(output)])
        joined = tuple(torch.cat(rows, 1) for rows in zip(*found, strict=True))
        return joined if len(joined) > 1 else joined[0]

    return by_document


def _each(output):
    return [output] if isinstance(output, torch.Tensor) else output
