"""Stop strings: text that ends an answer, although it comes in pieces."""


class StopStrings:
    """Passes text on, up to the first stop string. Text that may be the beginning of a stop string waits for
    more.

    unseen: texts of tokens that answers leave out. They are heard where a stop string has one in it, so that
    it ends the answer, and are never passed on.
    """

    def __init__(self, stops, unseen=()):
        self.stops = [stop for stop in stops if stop]
        self.unseen = {text for text in unseen if any(text in stop for stop in self.stops)}
        self.waiting = ""
        self.seen = []  # by character of `waiting`: whether it is passed on
        self.stopped = False

    def pass_on(self, text, seen=True):
        """The part of all text so far that is new and certain. Sets `stopped` at a stop string."""
        self.waiting += text
        self.seen += [seen] * len(text)
        found = [place for stop in self.stops if (place := self.waiting.find(stop)) >= 0]
        if found:
            self.stopped = True
            return self.take(min(found))
        return self.take(len(self.waiting) - self.beginning())

    def finish(self):
        """The text that still waits, when no more text comes."""
        return "" if self.stopped else self.take(len(self.waiting))

    def beginning(self):
        """Length of the longest end of the text that a stop string begins with."""
        longest = max(map(len, self.stops), default=1) - 1
        for length in range(min(longest, len(self.waiting)), 0, -1):
            if any(stop.startswith(self.waiting[-length:]) for stop in self.stops):
                return length
        return 0

    def take(self, length):
        taken = "".join(letter for letter, seen in zip(self.waiting[:length], self.seen) if seen)
        self.waiting, self.seen = self.waiting[length:], self.seen[length:]
        return taken
