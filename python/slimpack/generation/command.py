"""Goes on from a prompt with a trained model, token by token.

MODEL is a Hugging Face folder, a checkpoint of `slimpack train`, or a folder of
checkpoints (its newest one). Text becomes tokens by the folder's
tokenizer.json; a model of bytes needs none. The answer goes to standard output
as it is made, figures to standard error.
"""

import dataclasses
import json
import os
import stat
import sys

from slimpack import runtime
from slimpack._planner import InvalidInput
from slimpack.command_line import end, exit_code
from slimpack.generation import Generator
from slimpack.numbers import INT32, UINT64
from slimpack.one_line_parser import OneLineParser, whole_number
from slimpack.text.errors import require_text, shown
from slimpack.text.progress import counted

EPILOG = """examples:
  # Go on from a text, always with the likeliest token
  {prog} runs/demo/checkpoints 'def main():' --max-new-tokens 64
  # Ask a model that was tuned on chats
  {prog} SmolLM2-135M-Instruct 'Name three rivers.' --chat
  # Another answer each time that the seed changes
  {prog} MODEL 'Once upon a time' --temperature 0.8 --seed 7
  # A long prompt from a file, or from a pipe
  {prog} MODEL --file notes.txt --stop '###'
  git diff | {prog} MODEL --json
  # Faster where an answer repeats its prompt, such as code; it stays the same
  {prog} MODEL --file program.py --draft ngram
"""


MOST_THREADS = 1024  # libraries that start many more end the process


def make_parser(prog):
    number = whole_number(1, INT32, "number")
    parser = OneLineParser(prog=prog, description=__doc__, epilog=EPILOG.format(prog=prog))
    parser.add_argument("model", metavar="MODEL", help="folder of the model")
    asked = parser.add_argument_group("what to go on from")
    asked.add_argument("prompt", nargs="?", metavar="PROMPT", help="the text; without one, standard input")
    asked.add_argument("--file", metavar="PATH", help="a file that holds the text")
    asked.add_argument("--chat", action="store_true",
                       help="the text is a user's message: puts it into the model's chat template")
    asked.add_argument("--system", metavar="TEXT", help="a message before it that says how to answer")
    asked.add_argument("--tokenizer", metavar="PATH", help="a tokenizer.json in place of the model's")
    how = parser.add_argument_group("how to choose tokens")
    how.add_argument("--temperature", type=float, default=0.0, metavar="T",
                     help="0 takes the likeliest token (default), 1 draws by the model's probabilities")
    how.add_argument("--top-k", type=whole_number(0, INT32, "number of tokens"), default=0, metavar="K",
                     help="draws from the K likeliest tokens (default: all)")
    how.add_argument("--top-p", type=float, default=1.0, metavar="P",
                     help="draws from the likeliest tokens that have probability P together (default: 1)")
    how.add_argument("--min-p", type=float, default=0.0, metavar="P",
                     help="leaves out tokens below P times the likeliest one's probability (default: 0)")
    how.add_argument("--seed", type=whole_number(0, UINT64, "seed"), default=0, metavar="N",
                     help="of the drawing (default: 0)")
    ends = parser.add_argument_group("when to end")
    ends.add_argument("--max-new-tokens", type=number, default=256, metavar="N",
                      help="default: 256")
    ends.add_argument("--stop", action="append", default=[], metavar="TEXT",
                      help="ends the answer before this text; may be given several times")
    ends.add_argument("--ignore-eos", action="store_true", help="goes on where the model would end")
    add_draft_options(parser)
    run = parser.add_argument_group("how to run")
    run.add_argument("--dtype", default="auto", choices=["auto", "fp32", "bf16", "fp64"],
                     help="numbers to compute in (default: bf16 where the processor has it, else fp32)")
    run.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="default: cpu")
    run.add_argument("--threads", type=whole_number(1, MOST_THREADS, "number of threads"), metavar="N",
                     help="default: one for each core")
    run.add_argument("--prefill-slice", type=number, metavar="N",
                     help="tokens of the prompt that go through the model at once (default: 1024); "
                     "fewer take less memory")
    run.add_argument("--sparse", metavar="METHOD",
                     choices=["sample-attention", "sample-attention-v1", "flex-prefill", "x-attention"],
                     help="attention of long prompts leaves keys out that little depends on: "
                     "sample-attention, sample-attention-v1, flex-prefill or x-attention (default: none is "
                     "left out)")
    run.add_argument("--json", action="store_true", help="prints the answer and its figures as JSON")
    return parser


def add_draft_options(parser):
    number = whole_number(1, INT32, "number")
    draft = parser.add_argument_group(
        "how to guess tokens", "A draft guesses a tree of the next tokens, and the model verifies it in\n"
        "  one pass. What is right stays: the answer is the same, and often faster.")
    draft.add_argument("--draft", metavar="DRAFT", action="append",
                       help="'ngram' guesses what followed the last tokens where they stood before; a folder "
                       "holds an EAGLE-3 head of the model; give it twice and both guess together (default: "
                       "no guesses)")
    draft.add_argument("--draft-rule", default="expected", choices=["expected", "fixed", "heterospec"],
                       help="how large trees are: 'expected' measures, takes what promises most tokens a "
                       "second, and stops guessing where that is faster (default); 'fixed' takes the same "
                       "size each time; 'heterospec' goes by the draft's entropy")
    draft.add_argument("--draft-depth", type=number, metavar="N",
                       help="guesses one after the other, at most 40 (default: 6; 'expected' takes up to 16)")
    draft.add_argument("--draft-rows", type=number, metavar="N",
                       help="rows that the model verifies together, the last token and its guesses, "
                       "at most 256 (default: 60; 'expected' takes up to 64)")
    draft.add_argument("--draft-width", type=number, metavar="N",
                       help="guesses after each token, at most 64 (default: 10)")


DRAFT_OPTIONS = ("draft_rule", "draft_depth", "draft_rows", "draft_width")


def draft_settings(options):
    given = {name: getattr(options, name) for name in ("draft", *DRAFT_OPTIONS)}
    for name in DRAFT_OPTIONS[1:]:
        if given[name] is not None and options.draft is None:
            raise InvalidInput(f"--{name.replace('_', '-')} is {given[name]}, but nothing guesses; give "
                               "--draft, too")
    return given


def read_prompt(options):
    """The text that is asked for."""
    if options.prompt is not None and options.file is not None:
        raise InvalidInput("PROMPT and --file both give a prompt; leave one away")
    if options.prompt is not None:
        return require_text("PROMPT", options.prompt)
    if options.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise InvalidInput("no prompt; give one as PROMPT, with --file, or on standard input")
    name = "standard input" if options.file is None else options.file
    try:
        if options.file is None:
            return sys.stdin.buffer.read().decode("utf-8-sig")
        with open(options.file, "rb") as file:
            return file.read().decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"cannot read '{shown(name)}': {error.strerror}; check the path") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"'{shown(name)}' is no UTF-8 text (byte {error.start}); convert it") from error


def use_threads(threads):
    """None: as many as the environment says (OMP_NUM_THREADS), or one for each core."""
    native = runtime.load()
    import torch
    if threads is not None:
        torch.set_num_threads(threads)
    elif torch.get_num_threads() > MOST_THREADS:
        raise InvalidInput(f"OMP_NUM_THREADS asks for {torch.get_num_threads()} threads; set it to "
                           f"{MOST_THREADS} at most, or give --threads")
    native.require_threads(torch.get_num_threads())  # whose library would end the process


def figures(made):
    """One line for people."""
    reused = f" ({made.reused_tokens:,} kept)" if made.reused_tokens else ""
    line = f"{counted(made.prompt_tokens, 'token')} in{reused}, first token after {made.first_token_seconds:.2f} s; "
    line += f"{len(made.tokens):,} out"
    if made.tokens_per_second is not None:
        line += f", {made.tokens_per_second:,.1f} a second"
    return line + f"; ended by {made.end.replace('_', ' ')}"


def speculation_figures(made):
    """One line for people."""
    s = made.speculation
    further = len(made.tokens) - 1  # the first token comes from the prompt's pass
    line = f"{further / s.passes:.2f} tokens a pass, {s.rows / s.passes:.1f} rows a pass"
    if s.acceptance:
        shares = " ".join(f"{100 * share:.0f}%" for share in s.acceptance[:8])
        more = " …" if len(s.acceptance) > 8 else ""
        line += f"; right by depth: {shares}{more}"
    return line


def sparse_figures(made):
    """One line for people."""
    return (f"attention of the prompt: {100 * made.sparse.density:.0f}% of dense, "
            f"{100 * made.sparse.dense_heads:.0f}% of heads dense")


def remarks(texts, prompt):
    """Remarks about the model's text that a reader of the answer should know, a line each."""
    if texts.usual_end is not None:
        yield f"answers end at {texts.usual_end}, a usual name: no file of the model names its end"
    if lost := texts.lost(prompt):
        yield f"characters of the prompt that have no token and are lost: {lost:,}"


def write(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def answer_may_come_later():
    """Whether standard output goes through a pipe, such as to tee, and standard error to a terminal. That
    may show the end of the answer after the figures."""
    return sys.stderr.isatty() and stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)


def run(options):
    prompt = read_prompt(options)
    if options.system is not None and not options.chat:
        raise InvalidInput("--system is a message of a chat; give --chat, too")
    use_threads(options.threads)
    generator = Generator(options.model, dtype=options.dtype, device=options.device,
                          tokenizer=options.tokenizer, sparse=options.sparse,
                          **draft_settings(options))
    for remark in remarks(generator.texts, prompt):
        print(remark, file=sys.stderr)
    settings = {name: getattr(options, name) for name in (
        "max_new_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "stop", "ignore_eos",
        "prefill_slice")}
    settings["on_text"] = None if options.json else write
    if options.chat:
        system = [] if options.system is None else [{"role": "system", "content": options.system}]
        made = generator.chat([*system, {"role": "user", "content": prompt}], **settings)
    else:
        made = generator.generate(prompt, **settings)
    if options.json:
        print(json.dumps({**dataclasses.asdict(made), "tokens_per_second": made.tokens_per_second}))
    else:
        write("\n")
        if answer_may_come_later():
            print(file=sys.stderr)
        print(figures(made), file=sys.stderr)
        if made.sparse is not None:
            print(sparse_figures(made), file=sys.stderr)
        if made.speculation is not None:
            print(speculation_figures(made), file=sys.stderr)


def main(argv=None, prog="slimpack generate"):
    """Goes on from a prompt as the arguments say. Returns the exit code."""
    options = make_parser(prog).parse_args(argv)
    return exit_code(lambda: run(options))


if __name__ == "__main__":
    end(main)
