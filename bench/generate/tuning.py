"""The settings with which an engine is fastest, found by changing one at a time."""

MEASURES = {"first token": "first_seconds", "decode": "decode_seconds"}
TURNS = 2  # of each setting; the faster one counts, after one that warms up


class Tuning:
    """Tunes the settings of one engine, for one precision and prompt."""

    def __init__(self, engine, load, prompt, count, say):
        """`load(settings)` makes the session; `count` new tokens are timed."""
        self.engine, self.load, self.prompt, self.count, self.say = engine, load, prompt, count, say
        self.tried = []  # (settings, seconds by measure)

    def seconds(self, settings):
        for known, seconds in self.tried:
            if known == settings:
                return seconds
        self.load(settings)
        turns = [self.engine.call("generate", prompt=self.prompt, count=self.count)
                 for _ in range(1 + TURNS)][1:]
        seconds = {name: min(turn[name] for turn in turns) for name in MEASURES.values()}
        self.tried.append((settings, seconds))
        self.say(f"{len(self.prompt):,} tokens, {', '.join(map(str, settings.values()))}: first token "
                 f"{seconds['first_seconds']:.3f} s, {(self.count - 1) / seconds['decode_seconds']:.1f} "
                 "tokens/s")
        return seconds

    def best(self, choices, measure):
        """The `choices` (values by setting) with the fewest seconds of `measure`."""
        best = {name: values[0] for name, values in choices.items()}
        for name, values in choices.items():
            best = min(({**best, name: value} for value in values),
                       key=lambda settings: self.seconds(settings)[measure])
        return best
