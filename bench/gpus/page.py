"""The page of run.py in Markdown."""


def page_text(found):
    return "\n".join([*heading(found), *checks(found), *steps(found), *links(found), *failed(found)]) + "\n"


def table(head, rows):
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *rows)] + [""]


def heading(found):
    pp, dp, tp = found["grid"]
    lines = [f"# {found['ranks']} ranks on {found['card'] or 'Gloo'}", "",
             f"Grid: pp {pp} × dp {dp} × tp {tp}. torch {found['torch']}.", ""]
    if found["device"] == "cpu":
        lines += ["There is no CUDA device here, so a small model ran on Gloo. Times say nothing of GPUs, "
                  "where the command would train a Llama of 1.2 billion parameters in bf16 on documents up "
                  "to 32K tokens, check losses in fp32 and in bf16, send messages of up to 256 MiB, and "
                  "read GPUs' memory.", ""]
    return lines


def checks(found):
    rows = [[c["dtype"], str(len(c["losses"])), f"{c['losses'][-1]:.5f}",
             f"{c['losses_of_one_rank'][-1]:.5f}", f"{c['furthest']:.1e}", f"{c['tolerance']:.0e}",
             "yes" if c["holds"] else "**no**"] for c in found["checks"]]
    if not rows:
        return []
    return ["## Losses of the grid and of one rank", ""] + table(
        ["type", "steps", "last, grid", "last, one rank", "furthest apart", "allowed", "holds"], rows)


def bytes_text(count):
    return f"{count / 2**30:.2f} GiB" if count else "–"


def steps(found):
    rows = [[way["way"], f"{way['seconds']:.3f} s",
             f"{way['predicted_seconds']:.3f} s" if "predicted_seconds" in way else "–",
             f"{way['tokens_per_second']:,.0f}", f"{way['mfu']:.1%}" if "mfu" in way else "–",
             bytes_text(way["used_bytes"]), bytes_text(way.get("peak_activation_bytes"))]
            for way in found["ways"]]
    if not rows:
        return []
    return ["## A step of the same documents", "",
            "Medians; memory is the most in use on any GPU, of both ways of a grid together.", ""] + table(
        ["", "step", "predicted", "tokens/s", "MFU", "memory", "activations"], rows)


def links(found):
    rows = [[link["operation"], f"{link['bytes']:,}", f"{link['seconds'] * 1e6:,.0f} µs",
             f"{link['bytes_per_second'] / 1e9:.2f} GB/s"] for link in found["links"]]
    return ["## Links", ""] + table(["operation", "bytes", "time", "bandwidth"], rows) if rows else []


def failed(found):
    lines = ["## Failed", ""] if found["failed"] else []
    for part in found["failed"]:
        lines += [f"{part['what']}:", "", "```text", part["said"], "```", ""]
    return lines
