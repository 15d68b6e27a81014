"""An exercise: a judge of the reader's code, with a hint and a solution."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable

from torch import Tensor, nn

from .running import is_stub, name_of, show, stopped_by, undisturbed
from .stopping import readers_frame
from .verdict import NOT_ATTEMPTED, PASSED, WRONG, Hint, NotAttempted, ReaderError, Solution, Verdict, Wrong

UNTOUCHED = "The stub is still as it was. Fill it in, run its cell, and run the check again."


def exercise(hint: str, solution: str, takes: str = "function") -> Callable[[Callable], Exercise]:
    """Make an exercise of a judge: `judge(answer)` raises Wrong unless the answer is right; it may return a remark.

    The judge's name is the exercise's, its docstring the exercise's. `takes` is "function" or "class".
    """
    return lambda judge: Exercise(judge, hint, solution.strip("\n"), takes)


WORK = {
    "__init__": "it makes the layers, and keeps them as `self.name = ...`.",
    "forward": "it says what comes out for what goes in.",
}


class Exercise:
    """`check.patchify(my_patchify)` → Verdict, `check.patchify.hint()`, `check.patchify.solution()`."""

    def __init__(self, judge: Callable, hint: str, solution: str, takes: str):
        self.judge, self.takes, self.name, self.__doc__ = judge, takes, judge.__name__, inspect.getdoc(judge)
        self._hint, self._solution = Hint(hint), Solution(solution)
        self.threads: set[int] = set()  # those in which it is at work

    def __call__(self, answer) -> Verdict:
        if (thread := threading.get_ident()) in self.threads:  # would begin again with each of its calls
            raise RuntimeError(f"your code calls check.{self.name} while it is being checked: take that line out of it")
        self.threads.add(thread)
        try:
            return self.verdict(answer)
        finally:
            self.threads.remove(thread)

    def verdict(self, answer) -> Verdict:
        """What to say of the answer."""
        try:
            self.check_answer(answer)
            with undisturbed():
                remark = self.judge(answer)
        except NotAttempted:
            return Verdict(self.name, NOT_ATTEMPTED, UNTOUCHED, self._hint.text)
        except ReaderError as error:
            return Verdict(self.name, WRONG, error.message, error.hint or self._hint.text, error.code)
        except Wrong as wrong:
            return Verdict(self.name, WRONG, wrong.message, wrong.hint or self._hint.text)
        except (Exception, SystemExit) as error:  # from what the reader's code returned: its `__eq__`, its `__len__`
            found = readers_frame(error.__traceback__)
            if found is None or found[0].f_code is self.judge.__code__:
                raise
            stop = stopped_by(error)
            return Verdict(self.name, WRONG, stop.message, self._hint.text, stop.code)
        return Verdict(self.name, PASSED, remark or "")

    def hint(self) -> Hint:
        """Where to look next."""
        return self._hint

    def solution(self) -> Solution:
        """One right answer, as source code."""
        return self._solution

    def __repr__(self) -> str:
        return f"check.{self.name}({self.takes}): {(self.__doc__ or '').splitlines()[0]}"

    def check_answer(self, answer) -> None:
        """Raise Wrong with what to pass, if it is not a function (or class) of the reader's."""
        if answer is None or answer is Ellipsis:
            raise NotAttempted
        if isinstance(answer, Tensor) or not callable(answer):
            raise Wrong(
                f"The check needs your {self.takes} itself, and got {describe(answer)}.",
                f"Without brackets: `check.{self.name}({'My…' if self.takes == 'class' else 'my_…'})`. "
                f"The check calls it.",
            )
        if self.takes == "class":
            self.check_class(answer)
        elif inspect.isclass(answer):
            raise Wrong(f"The check needs a function, and got the class `{answer.__name__}`.")

    def check_class(self, answer) -> None:
        if isinstance(answer, nn.Module):
            kind = type(answer).__name__
            raise Wrong(
                "The check needs your class, not an object of it: it builds objects of several sizes itself.",
                f"Without brackets: `check.{self.name}({kind})`, not `check.{self.name}({kind}(…))`.",
            )
        if not inspect.isclass(answer):
            raise Wrong(f"The check needs your class, and got the function `{name_of(answer)}`.")
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {answer.__name__}(nn.Module):`.")
        if answer.forward is nn.Module.forward:
            raise Wrong(f"`{answer.__name__}` has no method `forward`: {WORK['forward']}")
        empty = [name for name in ("__init__", "forward") if is_stub(getattr(answer, name))]
        if len(empty) == 2:
            raise NotAttempted
        if empty:
            raise Wrong(f"`{empty[0]}` is empty: {WORK[empty[0]]}")


def describe(answer) -> str:
    if isinstance(answer, Tensor):
        return f"a {show(answer)}: a result, not what makes it"
    return f"{show(answer)[:60]} (of type {type(answer).__name__})"
