"""What the tests of the checks share: a notebook's cell, and what a verdict must say."""

import linecache
import re
import textwrap

import pytest
import torch
from torch import nn

import vit_tutorial
from vit_tutorial.checks.exercise import Verdict


def cell(source: str, name: str = "", **names) -> dict:
    """Run source code as a notebook runs a cell: its file exists only for `linecache`. Returns what it defines."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    name = name or f"/tmp/ipykernel_4711/{abs(hash(source))}.py"  # one for each cell, as a notebook has
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    defined = {"torch": torch, "nn": nn, "F": nn.functional, **names}
    exec(compile(source, name, "exec"), defined)
    return defined


def solved(exercise):
    """The exercise's own solution, run as a reader would run it."""
    package = {name: getattr(vit_tutorial, name) for name in ("SelfAttention", "Mlp", "Embeddings", "Encoder")}
    return list(cell(exercise.solution().source, f"/tmp/ipykernel_4711/{exercise.name}.py", **package).values())[-1]


def changed(base: type, change=lambda self, *args: None, **changes) -> type:
    """A class as `base`, with other methods and other parts, each of which is made by `part(*args)`.

    A name that `base` has, or a property, is a method. Last, `change(self, *args)` may replace parts of the object.
    """
    methods = {name: new for name, new in changes.items() if hasattr(base, name) or isinstance(new, property)}
    parts = {name: part for name, part in changes.items() if name not in methods}

    def build(self, *args):
        base.__init__(self, *args)
        for name, part in parts.items():
            setattr(self, name, part(*args))
        change(self, *args)

    return type("Mine", (base,), {"__init__": build, **methods})


def module(parts, forward, base: type = nn.Module, **methods) -> type:
    """A class whose objects hold what `parts(*args)` returns by name, and their own `args`, and have this `forward`."""

    def build(self, *args):
        nn.Module.__init__(self)
        self.args = args
        for name, part in parts(*args).items():
            setattr(self, name, part)

    return type("Mine", (base,), {"__init__": build, "forward": forward, **methods})


def parameters(names: str, *shapes) -> dict:
    """Random parameters of these shapes, by their names."""
    return {name: nn.Parameter(torch.randn(shape)) for name, shape in zip(names.split(), shapes, strict=True)}


def assert_passes(exercise, answer, remark: str = "") -> Verdict:
    """The verdict is "passed", with a remark that says this, or without any."""
    verdict = exercise(answer)
    assert verdict.status == "passed", f"a right answer was refused\n{verdict}"
    assert remark in verdict.message
    assert bool(remark) == bool(verdict.message)
    return verdict


def assert_wrong(exercise, answer, phrase: str, hint: str = "") -> Verdict:
    """The verdict is "wrong", its message says `phrase`, and its hint says `hint`."""
    verdict = exercise(answer)
    assert verdict.status == "wrong", f"a wrong answer got: {verdict}"
    assert phrase.lower() in " ".join(verdict.message.split()).lower(), f"{phrase!r} is not said:\n{verdict}"
    assert hint in verdict.hint
    return verdict


FUNCTION_STUBS = [  # `{0}` are the parameters
    "# fill in\n    raise NotImplementedError",
    "'''What to do.'''\n    raise NotImplementedError('your turn')",
    "'''What to do.'''\n    pass",
    "...",
    "# fill in\n    return",
    "'''What to do.'''\n    return ...",
    "first = [{0}][0]\n    return ...",
    "first = [{0}][0]\n    raise NotImplementedError",
]
CLASS_STUBS = [  # what is in `__init__` and in `forward`
    ("super().__init__()", "raise NotImplementedError"),
    ("super().__init__()\n        raise NotImplementedError", "# fill in\n        pass"),
    ("super().__init__()", "return ..."),
    ("...", "..."),
    ("pass", "pass"),
    ("super().__init__(); self.sizes = [{0}]", "size = self.sizes; raise NotImplementedError"),
]
CLASS = "class Mine(nn.Module):\n    def __init__(self, {0}):\n        {1}\n    def forward(self, x):\n        {2}"


def stubs(exercise) -> list:
    """Stubs of every kind, with the parameters that the exercise's solution has."""
    parameters = re.search(r"def \w+\((?:self, )?(.+)\):", exercise.solution().source)[1]
    sources = [f"def Mine({parameters}):\n    {body.format(parameters)}" for body in FUNCTION_STUBS]
    if exercise.takes == "class":
        sources = [CLASS.format(parameters, init.format(parameters), forward) for init, forward in CLASS_STUBS]
    return [cell(source)["Mine"] for source in sources]


def listed(tables: dict) -> list:
    """List every row, (answer, what is said …), of {exercise: rows, or answers by name} for `parametrize`."""
    found = []
    for exercise, rows in tables.items():
        for name, row in rows.items() if isinstance(rows, dict) else ((row[1], row) for row in rows):
            row = row if isinstance(row, tuple) else (row,)
            found.append(pytest.param(exercise, row, id=f"{exercise.name}: {name}"))
    return found


def judged(right: dict, wrong: dict) -> tuple:
    """Make a lesson's tests from {exercise: right answers by name} and {exercise: rows of wrong answers}.

    A row is (answer, phrase of the message), or (answer, phrase, phrase of the hint). A right answer with a phrase,
    (answer, phrase), passes with this remark, the others without any. The exercise's own solution is one of the right
    answers, and need not be in the table.
    """
    right = {exercise: {"solution": solved(exercise), **answers} for exercise, answers in right.items()}

    @pytest.mark.parametrize(("exercise", "row"), listed(right))
    def test_right_answers_pass(exercise, row):
        assert_passes(exercise, *row)

    @pytest.mark.parametrize(("exercise", "row"), listed(wrong))
    def test_wrong_answers_are_named(exercise, row):
        assert_wrong(exercise, *row)

    @pytest.mark.parametrize("exercise", right, ids=lambda exercise: exercise.name)
    def test_untouched_stubs_are_not_attempted(exercise):
        verdicts = [exercise(stub) for stub in stubs(exercise)]
        assert [verdict for verdict in verdicts if verdict.status != "not attempted"] == []

    return test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted
