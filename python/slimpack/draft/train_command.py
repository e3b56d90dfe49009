"""`slimpack draft train`."""

import sys
from pathlib import Path

from slimpack import InvalidInput
from slimpack.draft.config import STEPS
from slimpack.one_line_parser import real_number, whole_number

DESCRIPTION = """Trains an EAGLE-3 head for a frozen target by training-time test: guesses
in a row, each from the head's own output of the guess before. Writes the head,
and says how many guesses a greedy target would accept on held-out documents.

A run that was stopped goes on when the same command is given again.
"""
EPILOG = """example:
  slimpack draft train --target SmolLM2 --data answers.jsonl --steps 2000 \\
    --out head

The folder --out gets
  config.json, model.safetensors   the head
  acceptance.json                  the last table of guesses that were right
  metrics.jsonl                    the figures of every step and evaluation
  checkpoint.pt                    from which the same command goes on
"""
HELD_OUT_SHARE = 0.05
LIMIT = 2**31 - 1


def add_to(commands):
    parser = commands.add_parser("train", help="train a head for a target",
                                 description=DESCRIPTION, epilog=EPILOG)
    parser.set_defaults(run=run)
    of_data = parser.add_argument_group("what to learn")
    of_data.add_argument("--target", required=True, metavar="FOLDER",
                         help="a causal language model as transformers saves it, or its name on the Hub")
    of_data.add_argument("--data", required=True, metavar="PATH",
                         help="FILE.jsonl of 'slimpack draft answers', or PREFIX of a token dataset "
                         "(slimpack data build) made with the target's tokenizer")
    of_data.add_argument("--held-out", metavar="PATH",
                         help="likewise, to count right guesses on (default: the last documents of "
                         f"--data, {HELD_OUT_SHARE:.0%}% of the tokens, or --held-out-tokens)")
    of_data.add_argument("--held-out-tokens", type=whole_number(3, LIMIT, "number of tokens"),
                         default=16384, metavar="N",
                         help="tokens that are counted, at most (default: 16384)")
    of_head = parser.add_argument_group("which head")
    of_head.add_argument("--init", metavar="FOLDER",
                         help="train on a head that is there: EAGLE-3's or speculators' form, "
                         "model.safetensors or pytorch_model.bin (default: a new one)")
    of_head.add_argument("--draft-vocabulary", type=whole_number(1, LIMIT, "size of a vocabulary"),
                         metavar="N", help="tokens that a new head can guess: those that come most often "
                         "in --data (default: 8192, or all where the target has fewer)")
    of_head.add_argument("--eagle31", action="store_true",
                         help="a new head normalises its three inputs and its own output, as EAGLE-3.1 "
                         "does. Readers of heads have to know it")
    add_training_options(parser.add_argument_group("how to train"))
    of_run = parser.add_argument_group("how to run")
    of_run.add_argument("--out", required=True, metavar="FOLDER", help="where the head goes")
    of_run.add_argument("--device", default="cpu", help="of torch, such as cuda (default: cpu)")
    of_run.add_argument("--dtype", choices=["fp32", "bf16"], default="fp32",
                        help="what target and head compute in; weights of the head stay fp32. bf16 pays "
                        "on GPUs and on CPUs with AMX (default: fp32)")
    of_run.add_argument("--restart", action="store_true",
                        help="begin anew where an earlier run in --out was stopped")


def add_training_options(group):
    def add(name, kind, default, text):
        group.add_argument(name, type=kind, default=default, metavar="N",
                           help=f"{text} (default: %(default)s)")

    add("--steps", whole_number(1, LIMIT, "number of steps"), 1000, "steps of the optimizer")
    add("--step-tokens", whole_number(3, LIMIT, "number of tokens"), 4096, "tokens of a step")
    add("--context", whole_number(3, LIMIT, "number of tokens"), 1024,
        "tokens of a sequence, at most; longer documents become several")
    add("--learning-rate", real_number(1e-9, 1, "learning rate"), 1e-4,
        "after the warm-up; a cosine then brings it down to 0")
    add("--warmup-steps", whole_number(0, LIMIT, "number of steps"), 20,
        "steps in which it rises from 0")
    add("--clip-norm", real_number(1e-9, 1e9, "norm"), 0.5, "gradients are clipped to this norm")
    add("--ttt-length", whole_number(1, STEPS, "number of guesses"), STEPS,
        "guesses in a row that it learns; fewer take less time")
    add("--seed", whole_number(0, LIMIT, "seed"), 0, "of the order of documents and of first weights")
    add("--evaluate-every", whole_number(1, LIMIT, "number of steps"), 100,
        "steps between counts of right guesses")
    add("--checkpoint-every", whole_number(1, LIMIT, "number of steps"), 100,
        "steps between checkpoints")


def run(options):
    import torch
    from slimpack.draft.target import load_target
    from slimpack.draft.trainer import Options, Trainer

    documents, held_out = _documents(options)
    target = load_target(options.target, options.dtype, options.device)
    counts = documents.counts(target.vocabulary)
    held_out.counts(target.vocabulary)  # refuses unknown tokens
    head = _head(options, target, counts)
    _say(f"target: {target.layers} layers, hidden size {target.hidden_size:,}, vocabulary "
         f"{target.vocabulary:,}; layers {_listed(head.config.target_layers)} enter the head")
    guessable = counts[head.target_ids.numpy()].sum() / max(counts.sum(), 1)
    _say(f"head: {sum(p.numel() for p in head.parameters()):,} parameters, guesses "
         f"{head.config.draft_vocab_size:,} tokens, which are {guessable:.1%} of the data")
    _say(f"data: {len(documents.lengths):,} documents, {documents.lengths.sum():,} tokens; held out "
         f"{len(held_out.lengths):,} documents, {held_out.lengths.sum():,} tokens")
    wanted = Options(**{name: getattr(options, name) for name in Options.__dataclass_fields__})
    trainer = Trainer(head, target, documents, held_out, options.out, wanted, _say, options.restart)
    evaluation = trainer.train()
    if evaluation is None:
        raise KeyboardInterrupt
    print(acceptance_table(evaluation.acceptance))
    print(f"head: {options.out}, trained by torch {torch.__version__}")
    return 0


def acceptance_table(acceptance):
    """For people: by guess how often it is right."""
    lines = ["guess  right, if those before were  all right so far      tried",
             "─────  ───────────────────────────  ────────────────  ─────────"]
    reached = 1.0
    for guess, (rate, tried) in enumerate(zip(acceptance.rates, acceptance.tried, strict=True), 1):
        reached *= rate
        lines.append(f"{guess:>5}  {rate:>27.1%}  {reached:>16.1%}  {tried:>9,}")
    lines.append(f"accepted length {acceptance.accepted_length:.2f}: tokens for a pass of a greedy target, "
                 "its own included")
    return "\n".join(lines)


def _documents(options):
    from slimpack.draft.data import read_documents

    documents = read_documents(options.data)
    if options.held_out is not None:
        return documents, read_documents(options.held_out)
    if len(documents.lengths) < 2:
        raise InvalidInput(f"'{options.data}' has one document, so none can be held out; give --held-out")
    share = int(documents.lengths.sum() * HELD_OUT_SHARE)
    return documents.split(min(share, options.held_out_tokens))


def _head(options, target, counts):
    from dataclasses import replace

    from slimpack.draft.config import default_target_layers
    from slimpack.draft.files import load_head
    from slimpack.draft.vocabulary import DEFAULT_SIZE, most_frequent, new_head

    if options.init is None:
        size = options.draft_vocabulary or min(DEFAULT_SIZE, target.vocabulary)
        if size > target.vocabulary:
            raise InvalidInput(f"--draft-vocabulary is {size:,}, the target has {target.vocabulary:,} "
                               "tokens; give at most that")
        return new_head(target, most_frequent(counts, size), options.seed, options.eagle31)
    if options.draft_vocabulary is not None or options.eagle31:
        raise InvalidInput("--draft-vocabulary and --eagle31 shape a new head, --init names one that is "
                           "there; leave one away")
    head = load_head(Path(options.init), target)
    if head.config.target_layers is None:
        head.config = replace(head.config, target_layers=default_target_layers(target.layers))
    return head


def _listed(layers):
    return ", ".join(map(str, layers))


def _say(line):
    print(line, file=sys.stderr, flush=True)
