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


def changed(base: type, change=lambda self, *args: None, **methods) -> type:
    """A class as `base` with other methods, in whose objects `change(self, *args)` has replaced parts."""

    def build(self, *args):
        base.__init__(self, *args)
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


def replace(**parts):
    """A change that replaces parts of a module by what `part(*args)` makes."""
    return lambda self, *args: [setattr(self, name, part(*args)) for name, part in parts.items()]


def assert_passes(exercise, answer) -> Verdict:
    verdict = exercise(answer)
    assert verdict.status == "passed", f"a right answer was refused\n{verdict}"
    return verdict


def assert_wrong(exercise, answer, phrase: str) -> Verdict:
    """The verdict is "wrong", and says this."""
    verdict = exercise(answer)
    assert verdict.status == "wrong", f"a wrong answer got: {verdict}"
    assert phrase.lower() in " ".join(repr(verdict).split()).lower(), f"{phrase!r} is not said:\n{verdict}"
    return verdict


def assert_not_attempted(exercise, answer) -> Verdict:
    verdict = exercise(answer)
    assert verdict.status == "not attempted", verdict
    return verdict


FUNCTION_STUBS = {
    "raise": "# fill in\n    raise NotImplementedError",
    "raise with text": "'''What to do.'''\n    raise NotImplementedError('your turn')",
    "pass": "'''What to do.'''\n    pass",
    "dots": "...",
    "return": "# fill in\n    return",
    "return dots": "'''What to do.'''\n    return ...",
    "return dots at the end": "first = [{0}][0]\n    return ...",
    "raise at the end": "first = [{0}][0]\n    raise NotImplementedError",
}
CLASS_STUBS = {  # what is in `__init__` and in `forward`
    "raise": ("super().__init__()", "raise NotImplementedError"),
    "raise twice": ("super().__init__()\n        raise NotImplementedError", "# fill in\n        pass"),
    "return dots": ("super().__init__()", "return ..."),
    "dots": ("...", "..."),
    "pass": ("pass", "pass"),
    "raise at the end": ("super().__init__(); self.sizes = [{0}]", "size = self.sizes; raise NotImplementedError"),
}
CLASS = "class Mine(nn.Module):\n    def __init__(self, {0}):\n        {1}\n    def forward(self, x):\n        {2}"


def stubs(parameters: str, takes: str = "function") -> dict:
    """Untouched stubs of every kind, by their kind."""
    function = f"def Mine({parameters}):\n    "
    sources = {kind: function + body.format(parameters) for kind, body in FUNCTION_STUBS.items()}
    if takes == "class":
        bodies = {kind: (init.format(parameters), forward) for kind, (init, forward) in CLASS_STUBS.items()}
        sources = {kind: CLASS.format(parameters, *body) for kind, body in bodies.items()}
    return {kind: cell(source, f"/tmp/ipykernel_4711/{kind} {takes}.py")["Mine"] for kind, source in sources.items()}


def listed(tables: dict) -> list:
    """Return each exercise's variants for `parametrize`: {name: answer or (answer, phrase)}, or [(answer, phrase)]."""
    found = []
    for exercise, variants in tables.items():
        named = variants.items() if isinstance(variants, dict) else ((phrase, (a, phrase)) for a, phrase in variants)
        for name, variant in named:
            variant = variant if isinstance(variant, tuple) else (variant, "")
            found.append(pytest.param(exercise, *variant, id=f"{exercise.name}: {name}"))
    return found


def judged(right: dict, wrong: dict) -> tuple:
    """Make a lesson's tests from {exercise: its right answers} and {exercise: rows of (wrong answer, phrase)}.

    A right answer with a phrase, (answer, phrase), passes with this remark, the others without any.
    """

    @pytest.mark.parametrize(("exercise", "answer", "remark"), listed(right))
    def test_right_answers_pass(exercise, answer, remark):
        message = assert_passes(exercise, answer).message
        assert remark in message
        assert bool(remark) == bool(message)

    @pytest.mark.parametrize(("exercise", "answer", "phrase"), listed(wrong))
    def test_wrong_answers_are_named(exercise, answer, phrase):
        verdict = assert_wrong(exercise, answer, phrase)
        assert phrase.lower() in " ".join(verdict.message.split()).lower()  # and not only in the reader's own line

    @pytest.mark.parametrize("exercise", right, ids=lambda exercise: exercise.name)
    def test_untouched_stubs_are_not_attempted(exercise):
        parameters = re.search(r"def \w+\((?:self, )?(.+)\):", exercise.solution().source)[1]
        for stub in stubs(parameters, exercise.takes).values():
            assert_not_attempted(exercise, stub)

    return test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted
