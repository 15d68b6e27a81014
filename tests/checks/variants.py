"""What the tests of the checks share: a notebook's cell, and what a verdict must say."""

import linecache
import re
import textwrap

import pytest
import torch
from torch import nn

from vit_tutorial.checks.exercise import Verdict


def cell(source: str, name: str = "/tmp/ipykernel_4711/1234567890.py", **names) -> dict:
    """Run source code as a notebook runs a cell: its file exists only for `linecache`. Returns what it defines."""
    source = textwrap.dedent(source).strip("\n") + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    defined = {"torch": torch, "nn": nn, "F": nn.functional, **names}
    exec(compile(source, name, "exec"), defined)
    return defined


def solved(exercise):
    """The exercise's own solution, run as a reader would run it."""
    return list(cell(exercise.solution().source, name="/tmp/ipykernel_4711/solution.py").values())[-1]


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


def rows(variants):
    """Parametrise a test with (phrase, answer): what the verdict on a wrong answer must say, and the answer."""
    return pytest.mark.parametrize(("phrase", "answer"), variants, ids=[phrase for phrase, _ in variants])


def named(variants):
    """Parametrise a test with answers by their names."""
    return pytest.mark.parametrize("answer", variants.values(), ids=variants)


FUNCTION_STUBS = {
    "raise": "def mine({0}):\n    # fill in\n    raise NotImplementedError",
    "raise with text": "def mine({0}):\n    '''What to do.'''\n    raise NotImplementedError('your turn')",
    "pass": "def mine({0}):\n    '''What to do.'''\n    pass",
    "dots": "def mine({0}):\n    ...",
    "return": "def mine({0}):\n    # fill in\n    return",
    "return dots": "def mine({0}):\n    '''What to do.'''\n    return ...",
    "return dots at the end": "def mine({0}):\n    first = [{0}][0]\n    return ...",
    "raise at the end": "def mine({0}):\n    first = [{0}][0]\n    raise NotImplementedError",
}


def stubs(parameters: str) -> dict:
    """Untouched stubs of every kind, by their kind."""
    return {
        kind: cell(source.format(parameters), name=f"/tmp/ipykernel_4711/{kind}.py")["mine"]
        for kind, source in FUNCTION_STUBS.items()
    }


def listed(tables: dict) -> list:
    """Return each exercise's variants for `parametrize`: {name: answer or (answer, phrase)}, or [(answer, phrase)]."""
    found = []
    for exercise, variants in tables.items():
        named = variants.items() if isinstance(variants, dict) else ((phrase, (a, phrase)) for a, phrase in variants)
        for name, variant in named:
            variant = variant if isinstance(variant, tuple) else (variant,)
            found.append(pytest.param(exercise, *variant, id=f"{exercise.name}: {name}"))
    return found


def judged(right: dict, wrong: dict) -> tuple:
    """Make a lesson's tests from {exercise: its right answers} and {exercise: rows of (wrong answer, phrase)}."""

    @pytest.mark.parametrize(("exercise", "answer"), listed(right))
    def test_right_answers_pass(exercise, answer):
        assert assert_passes(exercise, answer).message == ""

    @pytest.mark.parametrize(("exercise", "answer", "phrase"), listed(wrong))
    def test_wrong_answers_are_named(exercise, answer, phrase):
        verdict = assert_wrong(exercise, answer, phrase)
        assert phrase.lower() in " ".join(verdict.message.split()).lower()  # and not only in the reader's own line

    @pytest.mark.parametrize("exercise", right, ids=lambda exercise: exercise.name)
    def test_untouched_stubs_are_not_attempted(exercise):
        parameters = re.search(r"def \w+\((.+)\):", exercise.solution().source)[1]
        for stub in stubs(parameters).values():
            assert_not_attempted(exercise, stub)

    return test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted
