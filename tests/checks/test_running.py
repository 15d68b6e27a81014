"""Running a reader's code: their line, their loop, their stub, and nothing of ours or of theirs left behind."""

import random
import sys
import threading
import time
import traceback
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from vit_tutorial import check
from vit_tutorial.checks import lesson_01_patchify, running
from vit_tutorial.checks.running import ReaderError, Wrong, call

from .variants import assert_passes, assert_wrong, cell, changed, listed, solved


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(running, "SECONDS", 0.3)


def finding(kind, source, *args, **names):
    """What `call` raises for the function `mine` of a cell."""
    with pytest.raises(kind) as raised:
        call(cell(source, **names)["mine"], *args)
    return raised.value


LINES = [  # a cell, whose last line is shown, and what is said
    ("def mine(x):\n    y = x.reshape(2, 3)\n    return y + z", "in line 3 of your cell, in mine. "
     "NameError: name 'z' is not defined It was called as `mine(x=tensor of (6,))`"),
    ("def mine(x):\n    layer = nn.Linear(3, 2)\n    return layer(x)", "in line 3 of your cell, in mine. RuntimeError"),
    ("from vit_tutorial import patchify\ndef mine(x):\n    return patchify(x.reshape(1, 1, 2, 3), 2)", "3 = 1·2 + 1"),
    ("def mine(x): return mine(x)", "RecursionError"),
    ("def mine(x):\n    raise SystemExit", "SystemExit"),
    ("def mine(x):\n    raise ValueError(f'{object()} at 0x7f00')", "ValueError: <object object> It was called"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "phrase"), LINES)
def test_an_error_shows_the_readers_own_line(source, phrase, unchecked):
    error = finding(ReaderError, source, torch.zeros(6))
    assert error.code == source.splitlines()[-1].strip()
    assert phrase in " ".join(error.message.split())
    assert "site-packages" not in error.message
    assert "0x" not in error.message


def test_the_deepest_of_the_readers_functions_is_shown_across_cells():
    helper = cell("def helper(x):\n    return x / 0\n", name="/tmp/ipykernel_4711/helper.py")["helper"]
    error = finding(ReaderError, "def mine(x):\n    return helper(x)", 1, helper=helper)
    assert error.code == "return x / 0"
    assert "in line 2 of your cell, in helper" in error.message


def test_a_function_from_a_file_is_shown_with_the_files_name(tmp_path):
    error = finding(ReaderError, "def mine(x):\n    return x.nothing", 1, name=str(tmp_path / "my_vit.py"))
    assert "in line 2 of my_vit.py, in mine" in error.message
    assert str(tmp_path) not in error.message


def test_the_stop_button_still_stops():
    with pytest.raises(KeyboardInterrupt):
        call(lambda x: stop(KeyboardInterrupt()), 1)


LOOP = "def mine(x):\n    while True:\n        "
LOOPS = {
    "while": LOOP + "x = x + 1",
    "pass": LOOP + "pass",
    "except Exception": LOOP + "try:\n            x = x + 1\n        except Exception:\n            pass",
    "bare except": LOOP + "try:\n            x = x + 1\n        except:\n            pass",
    "generator": "import itertools\ndef mine(x):\n    return sum(i for i in itertools.count())",
    "torch": "def mine(x):\n    while x.sum() < 1:\n        x = torch.relu(x)",
    # three times: by luck a strike may miss torch, where most of the time goes
    **dict.fromkeys(("module", "again", "once more"), "layer = nn.Linear(2, 2)\n" + LOOP + "y = layer(x)"),
    "function": "def step(x):\n    return x * 1\n" + LOOP + "x = step(x)",
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_without_end_is_stopped(loop, impatient):
    if "except" in loop and sys.version_info < (3, 11):
        pytest.skip("Python 3.10 itself cannot interrupt this one: where a `try:` begins, it looks for nothing")
    error = finding(ReaderError, LOOPS[loop], torch.zeros(2))
    assert "still running after 0.3 seconds in line" in error.message
    assert error.code
    stopped_in = traceback.extract_tb(error.__context__.__traceback__)[-1].filename
    assert "ipykernel" in stopped_in  # and not in the middle of torch


def test_an_exercise_may_allow_more_time(impatient):
    mine = cell("import time\ndef mine(x):\n    while time.monotonic() < x:\n        pass\n    return x")["mine"]
    end = time.monotonic() + 0.6
    assert call(mine, end, seconds=60) == end


def test_a_loop_in_another_thread_is_stopped_too(impatient):
    found = []
    mine = cell(LOOPS["while"])["mine"]
    thread = threading.Thread(target=lambda: found.append(check.num_patches(lambda h, w, p: mine(h))))
    thread.start()
    thread.join(20)
    assert "still running" in found[0].message


def test_after_a_stop_the_next_call_runs(impatient):
    for _ in range(2):
        finding(ReaderError, LOOPS["while"], 1)
        assert call(lambda x: sum(range(x)), 100_000) == 4_999_950_000


def test_time_spent_compiling_does_not_count(impatient):
    def slow(graph, inputs):
        time.sleep(0.5)
        return graph.forward

    torch.compiler.reset()
    assert_passes(check.split_heads, torch.compile(solved(check.split_heads), backend=slow))


def test_who_stands_at_a_breakpoint_is_not_timed_out(impatient):
    # A debugger's prompt waits inside Python's own library, as `Event.wait` does here. Then the code runs on for less
    # than the limit, and long enough to be looked at.
    mine = cell("def mine(event):\n    event.wait(0.6)\n    return sum(i for i in range(4 * 10**5))")["mine"]
    assert call(mine, threading.Event()) > 0


CHANGES = ("x += 1", "x[0] = 5", "x.zero_()", "x.t_()", "x.resize_(6)")
MODULE = "class Mine(nn.Module):\n    def forward(self, x):\n        {}\nmine = Mine()"
CALLS = [  # called with one matrix: the cell, what is raised, what is said
    ("def mine(x):\n    y = x + 1", Wrong, "Your function returns nothing (None): is the `return` missing?"),
    ("mine = lambda x: None", Wrong, "is the `return` missing?"),
    (MODULE.format("self.last = x"), Wrong, "Your `forward` returns nothing"),
    (MODULE.format("return x.add_(1)"), Wrong, "Your `forward` changes its input"),
    *((f"def mine(x):\n    {change}\n    return x * 1", Wrong, "input: after the call `x`") for change in CHANGES),
    ("def mine():\n    return 1", Wrong, "yours takes `()`"),
    ("def mine(x, *, y, z=1):\n    return x", Wrong, "yours takes `(x, *, y, z=1)`"),
    ("mine = lambda x: nn.Module()(x)", ReaderError, 'missing the required "forward"'),  # torch's, and so no stub
]


@pytest.mark.parametrize(("source", "kind", "phrase"), CALLS, ids=[source for source, *_ in CALLS])
def test_what_a_call_finds(source, kind, phrase):
    assert phrase in finding(kind, source, torch.ones(2, 3)).message


class Odd:
    """Raises at every turn."""

    def fail(self, *args):
        raise ValueError("odd")

    __eq__ = __len__ = __bool__ = __repr__ = __iter__ = __float__ = fail
    __hash__ = None


def stop(error):
    raise error


CIRCLE = []
CIRCLE.append(CIRCLE)

split = solved(check.split_heads)
Mlp = solved(check.mlp)
mlp = partial(changed, Mlp)
Identity = type("Mine", (nn.Module,), {"forward": lambda self, x: x})
ODD = {
    check.patchify: [
        (torch.zeros(2, 3), "needs your function itself, and got a tensor of (2, 3)"),
        ("patchify", "got 'patchify' (of type str)"),
        (Identity, "needs a function, and got the class `Mine`"),
        (Odd(), "ValueError: odd"),
        (10**5000, "a whole number of more than 100 digits"),
    ],
    check.embeddings: [
        (Identity(), "needs your class, not an object of it"),
        (lambda x: x, "needs your class, and got the function"),
        (dict, "class dict(nn.Module)"),
        (type("Empty", (nn.Module,), {}), "`Empty` has no method `forward`"),
        (Identity, "Mine.__init__() takes 1 positional argument but 5 were given"),
    ],
    check.split_heads: [
        (lambda x, h: split(x, h).to_sparse(), "must be an ordinary tensor"),
        (lambda x, h: x[0].to_sparse_csr(), "it is sparse_csr"),
        (lambda x, h: torch.nested.nested_tensor(list(x)), "it is nested"),
        (lambda x, h: torch.nested.nested_tensor(list(x), layout=torch.jagged), "it is nested"),
        (lambda x, h: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8), "it is quantized"),
        (lambda x, h: split(x, h).to("meta"), "must be on the device cpu, where its input is; it is on meta"),
        (lambda x, h: split(x, h).cfloat(), "must be of dtype torch.float32, got torch.complex64"),
        (lambda x, h: split(x, h).to(torch.float8_e4m3fn), "got torch.float8_e4m3fn"),
        (lambda x, h: torch.empty(1).expand(10**6, 10**6), "is far too large"),
        (lambda x, h: torch.empty(10**14), "Your code stops with an error"),
        (lambda x, h: CIRCLE, "must be a tensor, got a value of type list"),
        (lambda x, h: Odd(), "must be a tensor, got a value of type Odd"),
        (lambda x, h: stop(type("Silent", (Exception,), {"__str__": Odd.fail})()),
         "Silent: (its own text cannot be shown"),
        (lambda x, h: stop(SystemExit(3)), "SystemExit: 3"),
        (lambda x, h: stop(GeneratorExit()), "GeneratorExit"),
        (lambda x, h: [
            x.requires_grad and x.register_hook(lambda gradient: stop(ValueError("no way back"))), split(x, h)][1],
         "On the way back"),
        (lambda x, h: [split(x, h), x.untyped_storage().resize_(4)][0], "changes its input"),
        (lambda x, h: [setattr(x, "data", x.double()), x][1], "changes its input"),
    ],
    check.num_patches: [
        (lambda h, w, p: Odd(), "got a value of type Odd"),
        (lambda h, w, p: 10**5000, "a whole number of more than 100 digits"),
        (lambda h, w, p: np.array([3, 4]), "got a value of type ndarray"),
    ],
    check.mlp: [
        (mlp(lambda self, D, M: self.register_buffer("odd", torch.empty(2, device="meta"))), "`odd` is on the"),
        (mlp(lambda self, D, M: self.to("meta")), "`expand.weight` is on the meta device"),
        (mlp(odd=lambda D, M: nn.Parameter(torch.eye(2).to_sparse())), "`odd` must be an ordinary tensor"),
        (mlp(odd=lambda D, M: nn.Parameter(torch.ones(2).long(), False)), "`odd` is a parameter of torch.int64"),
        (mlp(odd=lambda D, M: nn.LazyLinear(2)), "`odd.weight` never gets a size"),
        (mlp(lambda self, D, M: self.requires_grad_(False), forward=lambda self, x: Mlp.forward(self, x) + 1),
         "the values are not those"),
        (mlp(lambda self, D, M: vars(self).update(parameters=[])), "a method `parameters`, and yours covers it"),
        (mlp(forward=lambda self, x: Mlp.forward(self, x).to_sparse()), "it is sparse_coo"),
        (mlp(forward=lambda self, x: Mlp.forward(self, x).to("meta")), "it is on meta"),
        (mlp(eval=lambda self: None, forward=lambda self, x: 2 * Mlp.forward(self, x)), "values"),
        (changed(Identity, __init__=lambda self, D, M: None), "does not begin with `super().__init__()`"),
    ],
    check.parameter_groups: [(lambda model, decay: Odd(), "ValueError: odd")],
    check.map_state_dict: [(lambda theirs: {"a": Odd()}, "value of type Odd")],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("exercise", "row"), listed(ODD))
def test_an_odd_answer_gets_a_verdict(exercise, row):
    assert_wrong(exercise, *row)


def test_nothing_handed_over_is_no_attempt():
    assert check.patchify(None).status == check.patchify(...).status == "not attempted"


def test_random_numbers_and_modes_are_left_as_found():
    def messy(height, width, patch_size):
        torch.manual_seed(1)
        random.seed(1)
        np.random.seed(1)  # noqa: NPY002
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        return height * width // patch_size**2

    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert_passes(check.num_patches, messy)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.random.get_state()[1].tolist() == before[2]  # noqa: NPY002
    assert torch.is_grad_enabled()
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize("exercise", [check.split_heads, check.sincos, check.mlp, check.rollout], ids=lambda e: e.name)
def test_the_default_device_is_left_as_found_and_answers_are_judged_on_the_cpu(exercise, set_default):
    answer = solved(exercise)

    def messy(*args):
        result = answer(*args)
        set_default("meta")
        return result

    with torch.device("meta"):
        assert_passes(exercise, answer)
    if exercise.takes == "function":
        assert_passes(exercise, messy)
        assert torch.empty(0).device.type == "cpu"
    set_default("meta")
    assert_passes(exercise, answer)
    assert torch.empty(0).is_meta


def test_a_check_inside_the_code_that_it_checks_is_told_so():
    """A line that slipped into the function, by its indentation: each call would begin another check."""

    def mine(x, h):
        assert check.class_token(solved(check.class_token))  # another exercise may be checked
        check.split_heads(mine)
        return split(x, h)

    assert_wrong(check.split_heads, mine, "your code calls check.split_heads while it is being checked")
    assert_passes(check.split_heads, split)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_a_check_works_in_every_mode_and_leaves_it(mode):
    with mode():
        gradients = torch.is_grad_enabled()
        for exercise in (check.patchify, check.mlp, check.rollout):
            assert_passes(exercise, solved(exercise))
        assert torch.is_grad_enabled() == gradients


def test_what_the_reader_prints_is_printed(capsys):
    call(cell("def mine(x):\n    print('here', x)\n    return x")["mine"], 3)
    assert capsys.readouterr().out == "here 3\n"


def test_an_error_in_a_judge_is_ours_and_not_hidden(monkeypatch):
    monkeypatch.setattr(lesson_01_patchify, "my_num_patches", None)
    with pytest.raises(TypeError):
        check.num_patches(lambda height, width, patch_size: 1)
