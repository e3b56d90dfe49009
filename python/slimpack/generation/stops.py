"""Stop strings: text that ends an answer, although it comes in pieces."""


class StopStrings:
    """Passes text on, up to the first stop string. What may be the beginning of one waits for more."""

    def __init__(self, stops):
        self.stops = [stop for stop in stops if stop]
        self.waiting = ""
        self.stopped = False

    def pass_on(self, text):
        """The part of all text so far that is new and certain. Sets `stopped` at a stop string."""
        self.waiting += text
        found = [place for stop in self.stops if (place := self.waiting.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self.take(min(found))
        return self.take(len(self.waiting) - self.beginning())

    def finish(self):
        """What still waits, when no more text comes."""
        return "" if self.stopped else self.take(len(self.waiting))

    def beginning(self):
        """Length of the longest end of the text that a stop string begins with."""
        longest = max(map(len, self.stops), default=1) - 1
        for length in range(min(longest, len(self.waiting)), 0, -1):
            if any(stop.startswith(self.waiting[-length:]) for stop in self.stops):
                return length
        return 0

    def take(self, length):
        taken, self.waiting = self.waiting[:length], self.waiting[length:]
        return taken
