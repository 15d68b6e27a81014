"""A hunt: the reader names what is wrong with a suspect."""

from __future__ import annotations

from collections.abc import Iterable

from .exercise import Exercise, Verdict
from .running import Wrong


class Hunt(Exercise):
    """Judge what the reader says of a suspect: `check.find_mistake(suspect, mistake, where)` → Verdict.

    The solution is a way to find it. `judge(suspect, *said)` raises Wrong with what speaks against the reader's answer,
    or returns what to say of a right one.
    """

    takes = "suspect, …"

    def __call__(self, suspect: object, *said: str | None) -> Verdict:
        if not said or None in said:
            untouched = "Nothing is named yet. Put what you found in the place of `None`, and run the cell again."
            return Verdict(self.name, "not attempted", untouched, self._hint)
        try:
            return Verdict(self.name, "passed", self.judge(suspect, *said))
        except Wrong as wrong:
            return Verdict(self.name, "wrong", wrong.message, self._hint)


def require_one_of(said: object, choices: Iterable[str]) -> None:
    """Raise Wrong with the choices unless the reader's answer is one of them."""
    if not isinstance(said, str) or said not in choices:
        raise Wrong(f"“{said}” is none of these: {', '.join(choices)}.")
