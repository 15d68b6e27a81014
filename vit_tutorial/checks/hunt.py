"""A hunt: the reader names what is wrong with a suspect."""

from __future__ import annotations

from collections.abc import Callable

from .exercise import Task, Verdict
from .running import Wrong, describe


class Hunt(Task):
    """Judge what the reader says of a suspect: `check.find_mistake(suspect, mistake, where)` → Verdict.

    The solution is a way to find it. `suspects` is the class of what is searched. `judge(suspect, mistake, where)`
    raises Wrong with what speaks against the reader's answer, or returns what to say of a right one.
    """

    takes = "suspect, mistake, where"

    def __init__(self, solution: Callable, *, suspects: type, judge: Callable, **words: str):
        super().__init__(solution, **words)
        self.suspects, self.judge = suspects, judge

    def __call__(self, suspect: object, mistake: str | None = None, where: str | None = None) -> Verdict:
        if not isinstance(suspect, self.suspects):
            return self.verdict("wrong", f"Give one suspect first, `suspects[0]`; got {describe(suspect)}.")
        if mistake is None or where is None:
            return self.verdict(
                "not attempted",
                "Nothing is named yet. Put what you found in the place of `None`, and run the cell again.",
            )
        try:
            return self.verdict("passed", self.judge(suspect, mistake, where))
        except Wrong as wrong:
            return self.verdict("wrong", wrong.message)
