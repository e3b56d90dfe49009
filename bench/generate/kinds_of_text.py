"""Prompts of five kinds of text: code, prose, dialogue, lists and repetition."""

import ast
import re

REQUESTS = {
    "code": [
        "Write a Python function that returns the n-th Fibonacci number, with a docstring.",
        "Write a Python class for a stack with push, pop and peek.",
        "Write a Python function that checks whether a string is a palindrome, and three tests of it.",
        "Write a Python script that counts the words of a text file.",
        "Write a Python function for binary search in a sorted list.",
        "Write a Python function that merges two sorted lists."],
    "prose": [
        "Write a short story about a lighthouse keeper who finds a letter.",
        "Explain why the sky is blue to a ten-year-old.",
        "Describe a walk through an old town on a rainy evening.",
        "Write a paragraph about the history of bread.",
        "Explain how a bicycle stays upright.",
        "Write about a childhood memory of the sea."],
    "dialogue": [
        "Write a dialogue between a customer and a baker about a birthday cake.",
        "Write a conversation of two friends who plan a trip to the mountains.",
        "Write an interview with an astronaut, with questions and answers.",
        "Write a dialogue between a teacher and a pupil about fractions.",
        "Write a phone call between a traveller and a hotel.",
        "Write a conversation between a cat and a dog."],
    "lists": [
        "List twenty animals with one word about each.",
        "List the months of the year and a holiday in each.",
        "Give a shopping list for a dinner of six people.",
        "List fifteen countries of Europe and their capitals.",
        "List twelve kitchen tools and what they are for.",
        "Give a packing list for a week of camping."],
    "repetition": [
        "Repeat this line ten times: The quick brown fox jumps over the lazy dog.",
        "Write the numbers from one to fifty, one on each line, as 'number 1', 'number 2' and so on.",
        "Write a song whose chorus comes five times.",
        "Write the multiplication table of seven up to twenty.",
        "Copy this text three times: She sells sea shells by the sea shore. The shells are sea shells.",
        "Write 'I will do my homework' fifteen times, each on a line of its own."]}


def requests(texts, encode):
    """Requests of users, at most so many texts of a kind. encode: from a request to the prompt's tokens."""
    return {kind: [encode(text) for text in of[:texts]] for kind, of in REQUESTS.items()}


def parts_of_sources(documents, texts, length):
    """Prompts from Python sources, in bytes, for models of bytes: code; module docstrings; sessions with the
    interpreter; tables of literals; and a line that comes again and again. Each prompt is the first `length`
    bytes of such a part, which goes on behind it."""
    found = {"code": [], "prose": [], "dialogue": [], "lists": [], "repetition": []}
    for file in documents:
        text = file.read_text(errors="replace")
        for kind, part in _parts(text).items():
            if len(part) >= 2 * length and len(found[kind]) < texts:
                found[kind].append(list(part.encode()[:length]))
        line = text[:80].splitlines()[0] if text.strip() else ""
        if len(line) > 20 and len(found["repetition"]) < texts:
            found["repetition"].append(list(((line + "\n") * (length // len(line) + 1)).encode()[:length]))
    short = [kind for kind, of in found.items() if len(of) < texts]
    if short:
        raise ValueError(f"the held-out documents have fewer than {texts} parts for {', '.join(short)}: ask "
                         "for fewer texts or shorter prompts")
    return found


def _parts(text):
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    functions = [node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    longest = max(functions, key=lambda node: node.end_lineno - node.lineno, default=None)
    lines = text.splitlines(keepends=True)
    parts = {"prose": ast.get_docstring(tree) or "",
             "dialogue": "".join(re.findall(r"^ *(?:>>>|\.\.\.) .*\n(?:(?! *>>>).+\n)?", text, re.M)),
             "lists": "".join(line for line in lines if re.match(r"\s+['\"\d].*,\s*(#.*)?$", line))}
    if longest is not None:
        parts["code"] = "".join(lines[longest.lineno - 1:longest.end_lineno])
    return parts
