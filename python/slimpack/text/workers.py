"""Batches encoded by several processes, in order.

Processes are started anew (spawn) and talk through a pipe each. So a worker ends by itself when the
process that started it is killed, and its death is noticed at once."""

import multiprocessing
import signal
from multiprocessing import resource_tracker
from multiprocessing.connection import wait

from slimpack.text.encoding import keep_to_one_thread
from slimpack.text.errors import BadDocument, BadInput, Failed

AHEAD = 4  # batches for each process that may wait for an earlier one


def encode_in_order(batches, make_encoder, processes):
    """EncodedBatch of each batch, in the order of the batches. An error of a batch is raised when
    all batches before it have been given out, so errors do not depend on the number of
    processes. make_encoder: a callable that pickles."""
    if processes == 1:
        keep_to_one_thread()
        encoder = make_encoder()
        yield from map(encoder.encode, batches)
        return
    workers = [Worker(make_encoder) for _ in range(processes)]
    try:
        yield from Dispatch(workers, batches).results()
    finally:
        for worker in workers:
            worker.stop()


class Worker:
    def __init__(self, make_encoder):
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(theirs, make_encoder), daemon=True)
        resource_tracker.ensure_running()  # else start() does that, and unblocks SIGINT in its end
        # Ctrl-C is for this process. The new one inherits the mask, before it could ignore signals.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.number = None  # of the batch that it has

    def send(self, number, batch):
        self.number = number
        try:
            self.connection.send(batch)
        except OSError:
            self.lost()

    def receive(self):
        """Number and result of its batch."""
        try:
            return self.number, self.connection.recv()
        except (EOFError, OSError):
            return self.lost()

    def lost(self):
        self.process.join()
        code = self.process.exitcode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        raise Failed(f"a process that encodes was lost ({how}), perhaps for lack of memory; run "
                     "the same command again, with fewer --processes: it goes on where it stopped")

    def stop(self):
        self.connection.close()
        self.process.terminate()
        self.process.join()


class Dispatch:
    """Sends batches to idle workers and gives results out in order."""

    def __init__(self, workers, batches):
        self.batches = batches
        self.idle = list(workers)
        self.busy = {}  # by connection
        self.limit = AHEAD * len(workers)
        self.sent = 0
        self.given = 0
        self.finished = {}  # results by number
        self.stop = None  # what ended the reading of batches, None while it goes on

    def results(self):
        while True:
            self.feed()
            if not self.busy and self.stop:
                break
            for connection in wait(list(self.busy)):
                worker = self.busy.pop(connection)
                number, result = worker.receive()
                self.finished[number] = result
                self.idle.append(worker)
            yield from self.due()
        if not isinstance(self.stop, StopIteration):
            raise self.stop

    def feed(self):
        while self.idle and not self.stop and self.sent - self.given < self.limit:
            try:
                batch = next(self.batches)
            except (StopIteration, BadInput) as end:
                self.stop = end
                return
            worker = self.idle.pop()
            worker.send(self.sent, batch)
            self.busy[worker.connection] = worker
            self.sent += 1

    def due(self):
        while self.given in self.finished:
            result = self.finished.pop(self.given)
            self.given += 1
            if isinstance(result, (BadDocument, Failed)):
                raise result
            yield result


def work(connection, make_encoder):
    """One worker: until nobody is at the other end."""
    keep_to_one_thread()
    encoder = make_encoder()
    try:
        while True:
            batch = connection.recv()
            try:
                result = encoder.encode(batch)
            except BadDocument as error:
                result = error
            except Exception as error:  # told by the process that started this one
                result = Failed(f"a process that encodes ended: {type(error).__name__}: {error}")
            connection.send(result)
    except (EOFError, OSError):
        return
