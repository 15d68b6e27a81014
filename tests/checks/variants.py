"""What the tests of the checks share: a notebook's cell, and what a verdict must say."""

import linecache
import textwrap

import pytest
import torch
from torch import nn

import vit_tutorial
from vit_tutorial.checks.task import Verdict


def cell(source: str, name: str = "", **names) -> dict:
    """Run source code as a notebook runs a cell: its file exists only for `linecache`. Returns what it defines."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    name = name or f"/tmp/ipykernel_4711/{abs(hash(source))}.py"  # one for each cell, as a notebook has
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    defined = {"torch": torch, "nn": nn, "F": nn.functional, **names}
    exec(compile(source, name, "exec"), defined)
    return defined


def solved(exercise, *edits: str):
    """The exercise's own solution, run as a reader would run it; with each (old, new) of `edits` replaced in it."""
    source = exercise.solution().removeprefix("```python\n").removesuffix("```")
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        assert old in source, f"{old!r} is not in the solution of {exercise.name}"
        source = source.replace(old, new)
    names = {name: getattr(vit_tutorial, name) for name in ("SelfAttention", "Mlp", "Embeddings", "Encoder")}
    return list(cell(source, **names).values())[-1]


def with_parts(base: type, **parts) -> type:
    """A class as `base` with other parts, each of which is made by `part(*args)` of the arguments of the class."""

    def build(self, *args):
        base.__init__(self, *args)
        for name, part in parts.items():
            setattr(self, name, part(*args))

    return type("Mine", (base,), {"__init__": build})


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


def assert_wrong(exercise, answer, phrase: str) -> Verdict:
    """The verdict is "wrong", and its message says `phrase`."""
    verdict = exercise(answer)
    assert verdict.status == "wrong", f"a wrong answer got: {verdict}"
    assert phrase.lower() in " ".join(verdict.message.split()).lower(), f"{phrase!r} is not said:\n{verdict}"
    return verdict


def listed(tables: dict) -> list:
    """List every row, (answer, what is said …), of {exercise: rows, or answers by name} for `parametrize`."""
    found = []
    for exercise, rows in tables.items():
        for name, row in rows.items() if isinstance(rows, dict) else ((row[-1], row) for row in rows):
            row = row if isinstance(row, tuple) else (row,)
            if isinstance(row[0], str):
                pairs = len(row) // 2 * 2
                row = (solved(exercise, *row[:pairs]), *row[pairs:])
            found.append(pytest.param(exercise, row, id=f"{exercise.name}: {name}"))
    return found


def judged(right: dict, wrong: dict) -> tuple:
    """Make a lesson's tests from {exercise: right answers by name} and {exercise: rows of wrong answers}.

    A row is (answer, phrase of the message): this phrase is said, and no other phrase of the same exercise's rows. So
    what an answer is told is true of it, and nothing is told that is true of another. A right answer with a phrase,
    (answer, phrase), passes with this remark, the others without any. Instead of an answer there may be edits of the
    exercise's own solution: (old, new, old, new, …, phrase).
    """

    @pytest.mark.parametrize(("exercise", "row"), listed(right))
    def test_right_answers_pass(exercise, row):
        assert_passes(exercise, *row)

    @pytest.mark.parametrize(("exercise", "row"), listed(wrong))
    def test_wrong_answers_are_told_the_truth(exercise, row):
        verdict = assert_wrong(exercise, *row)
        others = {phrase for *_, phrase in wrong[exercise]} - {row[1]}
        assert [phrase for phrase in others if phrase.lower() in " ".join(verdict.message.split()).lower()] == []

    return test_right_answers_pass, test_wrong_answers_are_told_the_truth
