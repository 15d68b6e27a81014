"""An exercise: a solution, the trials it is run on, and the slips that people make.

The reader's code runs beside the solution on every trial. A slip is a change in the solution's own source, and the one
that gives the reader's result in *all* trials names the mistake.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from .running import (
    NotAttempted,
    NotJudged,
    Wrong,
    attempt,
    call,
    describe,
    difference,
    joined,
    same,
    show_call,
    slip_in,
    stopped_by,
    tensors_in,
)
from .task import Task, Verdict, source_of

IN_SLIPS = {"torch": torch, "F": F, "rearrange": rearrange}  # what an edit may use, whatever its file imports


class Slip(NamedTuple):
    """A wrong answer that people write, and the sentence that names its symptom."""

    answer: Callable
    message: str


def edited(solution: Callable, *changes: str, **names: object) -> Callable:
    """Return the solution with `changes` (old, new, old, new, …) in its source, and with other meanings of `names`.

    Raises ValueError for a text that is not there: an edit that no longer fits must be noticed.
    """
    source = source_of(solution)
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        if old not in source:
            raise ValueError(f"{old!r} is not in the source of {solution.__name__}")
        source = source.replace(old, new)
    scope = {**IN_SLIPS, **vars(inspect.getmodule(solution)), **names}
    exec(compile(source, f"<{solution.__name__} with a slip>", "exec"), scope)
    return scope[solution.__name__]


def all_for(old: str, table: dict[str, str]) -> dict[str, tuple]:
    """Return a slip for each sentence: `old`, replaced by what the table says."""
    return {message: (old, new) for message, new in table.items()}


class Exercise(Task):
    """Judge the reader's function: `check.patchify(my_patchify)` → Verdict; `.hint()` and `.solution()` help.

    `trials` holds the arguments of each run, or functions that make them where a run uses them up. `slips` has the
    sentence that names a slip, and what makes it: (old, new, old, new, …) in the solution's source, a whole wrong
    answer, or a list of such ways. The edits in `also` leave the solution right. `shape` names the result's axes:
    "(B, N, D)", or "out (T, d); weights (T, T)" for two results. `view(result, *args)` is what is compared, if not the
    result. `more(function)` looks further at a right answer: it may raise Wrong, or return a remark. `judge(function)`
    takes the place of the whole comparison.
    """

    takes = "function"

    def __init__(
        self,
        solution: Callable,
        *,
        trials: Sequence[tuple | Callable] = (),
        slips: Mapping[str, tuple | Callable | list] | None = None,
        also: Sequence[tuple[str, ...]] = (),
        shape: str = "",
        view: Callable = lambda result, *args: result,
        more: Callable = lambda function: None,
        gradients: bool = True,
        **words: str | Callable,
    ):
        super().__init__(solution, **words)
        self.trials = trials
        self.table = slips or {}
        self.also = also
        self.shape = shape
        self.view = view
        self.more = more
        self.judge = self.judge or self.compare
        self.gradients = gradients

    def __call__(self, answer) -> Verdict:
        """Judge the answer. Random numbers start from one seed, and torch's generator is restored afterwards."""
        try:
            with torch.random.fork_rng(devices=[]), torch.enable_grad():
                torch.default_generator.manual_seed(0)
                self.require(answer)
                remark = self.judge(answer)
        except NotAttempted:
            untouched = "The stub is still as it was. Fill it in, run its cell, and run the check again."
            return self.verdict("not attempted", untouched)
        except NotJudged as unclear:
            return self.verdict("not judged", str(unclear))
        except Wrong as error:
            wrong = error
        except Exception as error:  # an honest answer, too: a module that is unhashable, or holds itself
            wrong = stopped_by(error)
        else:
            return self.verdict("passed", remark)
        said = [wrong.message, slip_in(answer)] if wrong.error else [slip_in(answer), wrong.message]
        return self.verdict("wrong", joined(*said), wrong.code)

    @cached_property
    def slips(self) -> list[Slip]:
        """The slips of the table, one for each way, with the edits made."""
        ways = [(message, way) for message, do in self.table.items() for way in (do if isinstance(do, list) else [do])]
        return [Slip(way if callable(way) else edited(self.answer, *way), message) for message, way in ways]

    @cached_property
    def right_ways(self) -> list[Callable]:
        """The solution, and the other ways to be right."""
        return [self.answer, *(edited(self.answer, *way) for way in self.also)]

    def require(self, answer) -> None:
        """Raise Wrong with what to pass, if this is not a function (or class) of the reader's."""
        if isinstance(answer, nn.Module) or inspect.isclass(answer) != (self.takes == "class") or not callable(answer):
            call_it = f"`check.{self.name}({self.answer.__name__})`, without brackets after the name"
            raise Wrong(f"The check needs your {self.takes} itself, and got {describe(answer)}: write {call_it}.")

    def compare(self, answer: Callable) -> str:
        """Raise Wrong unless the reader's code does what the solution does, in every trial; return remarks."""
        return joined(self.judge_trials(answer, self.arrange(answer)), self.more(answer))

    def judge_trials(self, answer: Callable, trials: list) -> str:
        """Raise what is wrong with the results of these trials; return remarks on right ones."""
        results = [self.their_result(answer, trial) for trial in trials]
        right = next((way for way in self.right_ways if self.agrees(way, trials, results)), self.answer)
        expected = [self.our_result(right, trial) for trial in trials]
        wrong = [difference(*pair, self.shape) for pair in zip(results, expected, strict=True)]
        if any(wrong):
            raise self.diagnosis(answer, trials, results, wrong)
        dtypes = [(a.dtype, b.dtype) for a, b in zip(tensors_in(results), tensors_in(expected), strict=False)]
        other = next((f"your result is {a}, and the solution's {b}." for a, b in dtypes if a != b), "")
        return joined(other and f"One thing to know: {other}", self.look_closer(answer, right, trials[0]))

    def arrange(self, function: Callable) -> list[Callable]:
        """Return what makes the arguments of every run: a function may change what it is given."""
        return [trial if callable(trial) else partial(deepcopy, trial) for trial in self.trials]

    def their_result(self, function: Callable, trial: Callable):
        """Return what is compared of the reader's result; as a Wrong what stops it."""
        args = trial()
        result = attempt(call, function, *args)
        return result if isinstance(result, Wrong) else self.view(result, *args)

    def our_result(self, function: Callable, trial: Callable):
        """Return what is compared of the result of the solution or of a slip; or the error with which it stops."""
        args = trial()
        return attempt(lambda: self.view(function(*args), *args))

    def agrees(self, way: Callable, trials: list, results: list) -> bool:
        """Tell whether the solution, or a change of it, gives the reader's results in all trials."""
        return all(same(result, self.our_result(way, trial)) for trial, result in zip(trials, results, strict=True))

    def look_closer(self, function: Callable, right: Callable, trial: Callable) -> str | None:
        """Raise Wrong if other gradients flow back."""
        if self.gradients and not same(gradients(function, trial()), gradients(right, trial())):
            raise Wrong(DETACHED)

    def diagnosis(self, answer: Callable, trials: list, results: list, wrong: list[str | None]) -> Exception:
        """Return what to say of these results: the slip that explains them all, or what is wrong in the first trial."""
        number = next(i for i, text in enumerate(wrong) if text)
        result, trial, text = results[number], trials[number], wrong[number]
        slip = next((slip.message for slip in self.slips if self.agrees(slip.answer, trials, results)), "")
        meaning = slip or self.where_right(trials, number)
        if isinstance(result, Wrong):
            return Wrong(joined(result.message, meaning), result.code, result.error)
        if slip:
            return Wrong(slip)
        if "wrong values" in text and not same(self.their_result(answer, trial), result):
            return Wrong(RANDOM)
        return self.unexplained(answer, trial, result, text, meaning)

    def where_right(self, trials: list, number: int) -> str:
        """Say where code that is wrong in trial `number` is right; empty if it is wrong in the first one."""
        return WRITTEN_IN if number > 0 else ""

    def unexplained(self, function: Callable, trial: Callable, result, text: str, where: str) -> Exception:
        """Return what to say of a wrong result that no slip explains."""
        return Wrong(joined(text, f"This was `{show_call(function, trial())}`.", where))


WRITTEN_IN = "Right at the first size tried, wrong at another: is a size or a batch written into your code?"
RANDOM = "Two calls with the same input give two results: something in it is random."
DETACHED = (
    "The values are right, but the gradient that flows back is not: look for `.detach()`, `.data`, `.item()`, "
    "`no_grad` and `torch.tensor(...)`."
)


def gradients(function: Callable, args: tuple) -> list[Tensor]:
    """Return the gradients that the result sends back to the tensors of floats among `args`."""
    inputs = [a.detach().clone().requires_grad_(a.is_floating_point()) if isinstance(a, Tensor) else a for a in args]
    wanted = [tensor for tensor in tensors_in(inputs) if tensor.requires_grad]
    return gradients_of(call(function, *inputs), wanted) if wanted else []


def gradients_of(result, wanted: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients of a fixed weighted sum of the result; zeros where nothing flows."""
    total = sum((part * noise(*part.shape, seed=7).to(part)).sum() for part in tensors_in([result]))
    nothing = sum(0 * tensor.sum() for tensor in wanted)
    return list(torch.autograd.grad(total + nothing, wanted))


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Return random values, the same for the same shape and seed."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
