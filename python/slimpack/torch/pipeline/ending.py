"""When a training run ends: after its steps, at a limit, or because it was asked to."""

import signal
import threading

from slimpack import InvalidInput, _planner
from slimpack.balancing import require_positive


class Stopped(Exception):
    """A rank was asked to stop, so all do. interrupted: whether by SIGINT."""

    def __init__(self, interrupted):
        super().__init__()
        self.interrupted = interrupted


class Ending:
    """The limits of one start of a run, whose time begins now. All ranks make the same calls and
    get the same answers.

    begun: steps done before this start. steps, max_tokens: of the run, over all starts.
    max_seconds: of this start. None = no limit. limit: after the call that has found one reached,
    which one.

    Used as a context it turns SIGTERM and SIGINT into requests to stop, unless the program has
    handlers of its own. A second SIGINT ends the process at once.
    """

    def __init__(self, engine, begun, steps, max_tokens, max_seconds):
        require_positive("steps", steps)
        require_positive("max_tokens", max_tokens)
        if max_seconds is not None and not max_seconds > 0:
            raise InvalidInput(f"max_seconds is {max_seconds!r}, must be above 0")
        self.begun, self.steps, self.limit = begun, steps, None
        self._engine = engine
        self._max_tokens = max_tokens
        self._limits = _planner.RunLimits(begun, steps, max_tokens, max_seconds)
        self._asked, self._handlers = 0, {}

    def __enter__(self):
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                handler = signal.getsignal(number)
                if handler in (signal.SIG_DFL, signal.default_int_handler):
                    self._handlers[number] = handler
                    signal.signal(number, self._ask)
        return self

    def __exit__(self, *_):
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def tokens_left(self, tokens):
        """None = any number."""
        return None if self._max_tokens is None else self._max_tokens - tokens

    def allows_another(self, done, tokens):
        """Whether steps and tokens allow another step."""
        self.limit = self._limits.token_limit_reached(done, tokens) or None
        return self._limits.allow_another(done, tokens)

    def evaluation_due(self, done, evaluated, every):
        """Whether to evaluate after so many steps. evaluated: steps done at the last evaluation, or
        None. every: steps between evaluations; 0 = at both ends of the run alone."""
        return self._limits.evaluation_due(done, evaluated, self.limit, every)

    def out_of_time(self, done):
        """Whether a rank's time is over; never before the first step of a start. Raises Stopped."""
        if self._agree(self._limits.out_of_time(done)):
            self.limit = self._limits.time_limit_reached()
        return self.limit is not None

    def require_no_stop(self):
        """Raises Stopped on all ranks where one was asked to stop."""
        self._agree(False)

    def _agree(self, over):
        """Whether it is over on some rank."""
        with self._engine.watch:
            said = self._engine.groups.gather_numbers([self._asked, int(over)])
        asked = {number for number, _ in said} - {0}
        if asked:
            raise Stopped(signal.SIGINT in asked)
        return any(of_rank for _, of_rank in said)

    def _ask(self, number, _):
        self._asked = number
        if number == signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
