"""Running a reader's code: their line in an error, their slip in a verdict, and nothing of theirs left behind."""

import pytest
import torch
from torch import nn

from vit_tutorial import check
from vit_tutorial.checks.modules import ModuleExercise
from vit_tutorial.checks.probes import as_sum, noise
from vit_tutorial.checks.running import Wrong, call

from .variants import assert_passes, assert_wrong, cell, listed, module, parameters, solved


def finding(source, *args, **names) -> Wrong:
    """What `call` raises for the function `mine` of a cell; N is 6."""
    with pytest.raises(Wrong) as raised:
        call(cell(source, **names)["mine"], *args, sizes={"N": 6})
    return raised.value


LINES = [  # a cell, whose last line is shown, and what is said
    ("def mine(x):\n    y = x.reshape(2, 3)\n    return y + z",
     "in line 3 of your cell, in mine. NameError: name 'z' is not defined Here `y` is (2, 3)."),
    ("def mine(x):\n    y = x\n    return nn.Linear(y)", "argument: 'out_features' Here `y` is (N,) = (6,)."),
    ("class Box: pass\ndef mine(x):\n    box = Box(); box.rows = [x[None]]\n    return box.rows[0] @ x[None]",
     "Here `box.rows[0]` is (1, N)"),
    ("from vit_tutorial import patchify\ndef mine(x):\n    return patchify(x.reshape(1, 1, 2, 3), 2)", "3 = 1·2 + 1"),
    ("def mine(x): return mine(x)", "RecursionError"),
    ("def mine(x):\n    a, b, c = x.shape", "more names than values, or fewer"),
    ("def mine(x):\n    return x + (x, x)", "A pair, as `image_size`, `(images, "),
    ("def mine(x):\n    n = len(x) / 2\n    return x[:n]", "`/` makes a float: divide by `//`"),
    ("def mine(x):\n    return x.reshape(3, len(x) / 3)", "`/` makes a float: divide by `//`"),
    ("def mine(x):\n    n = 0.5\n    return x.nothing(n)", "AttributeError: 'Tensor' object has no attribute"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "phrase"), LINES)
def test_an_error_shows_the_readers_own_line(source, phrase, unchecked):
    error = finding(source, torch.zeros(6))
    assert error.code == source.splitlines()[-1].strip()
    assert phrase in " ".join(error.message.split())
    assert "site-packages" not in error.message


def test_the_deepest_of_the_readers_functions_is_shown_across_cells():
    helper = cell("def helper(x):\n    return x / 0\n", name="/tmp/ipykernel_4711/helper.py")["helper"]
    error = finding("def mine(x):\n    return helper(x)", 1, helper=helper)
    assert error.code == "return x / 0"
    assert "in line 2 of your cell, in helper" in error.message


MODULE = "class Mine(nn.Module):\n    def forward(self, x):\n        {}\nmine = Mine()"
CALLS = [  # called with one matrix: the cell, and what is said
    ("def mine(x):\n    y = x + 1", "Your function returns nothing (None): is the `return` missing?"),
    (MODULE.format("self.last = x"), "Your `forward` returns nothing"),
    (MODULE.format("return x.add_(1)"), "Your `forward` changes its input"),
    ("def mine(x):\n    x += 1\n    return x * 1", "Your function changes its input"),
    ("def mine(x):\n    return x.t_() * 1", "Your function changes its input"),
    ("def mine():\n    return 1", "takes 0 positional arguments but 1 was given"),
    ("mine = lambda x: nn.Module()(x)", 'missing the required "forward"'),  # torch's, and so no stub
]


@pytest.mark.parametrize(("source", "phrase"), CALLS, ids=[source for source, *_ in CALLS])
def test_what_a_call_finds(source, phrase):
    assert phrase in finding(source, torch.ones(2, 3)).message


def scaled(*shape: int) -> type:
    return module(lambda dim: parameters("gamma", shape), lambda self, x: x * self.gamma)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_one_value_where_there_is_one_for_each_feature_is_told(shape):
    given = {"trials": [((7,), noise(2, 5, 7))], "names": {"gamma": "scale"}, "sizes": lambda D, x: {"D": D}}
    exercise = ModuleExercise(scaled(7), task="", clue="", **given)
    assert_wrong(exercise, scaled(*shape), "`gamma` is (1,), and (D,) = (7,) is asked")


def test_a_curve_is_no_sum_of_what_it_bends():
    x = 0.3 * noise(2, 5, 7)
    assert as_sum(x.sigmoid(), {"x": x, "1": torch.ones_like(x)}) == "something else"


def test_the_stop_button_ends_an_endless_loop_and_leaves_nothing_behind():
    """The notebook's stop button is a KeyboardInterrupt in the reader's loop."""

    def endless(tokens, num_heads):
        torch.rand(7)
        raise KeyboardInterrupt

    before = torch.get_rng_state()
    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        check.split_heads(endless)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()
    assert_passes(check.split_heads, solved(check.split_heads))


@pytest.mark.parametrize("exercise", [check.split_heads, check.self_attention], ids=lambda e: e.name)
@pytest.mark.parametrize("state", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_a_check_works_in_any_state_of_torch_and_restores_it(exercise, state):
    """Also where random numbers are concerned: it draws none of the reader's."""
    before = torch.get_rng_state()
    torch.set_default_dtype(torch.float64)
    try:
        with state():
            found = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
            assert_passes(exercise, solved(exercise))
            assert (torch.is_grad_enabled(), torch.is_inference_mode_enabled()) == found
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(torch.get_rng_state(), before)


def test_every_check_starts_from_the_same_seed():
    """What is random in an answer is the same each time, and so is what the check says of it."""

    def unlucky(tokens, num_heads):
        raise ValueError(f"drew {torch.rand(()).item()}")

    verdicts = set()
    for seed in range(3):
        torch.manual_seed(seed)
        verdicts.add(check.split_heads(unlucky))
    assert len(verdicts) == 1


Identity = type("Mine", (nn.Module,), {"forward": lambda self, x: x})
ODD = {
    check.split_heads: [
        (torch.zeros(2, 3), "needs your function itself: write `check.split_heads(my_split_heads)`"),
    ],
    check.mlp: [
        (Identity(), "needs your class itself"),
        (dict, "begin with `class dict(nn.Module):`"),
        (Identity, "takes 1 positional argument but 3 were given"),
    ],
    check.principal_components: [
        (lambda tokens, count: torch.linalg.eig(tokens.T @ tokens)[1], "The check stops at what your code returns."),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("exercise", "row"), listed(ODD))
def test_an_odd_answer_gets_a_verdict(exercise, row):
    """An honest slip never ends in a traceback from inside the checks."""
    assert_wrong(exercise, *row)
