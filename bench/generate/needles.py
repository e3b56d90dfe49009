"""Needles: a name gets a value somewhere in a long source, and the end of the prompt asks for it."""

import random

LETTERS = "bcdfghjklmnpqrstvwxz"  # of values, so that no word of the language helps


def planted(source, length, depth, seed):
    """(prompt of `length` bytes, the value's bytes). depth: where the needle lies, 0 = at the beginning,
    1 = at the end. source: bytes, at least so many."""
    draw = random.Random(seed)
    name = f"SECRET_{draw.randrange(1000, 10000)}"
    value = "".join(draw.choices(LETTERS, k=6)).encode()
    needle = f"\n{name} = '".encode() + value + b"'\n"
    question = f"\nassert {name} == '".encode()
    room = length - len(needle) - len(question)
    if room < 0 or len(source) < room:
        raise ValueError(f"a needle in {length:,} bytes needs a source of {room:,}, there are "
                         f"{len(source):,}: ask for shorter prompts")
    at = source.rfind(b"\n", 0, int(depth * room) + 1) + 1
    return source[:at] + needle + source[at:room] + question, value
