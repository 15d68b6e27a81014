"""What a notebook shows for a verdict, and stores; and what every exercise has."""

import re
from xml.etree import ElementTree

import pytest
import torch

from vit_tutorial import check
from vit_tutorial.checks import LESSONS
from vit_tutorial.checks.exercise import Exercise, noise
from vit_tutorial.checks.task import Task, Verdict

from .test_slips import EXERCISES
from .variants import assert_wrong, cell

PASSED = Verdict("patchify", "passed")
REMARKED = Verdict("patchify", "passed", "Another order.")
UNTOUCHED = Verdict("patchify", "not attempted", "The stub is still as it was.", "Start with `reshape`.")
UNCLEAR = Verdict("mlp", "not judged", "Which is which?")
WRONG = Verdict("patchify", "wrong", "Your <rows> are `x < y`.\nThis was it.", "Use `permute`.", "return x[<0>]")
ALL = [PASSED, REMARKED, UNTOUCHED, UNCLEAR, WRONG]


def test_only_a_passed_verdict_is_true():
    assert [bool(verdict) for verdict in ALL] == [True, True, False, False, False]


def test_as_text():
    assert repr(PASSED) == "patchify: passed"
    assert repr(REMARKED) == "patchify: passed\n  Another order."
    assert repr(WRONG) == (
        "patchify: wrong\n"
        "  Your <rows> are `x < y`.\n"
        "      return x[<0>]\n"
        "  This was it.\n"
        "  Help: `check.patchify.hint()`, then `check.patchify.solution()`"
    )


@pytest.mark.parametrize("verdict", ALL, ids=lambda v: v.status)
def test_as_html(verdict):
    text = verdict._repr_html_()
    assert verdict.status in text  # the word, not only sign and colour
    assert not re.search(r"background|[^-]color: (black|white|#000|#fff)", text)  # readable on both pages
    ElementTree.fromstring(text)  # every tag is closed where it should be


def test_html_is_escaped_and_backticks_are_code():
    text = WRONG._repr_html_()
    assert "Your &lt;rows&gt; are <code>x &lt; y</code>." in text
    assert "return x[&lt;0&gt;]</pre>" in text
    assert "<details><summary>Hint</summary>Use <code>permute</code>.</details>" in text


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_every_exercise_says_what_it_takes_and_helps(exercise):
    assert getattr(check, exercise.name) is exercise
    assert exercise.__doc__.startswith(("`fn(", "`cls("))
    assert repr(exercise).startswith(f"check.{exercise.name}({exercise.takes}): ")
    assert len(repr(exercise.hint())) > 30
    source = exercise.solution().source
    assert repr(exercise.solution()) == source
    assert exercise.solution()._repr_markdown_() == f"```python\n{source}\n```"
    compile(source, "solution", "exec")


def test_a_mistyped_exercise_gets_the_near_ones():
    with pytest.raises(AttributeError, match="unknown exercise 'pachify': did you mean 'patchify'"):
        check.pachify  # noqa: B018


def test_no_two_exercises_have_one_name():
    """The second one would take the place of the first."""
    found = [(lesson, *each) for lesson in LESSONS for each in vars(lesson).items() if isinstance(each[1], Task)]
    own = [name for lesson, name, task in found if (task.name, task.answer.__module__) == (name, lesson.__name__)]
    assert sorted(own) == sorted(vars(check))


def test_check_lists_the_exercises():
    assert "01 Patchify\n    check.num_patches(function)" in repr(check)


FUNCTION = "def mine({0}):\n    {1}"
CLASS = "class Mine(nn.Module):\n    def __init__(self, {0}):\n        {1}\n    def forward(self, x):\n        {2}"
FUNCTION_STUBS = [
    "# fill in\n    raise NotImplementedError",
    "first = [{0}][0]\n    raise NotImplementedError('your turn')",
]
EMPTY = "raise NotImplementedError"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_an_untouched_stub_is_not_attempted(exercise):
    parameters = re.search(r"def \w+\((?:self, )?(.+)\):", exercise.solution().source)[1]
    sources = [FUNCTION.format(parameters, body.format(parameters)) for body in FUNCTION_STUBS]
    if exercise.takes == "class":
        sources = [CLASS.format(parameters, EMPTY, EMPTY)]
    for source in sources:
        assert exercise(list(cell(source).values())[-1]).status == "not attempted", source


@pytest.mark.parametrize(("init", "forward"), [("super().__init__()", EMPTY), (EMPTY, "return x")])
def test_half_a_stub_is_told_which_half_is_empty(init, forward):
    half = cell(CLASS.format("embed_dim, mlp_dim", init, forward))["Mine"]
    assert_wrong(check.mlp, half, f"`{'__init__' if init == EMPTY else 'forward'}` is empty.")


def test_whole_numbers_among_the_arguments_have_no_gradient_and_the_others_are_compared():
    """As for a function that gets indices."""

    def my_keep(tokens, places):
        return tokens[:, places]

    keep = Exercise(my_keep, trials=[(noise(2, 5, 3), torch.tensor([0, 3]))], task="", hint="")
    assert keep(my_keep)
    assert_wrong(keep, lambda tokens, places: tokens.detach()[:, places], "the gradient that flows back is not")
