"""The factors of all steps, one schedule after another: its two parts named if they are right, or explained."""

from __future__ import annotations

import torch
from torch import Tensor

from .comparing import at_another_size
from .differences import kind, same, to_number
from .running import call
from .schedule_mistakes import COSINE_MISTAKES, COSINES, HALF, PART, WARM_UP_MISTAKES, WARM_UPS, Form
from .verdict import ReaderError, Wrong

SCHEDULES = ((4, 12), (3, 10), (1, 7), (0, 6))  # warmup_steps, all_steps


def judge_schedule(function) -> str | None:
    """A remark if it is right in another way than the package's; raises Wrong unless it is right."""
    remarks = []
    for number, (w, T) in enumerate(SCHEDULES):
        factors, steps = factors_of(function, w, T), torch.arange(T, dtype=torch.float64)
        check_scale(factors, steps, w, T)
        parts = (slice(0, w), WARM_UPS, WARM_UP_MISTAKES), (slice(w, T), COSINES, COSINE_MISTAKES)
        for part, right, wrong in parts:
            fits = [form for form in right if same(factors[part], form.curve(steps[part], w, T))]
            if not fits:
                named = (form for form in wrong if same(factors[part], form.curve(steps[part], w, T)))
                raise explained(next(named, None), factors, steps, part, right[0], number)
            remarks += [fits[0].message] if number == 0 else []
    return " ".join(filter(None, remarks)) or None


def factors_of(function, w: int, T: int) -> Tensor:
    """The factors of all steps: (T,). Raises Wrong if one is no number."""
    factors = []
    for step in range(T):
        try:
            result = call(function, step, w, T)
        except ReaderError as error:
            if w:
                raise
            start = f"Right with a warm-up, but not without one: here `warmup_steps` is 0.\n{error.message}"
            raise ReaderError(start, error.code, "Divide by `warmup_steps` only if `step < warmup_steps`.") from None
        if to_number(result) is None:
            raise Wrong(f"The factor of a step is one number; got {kind(result)}.")
        factors.append(to_number(result))
    return torch.tensor(factors, dtype=torch.float64)


def check_scale(factors: Tensor, steps: Tensor, w: int, T: int) -> None:
    """Raise Wrong if every factor is right but for the same number times it."""
    for warm_up in WARM_UPS:
        for cosine in COSINES:
            curve = torch.cat([warm_up.curve(steps[:w], w, T), cosine.curve(steps[w:], w, T)])
            times = (factors.max() / curve.max()).item()
            if times > 0 and abs(times - 1) > 1e-3 and same(factors, times * curve):
                raise Wrong(
                    f"Your curve has the right form and is {times:g} times as high: its peak must be 1.",
                    "The optimizer multiplies the factor by the learning rate itself.",
                )


def explained(mistake: Form | None, factors: Tensor, steps: Tensor, part: slice, form: Form, number: int) -> Wrong:
    """The known mistake's sentence, or the first step that is off."""
    w, T = SCHEDULES[number]
    if mistake is not None:
        return Wrong(at_another_size(mistake.message, number, SCHEDULES), mistake.hint)
    expected = form.curve(steps[part], w, T)
    first = int((~torch.isclose(factors[part], expected, rtol=1e-4, atol=1e-5)).nonzero()[0])
    floor = floor_of(factors[part], steps[part], w, T) if part.stop == T else None
    if floor is not None:
        return Wrong(
            at_another_size(f"Your cosine falls only to {floor:.3g}, where it should fall to 0.", number, SCHEDULES),
            HALF,
        )
    when, hint = ("in the warm-up", None) if part.start == 0 and w else ("after the warm-up", PART)
    text = (
        f"Step {part.start + first}, {when}, gives {factors[part][first].item():.4g}; {expected[first].item():.4g} is "
        f"expected.\nThis was with warmup_steps={w} and all_steps={T}."
    )
    return Wrong(at_another_size(text, number, SCHEDULES), hint)


def floor_of(factors: Tensor, steps: Tensor, w: int, T: int) -> float | None:
    """The number that these factors of a right cosine are squeezed towards, in place of 0; None if they are not."""
    for form in COSINES:
        curve = form.curve(steps, w, T)
        floor = ((factors - curve).sum() / (1 - curve).sum()).item()
        if 0 < floor < 1 and same(factors, floor + (1 - floor) * curve):
            return floor
    return None
