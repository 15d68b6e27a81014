"""An exercise: a solution, the trials it is run on, and probes, which find what is wrong with a reader's own result.

The reader's code runs beside the solution. Where the two differ, the probes look at the reader's result in turn: each
yields whether it sees a fault, and the sentence that says so. The first fault that is seen is told.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from .probes import Probes, noise
from .running import Wrong, call, close, is_stub, joined, misfit, same, stopped_by, tensors_in, told_first
from .task import Task, Verdict

UNTOUCHED = "The stub is still as it was. Fill it in, run its cell, and run the check again."
RANDOM = "Two calls with the same input give two results. A new `nn.Parameter` in each call? Dropout that is always on?"
VALUES = "The shape is right, the values are not."
DETACHED = "The values are right, the gradient that flows back is not: look for `.detach()`, `.data` and `.item()`."


@dataclass(kw_only=True, eq=False, repr=False)
class Exercise(Task):
    """Judge the reader's function: `check.patchify(my_patchify)` → Verdict. A `judge` of its own compares otherwise."""

    trials: Sequence[tuple | Callable] = ()  # the arguments of each run, or a function that makes them
    shape: str = ""  # the axes of the result, "(B, N, D)", or "out (T, d); weights (T, T)" for two
    sizes: Callable[..., Mapping[str, int]] = lambda *args: {}  # how long the axes are, for the arguments of a trial
    probes: Callable[..., Probes] = lambda result, expected, *args: ()  # the first thing first
    view: Callable = lambda result, *args: result  # what is compared
    gradients: bool = True  # are they compared?

    takes = "function"

    def __call__(self, answer: object = None) -> Verdict:
        """Judge the answer, under torch's defaults. Its random numbers start from one seed, and are restored."""
        dtype = torch.get_default_dtype()
        try:
            with torch.random.fork_rng(devices=[]), torch.inference_mode(False), torch.enable_grad():
                torch.set_default_dtype(torch.float32)
                torch.default_generator.manual_seed(0)
                self.require(answer)
                if is_stub(answer):
                    return self.verdict("not attempted", UNTOUCHED)
                remark = (self.judge or self.judge_trials)(answer)
                return self.verdict("passed", joined(remark, self.keep(answer) if self.keep else ""))
        except Wrong as found:
            wrong = found
        except Exception as error:  # an honest answer, too: a module that is unhashable, or holds itself
            wrong = stopped_by(error, told="The check stops at what your code returns")
        finally:
            torch.set_default_dtype(dtype)
        return self.verdict(wrong.status, wrong.message, wrong.code)

    def require(self, answer: object) -> None:
        """Raise Wrong with what to pass, if this is not a function (or a class, a module) of the reader's."""
        if isinstance(answer, nn.Module) or inspect.isclass(answer) != (self.takes == "class") or not callable(answer):
            raise Wrong(f"The check needs your {self.takes} itself: write `check.{self.name}({self.answer.__name__})`.")
        if inspect.isclass(answer) and not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")

    def judge_trials(self, answer: Callable) -> None:
        """Raise Wrong unless the reader's code does what the solution does, in every trial."""
        for number, trial in enumerate(self.trials):
            with told_first("Right at the first size tried, wrong at another.\n" if number else ""):
                self.judge_trial(answer, trial)

    def judge_trial(self, answer: Callable, trial: tuple | Callable) -> None:
        """Raise Wrong unless the reader's result, and the gradients that flow back from it, are the solution's."""
        make = trial if callable(trial) else partial(deepcopy, trial)  # a function may change what it is given

        def run(function: Callable, args: tuple):
            return self.view(call(function, *args, sizes=self.sizes(*args)), *args)

        args = make()
        result, expected = run(answer, args), run(self.answer, make())
        if wrong_form := misfit(result, expected, self.shape, self.sizes(*args)):
            raise Wrong(wrong_form)
        if not same(result, expected):
            vague = VALUES if same(run(answer, make()), result) else RANDOM
            raise Wrong(next((told for seen, told in self.probes(result, expected, *args) if seen), vague))
        if self.gradients and not same_gradients(answer, self.answer, make):
            raise Wrong(DETACHED)


def same_gradients(mine: Callable, ours: Callable, make: Callable[[], tuple]) -> bool:
    """Tell whether the same gradients flow back to what `make` returns, compared with their own size."""
    right = gradients(ours, make())
    scales = [max(gradient.abs().max(), 1e-9) for gradient in right]
    return all(close(a / scale, b / scale) for a, b, scale in zip(gradients(mine, make()), right, scales, strict=True))


def gradients(function: Callable, args: tuple) -> tuple[Tensor, ...]:
    """Return the gradients of a fixed weighted sum of the result to the tensors of floats among `args`."""
    inputs = [a.detach().clone().requires_grad_(a.is_floating_point()) if isinstance(a, Tensor) else a for a in args]
    wanted = [tensor for tensor in tensors_in(inputs) if tensor.requires_grad]
    parts = [part * noise(*part.shape, seed=7).to(part) for part in tensors_in([call(function, *inputs)])]
    nothing = [0 * tensor for tensor in wanted]  # zeros where nothing flows
    return torch.autograd.grad(sum(part.sum() for part in (*parts, *nothing)), wanted) if wanted else ()
