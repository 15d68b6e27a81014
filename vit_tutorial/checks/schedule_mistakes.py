"""Warm-up and cosine as people write them: right in several ways, and wrong, each with what the curve looks like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor


class Form(NamedTuple):
    """One part of a schedule: `curve(s, w, T)` are the factors of the steps `s`, for w of T steps of warm-up."""

    curve: Callable[[Tensor, int, int], Tensor]
    message: str
    hint: str | None = None


def half_cosine(p: Tensor) -> Tensor:
    return (1 + torch.cos(torch.pi * p)) / 2


def along(shape: Callable[[Tensor], Tensor], phase: Callable, s: Tensor, w: int, T: int) -> Tensor:
    """A curve over the part p of the way: from 0, at the end of the warm-up, to 1."""
    return shape(phase(s, w, T))


def forms(curves: list[Callable], message: str, hint: str | None = None) -> list[Form]:
    return [Form(curve, message, hint) for curve in curves]


def falls(shape: Callable[[Tensor], Tensor], message: str, hint: str | None = None) -> list[Form]:
    """A wrong shape, with every right way of counting the steps."""
    return forms([partial(along, shape, phase) for phase, _ in PHASES], message, hint)


# Right: the package's way first. The messages are remarks.
STARTS_AT_0 = "Your warm-up starts at 0: the first step changes nothing. The package's starts at 1 / warmup_steps."
ENDS_AT_0 = "Your cosine is 0 at the last step: that step changes nothing. The package's would be 0 one step later."
WARM_UPS = [
    Form(lambda s, w, T: (s + 1) / w, ""),
    Form(lambda s, w, T: s / w, STARTS_AT_0),
    Form(lambda s, w, T: s / max(w - 1, 1), STARTS_AT_0),
    Form(lambda s, w, T: (s + 1) / (w + 1), "Your warm-up reaches 1 one step later than the package's."),
]
PHASES = [
    (lambda s, w, T: (s - w) / (T - w), ""),
    (lambda s, w, T: (s - w) / (T - w - 1), ENDS_AT_0),
    (lambda s, w, T: (s + 1 - w) / (T - w), ENDS_AT_0),
    (lambda s, w, T: (s + 1 - w) / (T - w + 1), "Your cosine is up to one step ahead of the package's."),
]
COSINES = [Form(partial(along, half_cosine, phase), remark) for phase, remark in PHASES]

LINE = "Step 0 gives 1 / warmup_steps, the next 2 / warmup_steps, and so on up to 1: `(step + 1) / warmup_steps`."
HALF = "With p from 0 to 1, `(1 + math.cos(math.pi * p)) / 2` runs from 1 to 0."
PART = "The cosine's part of the way: p = (step - warmup_steps) / (all_steps - warmup_steps), from 0 to 1."

WARM_UP_MISTAKES = [
    *forms([lambda s, w, T: torch.ones_like(s)], "There is no warm-up: the factor is 1 from the first step on.", LINE),
    *forms([lambda s, w, T: half_cosine(s / T), lambda s, w, T: half_cosine(s / (T - 1)),
            lambda s, w, T: half_cosine((s + 1) / T), *(form.curve for form in COSINES)],
           "There is no warm-up: the cosine runs from the first step on.", LINE),
    *forms([lambda s, w, T: 0 * s, lambda s, w, T: (s + 1) // w],
           "Your warm-up stays at 0, where it should rise step by step: does `//` cut off the fraction?",
           "`/` divides with a fraction, `//` without."),
    *forms([lambda s, w, T: (w - s) / w, lambda s, w, T: (w - s - 1) / w, lambda s, w, T: (w - s) / (w + 1)],
           "Your warm-up falls. It starts small, and rises to 1.", LINE),
    *forms([lambda s, w, T: (s + 1) / T, lambda s, w, T: s / T],
           "Your warm-up is divided by `all_steps`: it ends far below 1.", LINE),
    *forms([lambda s, w, T: s + 1, lambda s, w, T: s], "Your warm-up counts the steps: it is not divided.", LINE),
    *forms([lambda s, w, T, warm=warm, fall=fall: warm.curve(s, w, T) * fall(s, w, T) for warm in WARM_UPS for fall in
            (*(form.curve for form in COSINES), lambda s, w, T: half_cosine(s / T),
             lambda s, w, T: half_cosine(s / (T - 1)))],
           "Warm-up and cosine are multiplied: the cosine is at work already in the warm-up.",
           "One or the other: `if step < warmup_steps`, return the warm-up's factor."),
    *forms([lambda s, w, T, warm=warm, bend=bend: bend(warm.curve(s, w, T)) for warm in WARM_UPS for bend in
            (lambda p: 1 - half_cosine(p), lambda p: torch.sin(torch.pi * p / 2), torch.square, torch.sqrt,
             lambda p: 1 - torch.cos(torch.pi * p / 2))],
           "Your warm-up ends where it should, but is bent. A straight line is asked.", LINE),
]  # fmt: skip

COSINE_MISTAKES = [
    *forms([lambda s, w, T: half_cosine(s / T), lambda s, w, T: half_cosine((s + 1) / T),
            lambda s, w, T: half_cosine(s / (T - 1)), lambda s, w, T: half_cosine(s / (T - w))],
           "After the warm-up your curve jumps down: the cosine is counted from step 0, and has gone part of its way "
           "already.", PART),
    *forms([lambda s, w, T: half_cosine((s - w) / T), lambda s, w, T: half_cosine((s - w + 1) / T)],
           "Your cosine is not down at the end: it is stretched over all steps, and the warm-up has used up some.",
           PART),
    *falls(lambda p: half_cosine(2 * p), "Your cosine is down in the middle, and rises again to the end: its angle is "
           "twice too large. π is half a turn.", HALF),
    *falls(lambda p: half_cosine(p / 2), "Your cosine goes only half of its way down, to 0.5: its angle is half of "
           "what it should be.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p), "Your factor falls below 0, towards -1: a cosine runs from 1 to -1.",
           HALF),
    *falls(lambda p: torch.cos(torch.pi * p).clamp(min=0), "Your factor is 0 for the whole second half: a cosine runs "
           "from 1 to -1, and what is below 0 is cut off.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p / 2), "You take a quarter of a cosine: it is steepest at the end. Half a "
           "cosine ends as flat as it begins.", HALF),
    *falls(lambda p: 2 * half_cosine(p), "At the end of the warm-up your factor jumps to 2: 1 + cos runs from 2 to 0.",
           HALF),
    *falls(lambda p: 1 + torch.cos(torch.pi * p) / 2, "Your factor runs from 1.5 to 0.5: only the cosine is halved, "
           "not the sum.", HALF),
    *falls(lambda p: torch.cos(torch.pi * p) / 2, "Your factor runs from 0.5 to -0.5: the cosine is halved, and not "
           "lifted.", HALF),
    *falls(lambda p: 0.5 + torch.cos(torch.pi * p), "Your factor runs from 1.5 to -0.5: the cosine is not halved.",
           HALF),
    *falls(lambda p: 1 - half_cosine(p), "Your cosine rises, from 0 to 1: it is upside down.", HALF),
    *falls(lambda p: half_cosine(180 / torch.pi * p), "Your factor goes up and down: the cosine gets 180 for half a "
           "turn, and reads it as radians.", HALF),
    *falls(lambda p: half_cosine(p / torch.pi), "Your factor falls only to about 0.8: the angle runs to 1, not "
           "to π.", HALF),
    *falls(lambda p: (1 + torch.sin(torch.pi * p)) / 2, "Your factor goes from 0.5 up to 1 and back: a sine, not a "
           "cosine.", HALF),
    *falls(lambda p: 1 - p, "Your factor falls on a straight line. Half a cosine is asked.", HALF),
    *forms([lambda s, w, T: (T - s) / T, lambda s, w, T: (T - s - 1) / T],
           "Your factor falls on a straight line, and is counted from step 0. Half a cosine is asked.", HALF),
    *falls(lambda p: p, "After the warm-up your factor rises from 0 to 1: that is the part of the way gone, p, without "
           "the cosine.", HALF),
    *forms([lambda s, w, T: torch.ones_like(s), lambda s, w, T: ((s - w) // (T - w - 1) == 0).to(s),
            *(partial(along, lambda p, turn=turn: half_cosine(turn * p / 180), phase)
              for phase, _ in PHASES for turn in (1, torch.pi))],
           "After the warm-up your factor stays at 1, or very near it. Is there no cosine yet? Does `//` cut off the "
           "fraction? Or are degrees turned into radians, where there are none?", HALF),
    *forms([lambda s, w, T: 0 * s], "After the warm-up your factor is 0: nothing is learned any more.", HALF),
    *forms([lambda s, w, T: (s + 1) / max(w, 1), lambda s, w, T: s / max(w, 1)],
           "Your warm-up never ends: the factor rises above 1.", "`if step < warmup_steps`: only then the warm-up."),
    *forms([lambda s, w, T, form=form: torch.where(s == w, (w + 1) / max(w, 1), form.curve(s, w, T))
            for form in COSINES],
           "At step `warmup_steps` your factor is above 1: the warm-up lasts one step too long.",
           "The warm-up is `step < warmup_steps`, not `<=`: the steps are counted from 0."),
]  # fmt: skip
