"""Numbers that people give to Python, checked before compiled code sees them."""

import operator

from slimpack._planner import InvalidInput

INT32, INT64, UINT64 = 2**31 - 1, 2**63 - 1, 2**64 - 1  # the largest of each
ANY_WHOLE = -(2**63), INT64  # for whoever says a narrower rule itself


def whole(name, value, low, high):
    """The value as an int. Raises InvalidInput unless it is a whole number from low to high."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or not low <= number <= high:
        raise InvalidInput(f"{name} is {shown(value)}, must be a whole number from {low} to {high}")
    return number


def real(name, value):
    """The value as a float. Raises InvalidInput unless it is a number; whoever takes it knows its range."""
    try:
        if not isinstance(value, (bool, str, bytes)):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidInput(f"{name} is {shown(value)}, must be a number")


def token_ids(name, values):
    """A list of token ids. Raises InvalidInput for what is none; a model says itself which it knows."""
    if isinstance(values, (bytes, bytearray, memoryview)):  # numbers, too, but they mean text
        raise InvalidInput(f"{name} is bytes; give a text (bytes.decode()) or a list of tokens")
    try:
        values = None if isinstance(values, (str, dict, set, frozenset)) else list(values)
    except TypeError:
        values = None
    if values is None:
        raise InvalidInput(f"{name} is neither a text nor a list of tokens; give one of these")
    return [whole(f"{name}[{place}]", value, *ANY_WHOLE) for place, value in enumerate(values)]


def shown(value):
    """A value as messages quote it: its beginning, where it is long."""
    try:
        text = repr(value)
    except ValueError:  # a number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
