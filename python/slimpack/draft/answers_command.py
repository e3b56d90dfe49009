"""`slimpack draft answers`."""

import sys
import time
from pathlib import Path

from slimpack import InvalidInput
from slimpack.one_line_parser import real_number, whole_number

DESCRIPTION = """Lets a target answer prompts, and writes what 'slimpack draft train' learns
from: a head guesses what its target would say, so the target's own text serves
it better than that of others.

A start that was stopped goes on when the same command is given again.
"""
EPILOG = """examples:
  # Each line {"prompt": "…"}, or {"prompt": [{"role": "user", "content": "…"}]}
  slimpack draft answers --target SmolLM2 --prompts prompts.jsonl \\
    --out answers.jsonl
  # The target goes on with the beginnings of documents
  slimpack draft answers --target SmolLM2 --prompts corpus --prompt-tokens 64 \\
    --out answers.jsonl

Then: slimpack draft train --target SmolLM2 --data answers.jsonl --out head
"""
LIMIT = 2**31 - 1


def add_to(commands):
    parser = commands.add_parser("answers", help="let a target write the data for its head",
                                 description=DESCRIPTION, epilog=EPILOG)
    parser.set_defaults(run=run)
    number = whole_number(1, LIMIT, "number")
    parser.add_argument("--target", required=True, metavar="FOLDER",
                        help="a causal language model as transformers saves it, or its name on the Hub")
    parser.add_argument("--prompts", required=True, metavar="PATH",
                        help="FILE.jsonl, whose lines have a text or chat messages in a field; a text "
                        "with a prompt on each line; or PREFIX of a token dataset")
    parser.add_argument("--field", default="prompt", metavar="NAME",
                        help="field of JSON lines that holds the prompt (default: prompt)")
    parser.add_argument("--prompt-tokens", type=number, default=64, metavar="N",
                        help="of a dataset: the first tokens of each document (default: 64)")
    parser.add_argument("--count", type=number, metavar="N", help="prompts, at most (default: all)")
    parser.add_argument("--new-tokens", type=number, default=256, metavar="N",
                        help="tokens of an answer, at most (default: 256)")
    parser.add_argument("--temperature", type=real_number(0, 100, "temperature"), default=0.0,
                        metavar="T", help="0 takes the most likely token (default: 0)")
    parser.add_argument("--batch", type=number, default=32, metavar="N",
                        help="answers that are written at the same time (default: 32)")
    parser.add_argument("--device", default="cpu", help="of torch, such as cuda (default: cpu)")
    parser.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="what the target computes in (default: fp32)")
    parser.add_argument("--out", required=True, metavar="FILE.jsonl", help="where the answers go")
    parser.add_argument("--restart", action="store_true",
                        help="begin anew where an earlier start was stopped")


def generator_of(options):
    """The program's own engine, or transformers for models that it does not know."""
    if Path(options.target).is_dir() and options.device in ("cpu", "cuda"):
        from slimpack.draft.engine_answers import EngineGenerator
        try:
            return EngineGenerator(options.target, options.new_tokens, options.temperature,
                                   dtype=options.dtype, device=options.device, batch=options.batch)
        except InvalidInput as error:
            print(f"answers by transformers: {error}", file=sys.stderr)
    from slimpack.draft.answers import TransformersGenerator
    from slimpack.draft.target import load_target
    target = load_target(options.target, options.dtype, options.device)
    return TransformersGenerator(target, options.new_tokens, options.temperature, batch=options.batch)


def run(options):
    from slimpack.draft.answers import answered, write_answers
    from slimpack.draft.data import ANSWERS_SUFFIX
    from slimpack.draft.prompts import prompt_encoder, read_prompts
    from slimpack.draft.time_left import TimeLeft

    if not options.out.endswith(ANSWERS_SUFFIX):
        raise InvalidInput(f"--out is '{options.out}', must end with {ANSWERS_SUFFIX}")
    asked = read_prompts(options.prompts, lambda: prompt_encoder(options.target), options.field,
                         options.prompt_tokens, options.count)
    prompts, empty = asked.tokens, asked.empty()
    generate = generator_of(options)
    asked.require(generate.vocabulary, generate.positions)
    if empty:
        print(f"prompts without a token, whose answers are empty: {len(empty):,}, the first: {empty[0]}",
              file=sys.stderr)
    begun = answered(options.out, prompts, options.restart)
    start, time_left = time.monotonic(), TimeLeft(begun, len(prompts))

    def tell(done, tokens):
        rate = tokens / (time.monotonic() - start)
        print(f"{done:,} of {len(prompts):,} answers, {rate:,.0f} tok/s, {time_left.after(done)}",
              file=sys.stderr, flush=True)

    tokens = write_answers(options.out, prompts, generate, begun, tell)
    print(f"{options.out}: {len(prompts):,} answers, {tokens:,} tokens written by this start")
    print(f"next: slimpack draft train --target {options.target} --data {options.out} --out HEAD")
    return 0
