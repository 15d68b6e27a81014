"""An exercise: a solution, the trials it is run on, and probes, which ask what is wrong with a reader's own result.

The reader's code runs beside the solution. Where the two differ, the probes are asked in turn: each yields whether a
property of the result holds, and what to say if it does not.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn

from .probes import Probes, noise
from .running import Wrong, call, is_stub, joined, misfit, same, slip_in, stopped_by, tensors_in, value_difference
from .task import Task, Verdict

UNTOUCHED = "The stub is still as it was. Fill it in, run its cell, and run the check again."
WRITTEN_IN = "Right at the first size tried, wrong at another."
RANDOM = "Two calls with the same input give two results: something in it is random."
DETACHED = (
    "The values are right, but the gradient that flows back is not: look for `.detach()`, `.data`, `.item()`, "
    "`no_grad` and `torch.tensor(...)`."
)


class Exercise(Task):
    """Judge the reader's function: `check.patchify(my_patchify)` → Verdict; `.hint()` and `.solution()` help.

    `trials` holds the arguments of each run, or functions that make them where a run uses them up; `stages` what was
    right before each. `probes(result, expected, *args)` yields (holds, symptom), the first thing first. `shape` names
    the axes of the result, "(B, N, D)", or "out (T, d); weights (T, T)" for two; `sizes(*args)` says how long they are.
    `view(result, *args)` is what is compared, if not the result. `more(function)` looks further at a right answer: it
    may raise Wrong, or return a remark. `judge(function)` takes the place of the whole comparison.
    """

    takes = "function"

    def __init__(
        self,
        solution: Callable,
        *,
        trials: Sequence[tuple | Callable] = (),
        stages: Sequence[str] = ("",),
        probes: Callable[..., Probes] = lambda *given: (),
        shape: str = "",
        sizes: Callable[..., Mapping[str, int]] = lambda *args: {},
        view: Callable = lambda result, *args: result,
        more: Callable = lambda answer: "",
        gradients: bool = True,
        **words: str | Callable,
    ):
        super().__init__(solution, **words)
        self.trials, self.stages, self.probes, self.shape, self.sizes = trials, stages, probes, shape, sizes
        self.view, self.more, self.gradients = view, more, gradients
        self.judge = self.judge or (lambda answer: joined(self.judge_trials(answer), self.more(answer)))

    def __call__(self, answer) -> Verdict:
        """Judge the answer, under torch's defaults. Random numbers start from one seed; all is restored afterwards."""
        dtype = torch.get_default_dtype()
        try:
            with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
                torch.set_default_dtype(torch.float32)
                torch.default_generator.manual_seed(0)
                self.require(answer)
                if is_stub(answer):
                    return self.verdict("not attempted", UNTOUCHED)
                said = self.judge(answer)
                return self.verdict("passed", joined(said, self.keep(self, answer) if self.keep else ""))
        except Wrong as found:
            wrong = found
        except Exception as error:  # an honest answer, too: a module that is unhashable, or holds itself
            wrong = stopped_by(error, {}, "The check stops at what your code returns")
        finally:
            torch.set_default_dtype(dtype)
        slip = slip_in(answer) if wrong.status == "wrong" else ""
        told = [wrong.message, slip] if wrong.error else [slip, wrong.message]
        return self.verdict(wrong.status, joined(*told), wrong.code)

    def require(self, answer) -> None:
        """Raise Wrong with what to pass, if this is not a function (or class) of the reader's."""
        if isinstance(answer, nn.Module) or inspect.isclass(answer) != (self.takes == "class") or not callable(answer):
            call_it = f"`check.{self.name}({self.answer.__name__})`, without brackets after the name"
            raise Wrong(f"The check needs your {self.takes} itself: write {call_it}.")

    def judge_trials(self, answer: Callable) -> str:
        """Raise Wrong unless the reader's code does what the solution does, in every trial; return remarks."""
        remarks = []
        for number, trial in enumerate(self.trials):
            try:
                remarks.append(self.judge_trial(answer, trial))
            except Wrong as wrong:
                before = self.stages[number] if number < len(self.stages) else WRITTEN_IN
                wrong.message = joined(before, wrong.message)
                raise
        return joined(*dict.fromkeys(remarks))

    def judge_trial(self, answer: Callable, trial: tuple | Callable) -> str:
        """Raise Wrong unless the reader's result is the solution's; return a remark on another dtype."""
        make = trial if callable(trial) else partial(deepcopy, trial)  # a function may change what it is given

        def run(function: Callable, args: tuple):
            return self.view(call(function, *args, sizes=self.sizes(*args)), *args)

        args = make()
        result, expected = run(answer, args), run(self.answer, make())
        if wrong_form := misfit(result, expected, self.shape, self.sizes(*args)):
            raise Wrong(wrong_form)
        if not same(result, expected):
            raise Wrong(self.symptom(result, expected, args) if same(run(answer, make()), result) else RANDOM)
        if self.gradients and not same(gradients(answer, make()), gradients(self.answer, make())):
            raise Wrong(DETACHED)
        dtypes = {tensor.dtype for tensor in tensors_in([result])} - {tensor.dtype for tensor in tensors_in([expected])}
        return f"One thing to know: your result is {dtypes.pop()}, and the solution's is not." if dtypes else ""

    def symptom(self, result, expected, args: tuple) -> str:
        """Return the first thing that is wrong with a result of the right form."""
        told = (text for holds, text in self.probes(result, expected, *args) if not holds)
        return next(told, "") or value_difference(result, expected)


def gradients(function: Callable, args: tuple) -> list[Tensor]:
    """Return the gradients of a fixed weighted sum of the result to the tensors of floats among `args`."""
    inputs = [a.detach().clone().requires_grad_(a.is_floating_point()) if isinstance(a, Tensor) else a for a in args]
    wanted = [tensor for tensor in tensors_in(inputs) if tensor.requires_grad]
    results = tensors_in([call(function, *inputs)]) if wanted else []
    total = sum((part * noise(*part.shape, seed=7).to(part)).sum() for part in results)
    nothing = sum(0 * tensor.sum() for tensor in wanted)  # zeros where nothing flows
    return list(torch.autograd.grad(total + nothing, wanted)) if wanted else []
