"""Means of ratios with confidence intervals."""

import math
import random
import statistics

RESAMPLES = 2000


def geometric_mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def interval(ratios, level=0.95, seed=1):
    """(geometric mean, lower, upper) over prompts, by the bootstrap's percentiles."""
    draw = random.Random(seed)
    means = sorted(geometric_mean(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    outside = int((1 - level) / 2 * RESAMPLES)
    return geometric_mean(ratios), means[outside], means[-1 - outside]
