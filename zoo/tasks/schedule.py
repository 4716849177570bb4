"""How the learning rate moves, as a pure function of the step."""

import math

from zoo.described import Described


class Schedule(Described):
    """What a ``schedule`` slot takes: ``factor(step, total)`` multiplies the optimizer's learning rate at each step."""

    def factor(self, step: int, total: float) -> float:
        """``step`` counts optimizer steps from 0; ``total`` is how many there will be, infinite if nobody knows."""
        raise NotImplementedError


class Constant(Schedule):
    """After ``warmup`` (steps, or a share of all if below 1), the full rate."""

    def __init__(self, warmup: float = 0.0):
        self.warmup = warmup

    def factor(self, step: int, total: float) -> float:
        return ramp(step, total, self.warmup)


class WarmupCosine(Schedule):
    """Up in a straight line for ``warmup`` (steps, or a share of all if below 1), then down half a cosine to ``final``
    times the full rate (Loshchilov & Hutter 2016)."""

    def __init__(self, warmup: float = 0.05, final: float = 0.0):
        self.warmup, self.final = warmup, final

    def factor(self, step: int, total: float) -> float:
        rest = progress(step, total, self.warmup)
        return ramp(step, total, self.warmup) * (self.final + (1 - self.final) * (1 + math.cos(math.pi * rest)) / 2)


class WarmupLinear(Schedule):
    """Up, then down in a straight line to ``final`` (BERT, Devlin et al. 2018)."""

    def __init__(self, warmup: float = 0.05, final: float = 0.0):
        self.warmup, self.final = warmup, final

    def factor(self, step: int, total: float) -> float:
        rest = progress(step, total, self.warmup)
        return ramp(step, total, self.warmup) * (1 - (1 - self.final) * rest)


class InverseSquareRoot(Schedule):
    """Up for ``warmup`` steps, then falling as 1 / sqrt(step) (Vaswani et al. 2017, equation 3)."""

    def __init__(self, warmup: float = 4000):
        self.warmup = warmup

    def factor(self, step: int, total: float) -> float:
        start = max(1.0, length(total, self.warmup))
        return min(step / start, math.sqrt(start / max(step, 1)))


class Trapezoid(Schedule):
    """Up for ``warmup``, level, then down in a straight line over the last ``cooldown`` share (Zhai et al. 2022)."""

    def __init__(self, warmup: float = 0.05, cooldown: float = 0.3):
        self.warmup, self.cooldown = warmup, cooldown

    def factor(self, step: int, total: float) -> float:
        down = (total - step) / (self.cooldown * total) if self.cooldown and math.isfinite(total) else 1.0
        return min(ramp(step, total, self.warmup), max(0.0, min(1.0, down)))


def length(total: float, warmup: float) -> float:
    """Steps of warm-up: ``warmup`` itself, or that share of ``total`` if below 1 (0 while ``total`` is unknown)."""
    return warmup if warmup >= 1 else warmup * total if math.isfinite(total) else 0.0


def ramp(step: int, total: float, warmup: float) -> float:
    """0 to 1 over the warm-up; the very first step is taken at the rate of the second."""
    if warmup and not math.isfinite(total) and warmup < 1:
        return 0.0 if step == 0 else 1.0
    steps = length(total, warmup)
    return 1.0 if step >= steps else min(1.0, max(step, 1) / steps)


def progress(step: int, total: float, warmup: float) -> float:
    """0 to 1 from the end of the warm-up to the end of training."""
    if not math.isfinite(total):
        return 0.0
    start = length(total, warmup)
    return min(1.0, max(0.0, (step - start) / max(1.0, total - start)))
