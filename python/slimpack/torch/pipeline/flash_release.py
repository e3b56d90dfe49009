"""The release of FlashAttention that torch's own operators run on a GPU.

torch ships release 2. Where the package of a newer one is installed, torch can put it in its place:
torch.nn.attention.activate_flash_attention_impl, from torch 2.11 on. Both newer ones are for Hopper
GPUs, release 4 for Blackwell ones, too.
"""

import importlib.util

import torch

# Newest first: torch's name, the module that torch imports, and the GPUs it is for.
_NEWER = [("FA4", "flash_attn.cute.interface", (9, 10)), ("FA3", "flash_attn_interface", (9,))]


def activate_newest():
    """Lets torch take the newest release that is installed for this process's GPU, unless one was
    chosen before. A line that says which, and why no newer one; None where torch's own release
    runs and no other is installed."""
    attention = torch.nn.attention
    activate = getattr(attention, "activate_flash_attention_impl", None)
    if activate is None:
        return None
    if chosen := attention.current_flash_attention_impl():
        return f"attention: {_called(chosen)}, as the program chose"
    refused = ""
    major, _ = torch.cuda.get_device_capability()
    for name, module, majors in _NEWER:
        if not _is_installed(module):
            continue
        if major not in majors:
            refused += f", not {_called(name)}: it is not for GPUs of compute capability {major}"
            continue
        try:
            activate(name)
        except Exception as error:  # whatever a package raises that does not fit this torch
            cause = str(error).strip() or type(error).__name__
            refused += f", not {_called(name)}: {cause.splitlines()[0]}"
            continue
        return f"attention: {_called(name)}{refused}"
    return f"attention: FlashAttention-2{refused}" if refused else None


def _called(name):
    """torch's name of a release as people call it."""
    return name.replace("FA", "FlashAttention-")


def _is_installed(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # a package above it is missing
        return False
