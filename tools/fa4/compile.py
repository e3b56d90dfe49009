"""Compiles FlashAttention-4's Hopper kernels ahead of time, without a GPU: libslimpack_fa4.so.

For every shape (head size D, and how many query heads a key head serves), causal or not, there are
three C entries: `forward`, `backward` (preprocess, main kernel and three conversions: five launches
in one call) and `backward_fixed`, whose sums have a fixed order. All are of bf16, of several
sequences end to end; numbers of tokens, sequences and heads are arguments. The entries have
cutlass-dsl's plain C interface: no Python, no libtvm_ffi, the stream is an argument; library.cpp
passes them on, fa4_library.h is the interface for callers.

    python tools/fa4/compile.py FOLDER [--shapes 64:4 128:4]
"""

import argparse
import os
import re
import shutil
import subprocess
import time
from importlib import metadata
from pathlib import Path
from site import getsitepackages as site_packages

# Read when flash_attn and cutlass are imported: what to compile for where there is no GPU.
os.environ.setdefault("FLASH_ATTENTION_ARCH", "sm_90")
os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
os.environ.setdefault("FLASH_ATTENTION_NUM_SMS", "132")

import cuda.bindings.driver as cuda
import cutlass.cute as cute
import nvidia_cutlass_dsl
import triton
from cutlass import BFloat16, Float32, Int32, const_expr
from flash_attn.cute import interface
from flash_attn.cute.flash_bwd_postprocess import FlashAttentionBackwardPostprocess as Postprocess
from flash_attn.cute.flash_bwd_preprocess import FlashAttentionBackwardPreprocess as Preprocess
from flash_attn.cute.flash_bwd_sm90 import FlashAttentionBackwardSm90 as Backward
from flash_attn.cute.flash_fwd_sm90 import FlashAttentionForwardSm90 as Forward

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PACKAGES = ["flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels", "torch"]
ARCH = 90
# Head size : query heads for each key head, of the models in models/ that PackFlow's own layer runs.
SHAPES = ["64:1", "64:4", "64:8", "96:1", "128:1", "128:4", "128:7", "128:8"]


def tensor(dtype, *shape, alignment=16):
    """A tensor without memory: sizes that are None and all strides but the last are arguments."""
    shape = [cute.sym_int() if size is None else size for size in shape]
    divisor = max(alignment * 8 // dtype.width, 1)
    strides = [cute.sym_int64(divisibility=divisor) for _ in shape[1:]] + [1]
    return cute.runtime.make_fake_tensor(dtype, shape, stride=strides, assumed_align=alignment)


def rows(head_dim):
    return tensor(BFloat16, None, None, head_dim)  # [rows, heads, D]


def columns(alignment=16):
    return tensor(Float32, None, None, alignment=alignment)  # [heads, columns]


def bounds():
    return tensor(Int32, None, alignment=4)  # [sequences + 1]


def locks():
    return tensor(Int32, None, None, None, 2, alignment=4)  # [sequences, heads, tiles, 2]


def compiled(function, arguments, dump):
    options = f"--keep-cubin --dump-dir={dump}"  # the cubin stays readable in `artifacts`
    return cute.compile(function, *arguments, cute.runtime.make_fake_stream(), options=options)


def compile_forward(head_dim, group, causal, dump):
    tiles = interface._tile_size_fwd_sm90(head_dim, head_dim, causal, False)
    kernel = Forward(
        BFloat16, head_dim, head_dim, group, is_causal=causal, is_local=False, pack_gqa=group > 1,
        tile_m=tiles.m_block_size, tile_n=tiles.n_block_size, num_stages=2, num_threads=384,
        Q_in_regs=False, intra_wg_overlap=tiles.intra_wg_overlap, mma_pv_is_rs=tiles.mma_pv_is_rs,
    )

    @cute.jit
    def forward(
        q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, out: cute.Tensor, lse: cute.Tensor,
        scale: Float32, q_bounds: cute.Tensor, k_bounds: cute.Tensor, stream: cuda.CUstream,
    ):
        kernel(q, k, v, out, lse, scale, q_bounds, k_bounds, stream=stream)

    heads = [rows(head_dim) for _ in range(4)]
    return compiled(forward, [*heads, columns(4), Float32(0), bounds(), bounds()], dump)


def compile_backward(head_dim, group, causal, fixed, dump):
    t = interface._tile_size_bwd_sm90(head_dim, head_dim, causal, False)
    multiple = 64 if t.dKV_swapAB else 32  # what a head's size is rounded up to in the fp32 sums
    tile = dict(hdim_multiple_of=multiple)
    preprocess = Preprocess(BFloat16, head_dim, head_dim, t.m_block_size, **tile)
    main = Backward(
        BFloat16, head_dim, head_dim, group, causal, is_local=False, deterministic=fixed,
        tile_m=t.m_block_size, tile_n=t.n_block_size, Q_stage=t.num_stages_Q,
        dO_stage=t.num_stages_dO, PdS_stage=t.num_stages_PdS, SdP_swapAB=t.SdP_swapAB,
        dKV_swapAB=t.dKV_swapAB, dQ_swapAB=t.dQ_swapAB, AtomLayoutMSdP=t.AtomLayoutMSdP,
        AtomLayoutNdKV=t.AtomLayoutNdKV, AtomLayoutMdQ=t.AtomLayoutMdQ,
        num_threads=(t.num_wg + 1) * 128, dQ_single_wg=t.dQ_single_wg,
    )
    convert_q = Postprocess(
        BFloat16, head_dim, ARCH, t.m_block_size, 128 if t.dQ_single_wg else t.num_wg * 128,
        t.AtomLayoutMdQ, t.dQ_swapAB, **tile,
    )
    convert_kv = Postprocess(
        BFloat16, head_dim, ARCH, t.n_block_size, t.num_wg * 128, t.AtomLayoutNdKV, t.dKV_swapAB,
        **tile,
    )
    grouped = group > 1  # else the main kernel writes dk and dv itself

    @cute.jit
    def backward(
        q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, out: cute.Tensor, lse: cute.Tensor,
        dout: cute.Tensor, scale: Float32, q_bounds: cute.Tensor, k_bounds: cute.Tensor,
        lse2: cute.Tensor, dpsum: cute.Tensor, dq_sum: cute.Tensor, dk_sum: cute.Tensor,
        dv_sum: cute.Tensor, dq_locks: cute.Tensor, dk_locks: cute.Tensor, dv_locks: cute.Tensor,
        dq: cute.Tensor, dk: cute.Tensor, dv: cute.Tensor, stream: cuda.CUstream,
    ):
        one = Float32(1)
        preprocess(out, dout, dpsum, lse, lse2, dq_sum, q_bounds, None, None, None, None, one,
                   stream=stream)
        main(
            q, k, v, dout, lse2, dpsum, dq_sum, dk_sum if const_expr(grouped) else dk,
            dv_sum if const_expr(grouped) else dv, scale, q_bounds, k_bounds,
            mdQ_semaphore=dq_locks if const_expr(fixed) else None,
            mdK_semaphore=dk_locks if const_expr(fixed and grouped) else None,
            mdV_semaphore=dv_locks if const_expr(fixed and grouped) else None, stream=stream,
        )
        convert_q(dq_sum, dq, scale, q_bounds, None, None, stream=stream)
        if const_expr(grouped):
            convert_kv(dk_sum, dk, scale, k_bounds, None, None, stream=stream)
            convert_kv(dv_sum, dv, one, k_bounds, None, None, stream=stream)

    arguments = [*[rows(head_dim) for _ in range(4)], columns(4), rows(head_dim), Float32(0)]
    arguments += [bounds(), bounds(), *[columns() for _ in range(5)], *[locks() for _ in range(3)]]
    arguments += [rows(head_dim) for _ in range(3)]
    sum_dim = -(-head_dim // multiple) * multiple
    return compiled(backward, arguments, dump), (sum_dim, t.m_block_size, t.n_block_size)


def cuobjdump():
    """The program on PATH, or in the triton package."""
    packaged = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    return shutil.which("cuobjdump") or packaged


def report(name, function, seconds, folder):
    """Prints registers and matrix instructions of an entry's kernels. Fails if they spill."""
    cubin = folder / f"{name}.cubin"
    cubin.write_bytes(function.artifacts.CUBIN)
    size = (folder / f"{name}.o").stat().st_size
    print(f"{name}: {seconds:.1f} s, object of {size / 1e3:.0f} kB", flush=True)
    usage, sass = (
        subprocess.run([cuobjdump(), flag, cubin], check=True, capture_output=True, text=True).stdout
        for flag in ("-res-usage", "-sass")
    )
    code = {part.split("\n", 1)[0].strip(): part for part in sass.split("Function :")[1:]}
    pattern = r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)"
    for kernel, registers, stack, local in re.findall(pattern, usage):
        short = re.search(r"flash_(?:fwd|bwd)\w*?(?=Flash)", kernel).group()
        products = len(re.findall(r"\bHGMMA\b", code[kernel]))
        print(f"  {short}: {registers} registers, {products} HGMMA")
        if int(stack) + int(local) > 0:
            raise SystemExit(f"{name}: {short} spills {stack} + {local} bytes")


def export(name, function, folder):
    """Writes the object; the C declarations of its entry, and of what loads its kernels."""
    function.export_to_c(str(folder), name, name)
    text = (folder / f"{name}.h").read_text()
    structs = re.findall(r"void \*data;(.*?)\} \w+?_Tensor_(\w+)_t;", text, re.DOTALL)
    for fields, argument in structs:  # as fa4_library.h and library.cpp have them
        kind = re.search(r"bounds|locks|lse2?$|dpsum|sum|$", argument).group()
        shape, stride = {"bounds": (1, 0), "locks": (3, 3), "": (2, 2)}.get(kind, (2, 1))
        expected = f"int32_tdynamic_shapes[{shape}];"
        expected += f"int64_tdynamic_strides[{stride}];" if stride else ""
        assert re.sub(r"\s", "", fields) == expected, f"{name}: {argument} has another layout"
    symbol = re.search(r"void (_mlir_\w+)\(void \*\*args, int32_t num_args\)", text).group(1)
    return (
        f'void {name}(void **args, int32_t count) __asm__("{symbol}");\n'
        f'void {name}_init(void **args) __asm__("_mlir_{name}_cuda_init");\n'
        f'void {name}_load(void **args) __asm__("_mlir_{name}_cuda_load_to_device");\n'
    )


def write_header(path, declarations, variants):
    versions = ", ".join(f"{package} {metadata.version(package)}" for package in PACKAGES)
    lines = ["/* Written by tools/fa4/compile.py. */", "#pragma once", "#include <stdint.h>"]
    lines += [f'#define FA4_PACKAGES "{versions}"']
    lines += ['#ifdef __cplusplus\nextern "C" {\n#endif', *declarations]
    lines += ["#ifdef __cplusplus\n}\n#endif"]
    lines += ["/* head_dim, group, causal, elements of a head in sums, rows of backward's tiles of"]
    lines += ["   queries and of keys, entries */"]
    lines += ["#define FA4_VARIANTS(X) \\"]
    lines += [f"  X({', '.join(map(str, variant))}) \\" for variant in variants]
    path.write_text("\n".join(lines) + "\n\n")


def packaged(name):
    """A file of the installed packages of CUDA 13."""
    for site in site_packages():
        for found in sorted(Path(site).glob(f"nvidia/cu13/**/{name}")):
            return found
    raise SystemExit(f"{name} is in no package; install requirements-fa4.txt")


def link(folder, names):
    runtime = Path(nvidia_cutlass_dsl.__path__[0]) / "cu13/lib/libcuda_dialect_runtime_static.a"
    library = folder / "libslimpack_fa4.so"
    exported = folder / "exported.map"
    exported.write_text("{ global: slimpack_fa4; local: *; };\n")
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-Wall", "-Wextra", "-shared"]
    command += ["-fPIC", f"-Wl,--version-script={exported}", f"-I{folder}", f"-I{ROOT}"]
    command += [f"-I{packaged('cuda_runtime_api.h').parent}", HERE / "library.cpp"]
    command += [folder / f"{name}.o" for name in names]
    command += [runtime, packaged("libcudart.so.13"), "-o", library]
    subprocess.run(list(map(str, command)), check=True)
    print(f"{library}: {library.stat().st_size / 1e3:.0f} kB")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="D:GROUP")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)

    names, declarations, variants = [], [], []

    def add(name, make):
        start = time.time()
        function, sizes = make()
        declarations.append(export(name, function, folder))
        report(name, function, time.time() - start, folder)
        names.append(name)
        return sizes

    for shape in options.shapes:
        head_dim, group = map(int, shape.split(":"))
        for causal in (True, False):
            name = f"fa4_d{head_dim}_g{group}_{'causal' if causal else 'full'}"
            add(f"{name}_forward",
                lambda: (compile_forward(head_dim, group, causal, folder), None))
            for fixed, backward in ((False, f"{name}_backward"), (True, f"{name}_backward_fixed")):
                sizes = add(backward,
                            lambda: compile_backward(head_dim, group, causal, fixed, folder))
            variants.append((head_dim, group, int(causal), *sizes, name))
    write_header(folder / "fa4_entries.h", declarations, variants)
    link(folder, names)


if __name__ == "__main__":
    main()
