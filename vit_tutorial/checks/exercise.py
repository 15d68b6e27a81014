"""An exercise, which judges the reader's code and has a hint and a solution, and the verdict that a notebook shows."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
import threading
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from .running import NotAttempted, Wrong, is_stub, name_of, own_lines, prefixed, show, slip_in, stopped_by, undisturbed

PASSED, NOT_ATTEMPTED, WRONG = "passed", "not attempted", "wrong"

# A sign and a colour for each word. The word alone says everything.
SIGNS = {PASSED: ("✓", "#009E73"), NOT_ATTEMPTED: ("○", "#808080"), WRONG: ("✗", "#D55E00")}


@dataclass(frozen=True)
class Verdict:
    """What a check found. True in a condition only if the exercise is passed.

    `status` is "passed", "not attempted" or "wrong"; `message` says what is wrong; `code` is the reader's
    own line where there is one, shown under the message's first line; `hint` is what to try next.
    """

    exercise: str
    status: str
    message: str = ""
    hint: str = ""
    code: str = ""

    def __bool__(self) -> bool:
        return self.status == PASSED

    @property
    def help(self) -> str:
        return f"Help: `check.{self.exercise}.hint()`, then `check.{self.exercise}.solution()`"

    def __repr__(self) -> str:
        first, *rest = self.message.splitlines() or [""]
        lines = [f"{self.exercise}: {self.status}", wrap(first), textwrap.indent(self.code, "      ")]
        lines += [*map(wrap, rest), "" if self else wrap(self.help)]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        sign, colour = SIGNS[self.status]
        first, *rest = (f"<div>{to_html(line)}</div>" for line in self.message.splitlines() or [""])
        parts = [
            f'<div style="border-left: 4px solid {colour}; padding: 2px 12px; margin: 4px 0; max-width: 54em">',
            f'<div><span style="color: {colour}" aria-hidden="true">{sign}</span> '
            f"<b>{self.exercise}: {self.status}</b></div>",
            first if self.message else "",
            f'<pre style="margin: 6px 0; white-space: pre-wrap">{html.escape(self.code)}</pre>' if self.code else "",
            *rest,
            f"<details><summary>Hint</summary>{to_html(self.hint)}</details>" if self.hint else "",
            "" if self else f"<div><small>{to_html(self.help)}</small></div>",
            "</div>",
        ]
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Shown:
    """A hint or a solution: `source` in a terminal, `markdown` in a notebook."""

    source: str
    markdown: str

    def __repr__(self) -> str:
        return self.source

    def _repr_markdown_(self) -> str:
        return self.markdown


def wrap(paragraph: str) -> str:
    return textwrap.fill(paragraph, 96, initial_indent="  ", subsequent_indent="  ")


def to_html(text: str) -> str:
    """Escape the text, and show `code` between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def exercise(hint: str, solution: Callable, imports: str = "") -> Callable[[Callable], Exercise]:
    """Turn a judge into an exercise: `judge(answer)` raises Wrong unless the answer is right; it may return a remark.

    The judge's name and docstring are the exercise's. `solution` is one right answer, a real function or class under
    the name of the notebook's stub (`my_patchify`, `MyMlp`): the reader is shown its source, after the lines `imports`
    ("import math") if the notebook has not made these imports itself. A class as solution asks the reader for a class.
    """
    return lambda judge: Exercise(judge, hint, solution, imports)


UNTOUCHED = "The stub is still as it was. Fill it in, run its cell, and run the check again."
WORK = {
    "__init__": "it makes the layers, and keeps them as `self.name = ...`.",
    "forward": "it says what comes out for what goes in.",
}


class Exercise:
    """`check.patchify(my_patchify)` → Verdict, `check.patchify.hint()`, `check.patchify.solution()`."""

    def __init__(self, judge: Callable, hint: str, solution: Callable, imports: str = ""):
        self.judge, self.name, self.__doc__ = judge, judge.__name__, inspect.getdoc(judge)
        self.takes = "class" if inspect.isclass(solution) else "function"
        self._hint, self._solution, self._imports = hint, solution, imports
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
        """Judge the answer. An error of the judge's own is not hidden."""
        try:
            self.require_readers(answer)
            with undisturbed(), prefixed(slip_in(answer)):
                remark = self.judge(answer)
        except NotAttempted:
            return Verdict(self.name, NOT_ATTEMPTED, UNTOUCHED, self._hint)
        except Wrong as error:
            wrong = error
        except (Exception, SystemExit) as error:  # from what the reader's code returned: its `__eq__`, its `__len__`
            if not own_lines(error):
                raise
            wrong = stopped_by(error)
        else:
            return Verdict(self.name, PASSED, remark or "")
        return Verdict(self.name, WRONG, wrong.message, wrong.hint or self._hint, wrong.code)

    def hint(self) -> Shown:
        """Say where to look next."""
        return Shown(textwrap.fill(self._hint, 96), self._hint)

    def solution(self) -> Shown:
        """Return one right answer as source code."""
        source = f"{self._imports}\n\n\n{inspect.getsource(self._solution)}".strip("\n")
        return Shown(source, f"```python\n{source}\n```")

    def __repr__(self) -> str:
        return f"check.{self.name}({self.takes}): {(self.__doc__ or '').splitlines()[0]}"

    def require_readers(self, answer) -> None:
        """Raise Wrong with what to pass, if this is not a function (or class) of the reader's."""
        if answer is None or answer is Ellipsis:
            raise NotAttempted
        if isinstance(answer, Tensor) or not callable(answer):
            got = f"{show(answer)[:60]} (of type {type(answer).__name__})"
            got = f"a {show(answer)}: a result, not what makes it" if isinstance(answer, Tensor) else got
            raise Wrong(
                f"The check needs your {self.takes} itself, and got {got}.",
                f"Without brackets: `check.{self.name}({'My…' if self.takes == 'class' else 'my_…'})`. "
                f"The check calls it.",
            )
        name = name_of(answer)
        if self.takes == "class":
            self.require_module_class(answer, name)
        elif inspect.isclass(answer):
            raise Wrong(f"The check needs a function, and got the class `{name}`.")

    def require_module_class(self, answer, name: str) -> None:
        if isinstance(answer, nn.Module):
            raise Wrong(
                "The check needs your class, not an object of it: it builds objects of several sizes itself.",
                f"Without brackets: `check.{self.name}({name})`, not `check.{self.name}({name}(…))`.",
            )
        if not inspect.isclass(answer):
            raise Wrong(f"The check needs your class, and got the function `{name}`.")
        if not issubclass(answer, nn.Module):
            raise Wrong(f"Your class is no module of PyTorch: begin with `class {name}(nn.Module):`.")
        if answer.forward is nn.Module.forward:
            raise Wrong(f"`{name}` has no method `forward`: {WORK['forward']}")
        empty = [method for method in WORK if is_stub(getattr(answer, method))]
        if len(empty) == 2:
            raise NotAttempted
        if empty:
            raise Wrong(f"`{empty[0]}` is empty: {WORK[empty[0]]}")
