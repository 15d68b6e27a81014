"""What a check says: the verdict that a notebook shows, and the three findings that lead to one."""

from __future__ import annotations

import html
import re
import textwrap
from dataclasses import dataclass

PASSED, NOT_ATTEMPTED, WRONG = "passed", "not attempted", "wrong"

# A sign and a colour for each word. The word alone says everything.
SIGNS = {PASSED: ("✓", "#009E73"), NOT_ATTEMPTED: ("○", "#808080"), WRONG: ("✗", "#D55E00")}


class Wrong(Exception):
    """The reader's code does something else than the exercise asks. `hint` replaces the exercise's own."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message, self.hint = message, hint


class ReaderError(Wrong):
    """The reader's code raised an error, or did not end. `code` is their own line, with its place."""

    def __init__(self, message: str, code: str = "", hint: str | None = None):
        super().__init__(message, hint)
        self.code = code


class NotAttempted(Exception):
    """The stub is still as it was."""


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

    @property
    def help(self) -> str:
        """How to get more."""
        return f"Help: `check.{self.exercise}.hint()`, then `check.{self.exercise}.solution()`"


@dataclass(frozen=True)
class Hint:
    """A hint that a notebook shows as text."""

    text: str

    def __repr__(self) -> str:
        return textwrap.fill(self.text, 96)

    def _repr_markdown_(self) -> str:
        return self.text


@dataclass(frozen=True)
class Solution:
    """Source code that a notebook shows highlighted. `str(solution)` is the code itself."""

    source: str

    def __repr__(self) -> str:
        return self.source

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.source}\n```"


def wrap(paragraph: str) -> str:
    return textwrap.fill(paragraph, 96, initial_indent="  ", subsequent_indent="  ")


def to_html(text: str) -> str:
    """Escaped, with `code` between backticks."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))
