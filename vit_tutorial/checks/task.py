"""What a reader is asked to do, and what they are told: a task, its hint and its solution, and the verdict."""

from __future__ import annotations

import html
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from .running import Wrong

# A sign and a colour for each status. The word alone says everything.
SIGNS = {"passed": "✓ #009E73", "not attempted": "○ #808080", "not judged": "? #0072B2", "wrong": "✗ #D55E00"}


@dataclass(frozen=True)
class Verdict:
    """What a check found. True in a condition only if the exercise is passed.

    `message` says why; `code` is the reader's own line, where an error stopped it, and is shown under the message's
    first line; `hint` is what to try next.
    """

    exercise: str
    status: str
    message: str = ""
    hint: str = ""
    code: str = ""

    def __bool__(self) -> bool:
        return self.status == "passed"

    @property
    def help(self) -> str:
        return "" if self else f"Help: `check.{self.exercise}.hint()`, then `check.{self.exercise}.solution()`"

    def __repr__(self) -> str:
        first, *rest = self.message.splitlines() or [""]
        lines = [wrap(first), textwrap.indent(self.code, "      "), *map(wrap, [*rest, self.help])]
        return "\n".join([f"{self.exercise}: {self.status}", *filter(None, lines)])

    def _repr_html_(self) -> str:
        sign, colour = SIGNS[self.status].split()
        first, *rest = (f"<div>{to_html(line)}</div>" for line in self.message.splitlines() or [""])
        code = f'<pre style="margin: 6px 0; white-space: pre-wrap">{html.escape(self.code)}</pre>' if self.code else ""
        hint = f"<details><summary>Hint</summary>{to_html(self.hint)}</details>" if self.hint else ""
        mark = f'<span style="color: {colour}" aria-hidden="true">{sign}</span>'
        return "\n".join([
            f'<div style="border-left: 4px solid {colour}; padding: 2px 12px; margin: 4px 0; max-width: 54em">',
            f"<div>{mark} <b>{self.exercise}: {self.status}</b></div>",
            *(first, code, *rest, hint),
            f"<div><small>{to_html(self.help)}</small></div>",
            "</div>",
        ])  # fmt: skip


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


class Task:
    """What the reader is asked to do, with a hint and one solution. Children judge what was done when they are called.

    The solution has the name of the notebook's stub, and is shown after the lines `imports`. `task` is one line for the
    list of all tasks. `judge` looks at what was done: it raises Wrong, or returns a remark.
    """

    takes: str
    keep: Callable | None = None  # what to do with an answer that passed: `keep(task, answer)` says so in one line

    def __init__(self, solution: Callable, *, task: str, hint: str, imports: str = "", judge: Callable | None = None):
        self.answer, self.__doc__, self._hint, self.imports, self.judge = solution, task, hint, imports, judge
        self.name = re.sub(r"(?<!^)(?=[A-Z])", "_", solution.__name__).lower().removeprefix("my_")

    def __repr__(self) -> str:
        return f"check.{self.name}({self.takes}): {self.__doc__}"

    def hint(self) -> Shown:
        """Say where to look next."""
        return Shown(textwrap.fill(self._hint, 96), self._hint)

    def solution(self) -> Shown:
        """Return one right answer as source code."""
        source = f"{self.imports}\n\n\n{textwrap.dedent(inspect.getsource(self.answer))}".strip("\n")
        return Shown(source, f"```python\n{source}\n```")

    def verdict(self, status: str, message: str | None = "", code: str = "") -> Verdict:
        return Verdict(self.name, status, message or "", "" if status == "passed" else self._hint, code)


class Hunt(Task):
    """Judge what the reader found, `check.find_mistake(suspect, mistake, where)`. The solution is a way to find it."""

    takes = "…"

    def __call__(self, *said: object, **named: object) -> Verdict:
        given = [*said, *named.values()]
        if any(answer is None for answer in given):
            begun = any(isinstance(answer, str) for answer in given)
            first = "One answer is missing." if begun else "Nothing is named yet."
            found = "Put what you found in the place of `None`, and run the cell again."
            return self.verdict("not attempted", f"{first} {found}")
        try:
            inspect.signature(self.judge).bind(*said, **named)
        except TypeError:  # too few answers, too many, or under other names
            return self.verdict("wrong", f"The check is called as {self.__doc__}")
        try:
            return self.verdict("passed", self.judge(*said, **named))
        except Wrong as wrong:
            return self.verdict("wrong", wrong.message)


def require_one_of(said: object, choices: Iterable[str]) -> str:
    """Return the choice that is said, whatever its case or a last s; raise Wrong with the choices if it is none."""
    plain = {choice.lower().rstrip("s"): choice for choice in choices}
    key = said.strip().lower().rstrip("s") if isinstance(said, str) else ""
    if key not in plain:
        near = get_close_matches(key, plain, n=1)
        guess = f" Did you mean “{plain[near[0]]}”?" if near else ""
        raise Wrong(f"“{said}” is none of these: {', '.join(f'“{choice}”' for choice in plain.values())}.{guess}")
    return plain[key]
