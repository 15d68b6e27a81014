"""What a reader is asked to do, and what they are told: a task, its hint and its solution, and the verdict."""

import html
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass

from ..errors import require_choice
from .running import Wrong

# A sign and a colour for each status. The word alone says everything.
SIGNS = {"passed": "✓ #009E73", "not attempted": "○ #808080", "not judged": "? #0072B2", "wrong": "✗ #D55E00"}


@dataclass(frozen=True)
class Verdict:
    """What a check found. True in a condition only if the exercise is passed."""

    exercise: str
    status: str
    message: str = ""
    hint: str = ""
    code: str = ""  # the reader's own line, where an error stopped it: shown under the first line of the message

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
        lines = [
            f'<div style="border-left: 4px solid {colour}; padding: 2px 12px; margin: 4px 0; max-width: 54em">',
            f"<div>{mark} <b>{self.exercise}: {self.status}</b></div>",
            *[first, code, *rest, hint],
            f"<div><small>{to_html(self.help)}</small></div>",
            "</div>",
        ]
        return "\n".join(lines)


def wrap(paragraph: str) -> str:
    return textwrap.fill(paragraph, 96, initial_indent="  ", subsequent_indent="  ")


def to_html(text: str) -> str:
    """Escape the text, and show `code` between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


class Shown(str):
    """A hint or a solution: a terminal shows it as it is, a notebook as Markdown."""

    __repr__ = _repr_markdown_ = str.__str__


@dataclass(eq=False, repr=False)
class Task:
    """What the reader is asked to do, with a hint and one solution. Children judge what was done."""

    answer: Callable  # the solution: it has the name of the notebook's stub
    _: KW_ONLY
    task: str  # one line for the list of all tasks
    clue: str  # what the hint says
    imports: str = ""  # lines that are shown before the solution
    judge: Callable | None = None  # looks at what was done: it raises Wrong, or returns a remark

    takes = "…"  # what its check is called with, in the list of all tasks
    keep = None  # a method for answers that pass: it says in one line what it did with this one

    @property
    def name(self) -> str:
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.answer.__name__).lower().removeprefix("my_")

    def __repr__(self) -> str:
        return f"check.{self.name}({self.takes}): {self.task}"

    def hint(self) -> Shown:
        """Say where to look next."""
        return Shown(textwrap.fill(self.clue, 96))

    def solution(self) -> Shown:
        """Return one right answer as source code."""
        return Shown(f"```python\n{self.source}\n```")

    @property
    def source(self) -> str:
        return f"{self.imports}\n\n\n{inspect.getsource(self.answer)}".strip("\n")

    def verdict(self, status: str, message: str = "", code: str = "") -> Verdict:
        return Verdict(self.name, status, message, "" if status == "passed" else self.clue, code)


class Hunt(Task):
    """Judge what the reader found, `check.find_mistake(suspect, mistake, where)`. The solution is a way to find it."""

    def __call__(self, *said: object, **named: object) -> Verdict:
        if any(answer is None for answer in [*said, *named.values()]):
            return self.verdict("not attempted", "Put what you found in the place of `None`, and run the cell again.")
        try:
            inspect.signature(self.judge).bind(*said, **named)
        except TypeError:  # too few answers, too many, or under other names
            return self.verdict("wrong", f"The check is called as {self.task}")
        try:
            return self.verdict("passed", self.judge(*said, **named))
        except (Wrong, ValueError) as wrong:
            return self.verdict("wrong", str(wrong))


def require_one_of(name: str, said: object, choices: Iterable[str]) -> str:
    """Return the choice that is said, whatever its case; raise ValueError with the near ones if it is none."""
    plain = {choice.lower(): choice for choice in choices}
    said = str(said).strip().lower()
    require_choice(name, plain.get(said, said), choices)
    return plain[said]
