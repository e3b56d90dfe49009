"""Whether a job fits its machine."""

from slimpack.report import Report


class Fit(Report):
    """Made by `Job.fit`. `figures` has the printed figures, by stage, and the changed jobs that fit."""

    def __bool__(self):
        """Whether the job fits as it is."""
        return self.figures["fits"]

    @property
    def options(self):
        """Changed jobs that fit, mildest first: dicts with "settings" and what they take."""
        return self.figures["options"]

    def __repr__(self):
        return f"<slimpack.Fit: {'fits' if self else f'does not fit, {len(self.options)} options'}>"
