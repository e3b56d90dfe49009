"""Waiting for other ranks, so that a rank which fails can end the wait."""

import queue
import threading

import torch


class Waiting:
    """Runs calls that wait for other ranks."""

    def run(self, call):
        """Runs call(). Returns what it returns and raises what it raises."""
        return call()

    def abort(self):
        """Ends the call that runs, if this can end it."""


class GlooWaiting(Waiting):
    """Runs them on a thread of its own, for no other thread can end one.

    Gloo tells a call that its connection broke, unless a part of its message was sent or received
    (gloo/transport/tcp/pair.cc: signalException looks neither at rx_ nor at unbound buffers of tx_).
    Such a call ends with the group's timeout, half an hour by default. A run costs some 50 us.
    """

    def __init__(self):
        self._calls, self._ends = queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=_run_calls, args=(self._calls, self._ends), daemon=True).start()

    def __del__(self):
        self._calls.put(None)

    def run(self, call):
        """Raises RuntimeError after abort()."""
        self._calls.put(call)
        result, error = self._ends.get()
        if error is not None:
            raise error
        return result

    def abort(self):
        """Whatever runs goes on where nobody hears of it."""
        self._ends.put((None, RuntimeError("another rank failed")))


@torch.no_grad()
def _run_calls(calls, ends):
    while (call := calls.get()) is not None:
        try:
            ends.put((call(), None))
        except Exception as error:
            ends.put((None, error))
        del call  # and with it the message, whose memory may go
