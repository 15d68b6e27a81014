"""A hunt: the reader names what is wrong with a suspect."""

from __future__ import annotations

from collections.abc import Iterable

from .exercise import Task, Verdict
from .running import Wrong


class Hunt(Task):
    """Judge what the reader says of a suspect: `check.find_mistake(suspect, mistake, where)` → Verdict.

    The solution is a way to find it. `judge(suspect, *said)` raises Wrong with what speaks against the reader's answer,
    or returns what to say of a right one.
    """

    takes = "suspect, …"

    def __call__(self, suspect: object, *said: str | None, **named: str | None) -> Verdict:
        if None in (*said, *named.values()) or not (said or named):
            untouched = "Nothing is named yet. Put what you found in the place of `None`, and run the cell again."
            return self.verdict("not attempted", untouched)
        try:
            return self.verdict("passed", self.judge(suspect, *said, **named))
        except Wrong as wrong:
            return self.verdict("wrong", wrong.message)
        except TypeError:  # too many answers, or under other names
            return self.verdict("wrong", f"The check is called as {self.__doc__}")


def require_one_of(said: object, choices: Iterable[str]) -> None:
    """Raise Wrong with the choices unless the reader's answer is one of them."""
    if not isinstance(said, str) or said not in choices:
        raise Wrong(f"“{said}” is none of these: {', '.join(f'“{choice}”' for choice in choices)}.")
