#!/usr/bin/env python3
"""Makes conversations to try fine-tuning with: a ferry line's office answers questions about its boats.

    python examples/conversations.py runs/ferries

writes 200 conversations to runs/ferries/train.jsonl and 40 others to runs/ferries/held-out.jsonl, a line of
JSON each. The boats and what there is to know of them are made up, so no model knows them before. Held-out
conversations ask for the same facts in another order. The same --seed makes the same files.

Lengths are uneven, as in real logs: most conversations have one to four questions, every twentieth has forty.
A third begin with a system's turn that asks for short answers.
"""

import argparse
import json
import random
from pathlib import Path

BOATS = ["Alder", "Bramble", "Curlew", "Dunlin", "Ember", "Fulmar", "Gannet", "Heron"]
PORTS = ["Orrin", "Skelby", "Tarn Head", "Ullock", "Vane", "Wick Sands", "Yarrow", "Ness"]
# Each has its questions, its answer, and the values, one for each boat.
FACTS = [
    (["Where does the {boat} go?", "Which port does the {boat} sail to?"], "The {boat} sails to {value}.", PORTS),
    (["When does the {boat} leave?", "At what time does the {boat} sail?"], "The {boat} leaves at {value}.",
     [f"{hour}:{minute}" for hour, minute in zip(range(6, 14), ["05", "40", "15", "50", "25", "10", "35", "20"])]),
    (["What does the {boat} cost?", "How much is a ticket for the {boat}?"],
     "A ticket for the {boat} is {value} crowns.", ["12", "7", "19", "4", "23", "15", "9", "31"]),
]
SYSTEM = "You answer for the ferry office with the fact alone."
LONG, LONG_TURNS = 20, 40  # every so many conversations has so many questions


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the two files go")
    parser.add_argument("--count", type=int, default=200, help="conversations to train on (default: 200)")
    parser.add_argument("--held-out", type=int, default=40, help="conversations that are held out (default: 40)")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def conversation(r, questions):
    """The messages of one conversation: so many questions and their answers."""
    is_short = r.random() < 1 / 3
    messages = [{"role": "system", "content": SYSTEM}] * is_short
    for _ in range(questions):
        number, (asked, answer, values) = r.randrange(len(BOATS)), r.choice(FACTS)
        value = values[number]
        messages += [
            {"role": "user", "content": r.choice(asked).format(boat=BOATS[number])},
            {"role": "assistant", "content": value if is_short else answer.format(boat=BOATS[number], value=value)}]
    return messages


def write(file, r, count):
    with open(file, "w", encoding="utf-8") as out:
        for number in range(count):
            questions = LONG_TURNS if number % LONG == LONG - 1 else r.randint(1, 4)
            out.write(json.dumps({"messages": conversation(r, questions)}) + "\n")


def main():
    options = parse()
    options.folder.mkdir(parents=True, exist_ok=True)
    r = random.Random(options.seed)
    for name, count in (("train", options.count), ("held-out", options.held_out)):
        write(options.folder / f"{name}.jsonl", r, count)
        print(f"{options.folder / name}.jsonl: {count} conversations")


if __name__ == "__main__":
    main()
