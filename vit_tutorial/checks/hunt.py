"""A hunt: the reader looks for something and says what it is."""

from __future__ import annotations

from collections.abc import Iterable

from .exercise import Task, Verdict
from .running import Wrong


class Hunt(Task):
    """Judge what the reader found: `check.find_mistake(suspect, mistake, where)` → Verdict.

    The solution is a way to find it. `judge` gets what the reader gave, raises Wrong with what speaks against it, or
    returns what to say of a right answer.
    """

    takes = "…"

    def __call__(self, *said: object, **named: object) -> Verdict:
        if None in said or None in named.values():
            untouched = "Nothing is named yet. Put what you found in the place of `None`, and run the cell again."
            return self.verdict("not attempted", untouched)
        try:
            return self.verdict("passed", self.judge(*said, **named))
        except Wrong as wrong:
            return self.verdict("wrong", wrong.message)
        except TypeError:  # too few answers, too many, or under other names
            return self.verdict("wrong", f"The check is called as {self.__doc__}")


def require_one_of(said: object, choices: Iterable[str]) -> None:
    """Raise Wrong with the choices unless the reader's answer is one of them."""
    if not isinstance(said, str) or said not in choices:
        raise Wrong(f"“{said}” is none of these: {', '.join(f'“{choice}”' for choice in choices)}.")
