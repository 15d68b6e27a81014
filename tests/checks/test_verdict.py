"""What a notebook shows for a verdict, and stores; and what every exercise has."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from vit_tutorial import check
from vit_tutorial.checks import LESSONS, exercise, modules, probes
from vit_tutorial.checks.exercise import Exercise
from vit_tutorial.checks.probes import noise
from vit_tutorial.checks.running import spell, tensors_in
from vit_tutorial.checks.task import Hunt, Task, Verdict

from .variants import assert_passes, assert_wrong, cell, solved

EXERCISES = [task for task in vars(check).values() if isinstance(task, Exercise)]
HUNTS = [task for task in vars(check).values() if isinstance(task, Hunt)]

REMARKED = Verdict("patchify", "passed", "Another order.")
UNTOUCHED = Verdict("patchify", "not attempted", "The stub is still as it was.", "Start with `reshape`.")
UNCLEAR = Verdict("mlp", "not judged", "Which is which?")
WRONG = Verdict("patchify", "wrong", "Your <rows> are `x < y`.\nThis was it.", "Use `permute`.", "return x[<0>]")
ALL = [Verdict("patchify", "passed"), REMARKED, UNTOUCHED, UNCLEAR, WRONG]


def test_as_text_and_in_a_condition():
    assert [bool(verdict) for verdict in ALL] == [True, True, False, False, False]
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
    text = WRONG._repr_html_()
    assert "Your &lt;rows&gt; are <code>x &lt; y</code>." in text, "escaped, and code between backticks"
    assert "return x[&lt;0&gt;]</pre>" in text
    assert "<details><summary>Hint</summary>Use <code>permute</code>.</details>" in text


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e is not check.new_task], ids=lambda e: e.name)
def test_every_exercises_own_solution_passes_as_a_reader_would_run_it(exercise):
    """That of `new_task` trains for seconds, and is run by the tests of its lesson."""
    assert exercise(solved(exercise)).status == "passed"


@pytest.mark.parametrize(
    "exercise",
    [e for e in EXERCISES if e.takes == "function" and e is not check.weighted_attention],
    ids=lambda e: e.name,
)
def test_every_solution_has_the_form_that_the_exercise_tells(exercise):
    """A shape in letters, which a reader with another one is told, is that of what the solution returns."""
    for trial in exercise.trials:
        args = trial() if callable(trial) else trial
        result, sizes = exercise.view(exercise.answer(*args), *args), exercise.sizes(*args)
        shapes = [value.shape for value in tensors_in([result])]
        told = [re.findall(r"[^(),; ]+", axes) for axes in re.findall(r"\(([^)]*)\)", exercise.shape)]
        for shape, axes in zip(shapes, told, strict=True):
            assert all(sizes.get(axis, size) == size for axis, size in zip(axes, shape, strict=True))


@pytest.mark.parametrize("hunt", HUNTS, ids=lambda hunt: hunt.name)
def test_a_hunt_that_nobody_began_is_not_attempted(hunt):
    assert hunt(None).status == "not attempted"
    assert hunt.task.startswith(f"`check.{hunt.name}(")


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_every_exercise_says_what_it_takes_and_helps(exercise):
    assert getattr(check, exercise.name) is exercise
    assert exercise.task.startswith(("`fn(", "`cls("))
    assert repr(exercise).startswith(f"check.{exercise.name}({exercise.takes}): ")
    assert f"write `check.{exercise.name}({exercise.answer.__name__})`" in exercise().message, "called with nothing"
    assert len(repr(exercise.hint())) > 30
    assert exercise.solution()._repr_markdown_() == repr(exercise.solution())


def test_a_mistyped_exercise_gets_the_near_ones():
    with pytest.raises(AttributeError, match="unknown exercise 'pachify': did you mean 'patchify'"):
        check.pachify  # noqa: B018


def test_no_two_exercises_have_one_name():
    """The second one would take the place of the first."""
    found = [(lesson, *each) for lesson in LESSONS for each in vars(lesson).items() if isinstance(each[1], Task)]
    own = [name for lesson, name, task in found if (task.name, task.answer.__module__) == (name, lesson.__name__)]
    assert sorted(own) == sorted(vars(check))


def test_check_lists_the_exercises():
    assert "01 Patchify\n    check.patchify(function)" in repr(check)


FUNCTION = "def mine({0}):\n    {1}"
CLASS = "class Mine(nn.Module):\n    def __init__(self, {0}):\n        {1}\n    def forward(self, x):\n        {2}"
EMPTY = "raise NotImplementedError"
BEGUN = "super().__init__()\n        self.first_step = nn.Linear(2, 2)"


def stub(exercise, *bodies):
    """The exercise's stub with these bodies: of a function, or of `__init__` and `forward`."""
    parameters = re.search(r"def \w+\((?:self, )?(.+)\):", exercise.solution())[1]
    return list(cell((CLASS if exercise.takes == "class" else FUNCTION).format(parameters, *bodies)).values())[-1]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.name)
def test_an_untouched_stub_is_not_attempted_and_half_done_work_reaches_its_last_line(exercise):
    assert exercise(stub(exercise, EMPTY, EMPTY)).status == "not attempted"
    begun = [("first = 1\n    " + EMPTY, ""), ("for i in range(2):\n        pass\n    " + EMPTY, "")]
    if exercise.takes == "class":
        begun = [(f"{BEGUN}\n        {EMPTY}", EMPTY), (BEGUN, f"y = x + 1\n        {EMPTY}")]
    for bodies in begun:
        assert_wrong(exercise, stub(exercise, *bodies), "reaches the line `raise NotImplementedError`")


def test_half_a_stub_is_told_which_half_is_empty():
    assert_wrong(check.mlp, stub(check.mlp, BEGUN, EMPTY), "`forward` reaches the line `raise NotImplementedError`")
    assert_wrong(check.mlp, stub(check.mlp, EMPTY, "return x"), "`__init__` reaches the line")


def test_whole_numbers_among_the_arguments_have_no_gradient_and_the_others_are_compared():
    """As for a function that gets indices."""

    def my_keep(tokens, places):
        return tokens[:, places]

    keep = Exercise(my_keep, trials=[(noise(2, 5, 3), torch.tensor([0, 3]))], task="", clue="")
    assert_passes(keep, my_keep)
    assert_wrong(keep, lambda tokens, places: tokens.detach()[:, places], "the gradient that flows back is not")


def test_a_shape_is_told_in_letters_only_where_they_can_mean_nothing_else():
    sizes = {"B": 2, "C": 3, "P": 2, "N": 9}
    assert spell((9, 3), sizes) == "(N, C) = (9, 3)"
    assert spell((2, 18), sizes) == "(2, 18)"  # B or P; B·N or P·N
    assert spell((27,), sizes) == "(27,)"  # C·N or C·C·C
    assert spell((1, 5), sizes) == "(1, 5)"


def test_the_examples_of_contributing_judge_right_and_wrong_answers():
    text = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = [block for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "trials=" in block]
    for block in (block for block in blocks if "…" not in block):
        *_, example = cell(block, **{**vars(exercise), **vars(modules), **vars(probes)}).values()
        right, name = block.split("\n\n\n")[0], example.answer.__name__
        assert example(cell(right)[name])
        wrong = re.sub(r"\.transpose\(1, 2\)|self\.activation(?=\()", "", right)
        verdict = example(cell(wrong)[name])
        assert verdict.status == "wrong"
        assert "The check stops" not in verdict.message, "a probe asks for what is not there"
