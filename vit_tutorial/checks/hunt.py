"""A hunt: the reader names what is wrong with a suspect, or the best of many values."""

import inspect
from collections.abc import Iterable

from .running import Wrong
from .task import Task, Verdict


class Hunt(Task):
    """Judge what the reader found, `check.find_mistake(suspect, mistake, where)`. The solution is a way to find it."""

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
            return self.verdict("wrong", f"The check is called as {self.task}")
        try:
            return self.verdict("passed", self.judge(*said, **named))
        except Wrong as wrong:
            return self.verdict("wrong", wrong.message)


def require_one_of(said: object, choices: Iterable[str]) -> str:
    """Return the choice that is said, whatever its case or a last s; raise Wrong with the choices if it is none."""
    plain = {choice.lower().rstrip("s"): choice for choice in choices}
    key = str(said).strip().lower().rstrip("s")
    if key not in plain:
        raise Wrong(f"“{said}” is none of these: {', '.join(f'“{choice}”' for choice in plain.values())}.")
    return plain[key]
