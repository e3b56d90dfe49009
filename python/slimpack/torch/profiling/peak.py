"""The peaks of GPUs that MFU is counted against."""

import torch

# The products of dense bf16 matrices in FLOP/s, by the name that CUDA gives: data sheets, as hardware/*.toml.
_BF16 = {
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA A100-PCIE-40GB": 312e12,
    "NVIDIA A100 80GB PCIe": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H200": 989e12,
}


def peak_flops(name, dtype):
    """The peak of the device of this name in FLOP/s; 0 = not known."""
    return _BF16.get(name, 0) if dtype == torch.bfloat16 else 0
