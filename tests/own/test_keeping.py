"""What passed its check in a notebook is kept in the reader's own file, which works alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from vit_tutorial.own import keeping
from vit_tutorial.own.source import FILE, needed, pieces

CUT = """
# cut by einops
def my_patchify(images, P):
    return rearrange(images, "b c (h p) (w q) -> b (h w) (c p q)", p=P, q=P)

check.patchify(my_patchify)
"""
STYLED = Path(__file__).with_name("styled.py").read_text(encoding="utf-8")


def cell_with(name: str, check: str) -> str:
    """A cell of `styled.py`'s: an answer, what it uses, and its check."""
    there = pieces(STYLED)
    own = needed([piece for piece in there if name in piece.defines], there)
    return "\n\n".join([*(piece.source for piece in own), f"check.{check}({name})"])


HEADS, MLP = cell_with("MySelfAttention", "self_attention"), cell_with("MyMlp", "mlp")
BLOCK = "from vit_tutorial import Mlp as MyMlp\n" + cell_with("MyEncoderBlock", "encoder_block")
SETUP = "import torch\nfrom torch import nn\nfrom einops import rearrange\nfrom vit_tutorial import check"


class Notebook:
    """A kernel in a folder of its own, as a reader's notebook has one."""

    def __init__(self, folder: Path):
        package = Path(keeping.__file__).parents[2]
        env = {name: value for name, value in os.environ.items() if name != "VIT_TUTORIAL_STILL"}
        self.kernel, self.client = start_new_kernel(cwd=str(folder), env=env | {"PYTHONPATH": str(package)})
        self.file = folder / FILE

    def run(self, cell: str) -> str:
        """Run a cell, and return what it shows."""
        shown = []

        def note(message: dict) -> None:
            content = message["content"]
            shown.append(content.get("text") or content.get("data", {}).get("text/plain") or content.get("evalue", ""))

        self.client.execute_interactive(cell, output_hook=note, timeout=120)
        return " ".join("".join(shown).split())


@pytest.fixture(scope="module")
def notebook(tmp_path_factory):
    made = Notebook(tmp_path_factory.mktemp("notebooks"))
    made.run(SETUP)
    yield made
    made.client.stop_channels()
    made.kernel.shutdown_kernel(now=True)


@pytest.fixture(autouse=True)
def without_a_file(notebook):
    notebook.file.unlink(missing_ok=True)


def test_an_answer_that_passes_is_kept_with_its_comment_and_its_imports(notebook):
    assert "Kept in `my_vit.py`" in notebook.run(CUT)
    text = notebook.file.read_text()
    assert "from einops import rearrange" in text
    assert "# cut by einops\ndef my_patchify(images, P):" in text


def test_what_a_class_leans_on_comes_along_and_the_file_works_alone(notebook):
    said = notebook.run(HEADS.replace("r(embed_dim, d)", "r(embed_dim, d, bias=False)"))
    assert "`assemble` will put ours in its place: it has no `qkv.bias`" in said
    assert notebook.run(HEADS).split("passed ")[1] == "Kept in `my_vit.py`, beside the notebooks."
    text = notebook.file.read_text()
    assert text.index("import math") < text.index("class Head") < text.index("class MySelfAttention")
    alone = "import torch, my_vit; print(my_vit.MySelfAttention(6, 2)(torch.ones(1, 4, 6)).shape)"
    run = subprocess.run([sys.executable, "-c", alone], cwd=notebook.file.parent, capture_output=True, text=True)
    assert run.stdout == "torch.Size([1, 4, 6])\n", run.stderr


def test_answers_stand_in_the_order_of_the_model_and_ours_until_theirs_is_kept(notebook):
    for cell in (HEADS, BLOCK.replace("from", "class Other: pass\nfrom"), CUT):
        assert "Kept" in notebook.run(cell)
    text = notebook.file.read_text()
    assert "from vit_tutorial import Mlp as MyMlp\n" in text
    assert text.index("def my_patchify") < text.index("class MySelfAttention") < text.index("class MyEncoderBlock")
    assert "Kept" in notebook.run(MLP)
    text = notebook.file.read_text()
    assert "vit_tutorial" not in text
    assert text.index("class MySelfAttention") < text.index("class MyMlp") < text.index("class MyEncoderBlock")


def test_an_import_of_the_cell_comes_as_it_is_written(notebook):
    cell = "from math import prod, pi\nfrom torch.nn.functional import gelu as bend\n" + CUT
    cell = cell.replace("    return", "    assert pi > 3 and bend and prod\n    return")
    assert "Kept" in notebook.run(cell)
    assert "from math import prod, pi\nfrom torch.nn.functional import gelu as bend\n" in notebook.file.read_text()


def test_two_answers_may_not_need_two_helpers_of_one_name(notebook):
    helper = "\ndef order():\n    return 'b c (h p) (w q) -> b (h w) (c p q)'\n"
    assert "Kept" in notebook.run(helper + CUT.replace('"b c (h p) (w q) -> b (h w) (c p q)"', "order()"))
    kept = notebook.file.read_text()
    said = notebook.run(
        "\ndef order():\n    return 4\n" + MLP.replace("super().__init__()", "super().__init__(); order()")
    )
    assert "an earlier answer uses another `order`: give yours a name of its own" in said
    assert notebook.file.read_text() == kept


def test_one_import_in_two_forms_is_no_other_helper(notebook):
    assert "Kept" in notebook.run(HEADS)
    for imports in (
        "import torch.nn as nn\n",
        "# for the layers\nfrom torch import nn\n",
        "from torch import Tensor, nn\n",
    ):
        assert "Kept" in notebook.run(imports + MLP)
    said = notebook.run("from functools import partial as nn\n" + CUT.replace("    return", "    nn\n    return"))
    assert "an earlier answer uses another `nn`" in said


def test_an_answer_that_another_needs_is_to_be_checked_first(notebook):
    assert "uses `my_patchify`, which only this notebook has: check it first" in notebook.run(
        CUT.replace("check.patchify(my_patchify)", "")
        + "\ndef my_unpatchify(patches, P, size):\n    my_patchify\n    h, w = size[0] // P, size[1] // P\n"
        + "    return rearrange(patches, 'b (h w) (c p q) -> b c (h p) (w q)', h=h, w=w, p=P, q=P)\n\n"
        + "check.unpatchify(my_unpatchify)"
    )


def test_imports_come_before_answers_even_if_none_was_there_before(notebook):
    notebook.file.write_text("def my_patchify(images, P):\n    return images\n\n\nimport json\n")
    notebook.run(CUT)
    text = notebook.file.read_text()
    assert text.index("from einops import rearrange") < text.index("def my_patchify") < text.index("import json")


def test_an_answer_that_fails_loses_nothing_and_one_that_passes_again_takes_its_place(notebook):
    notebook.run(CUT)
    kept = notebook.file.read_text()
    assert "wrong" in notebook.run(CUT.replace("(c p q)", "(p q c)"))
    assert notebook.file.read_text() == kept
    notebook.run(CUT.replace("images", "x"))
    assert notebook.file.read_text() == kept.replace("images", "x")


def test_constants_and_aliases_of_the_cell_come_along_if_the_answer_uses_them(notebook):
    cell = "%%time\n# one\nSIZES, unasked = [1], 0\nunused = 2\n"
    cell += "cut = partial(rearrange, pattern='b c (h p) (w q) -> b (h w) (c p q)')\n"
    answer = "def my_patchify(images, P):\n    return cut(images, p=P * SIZES[0], q=P)\ncheck.patchify(my_patchify)"
    assert "Kept" in notebook.run("from functools import partial\n") + notebook.run(cell + answer)
    text = notebook.file.read_text()
    assert "from functools import partial\n" in text
    assert text.index("# one\nSIZES, unasked = [1], 0") < text.index("cut = partial(") < text.index("def my_patchify")
    assert "unused" not in text


def test_what_the_reader_wrote_beside_it_stays(notebook):
    notebook.file.write_text("import json\nMINE = 1  # my own line\n")
    notebook.run(CUT.replace("images", "x"))
    notebook.run(MLP)
    text = notebook.file.read_text()
    assert "import json" in text
    assert "MINE = 1  # my own line" in text


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"def broken(:\n", "invalid syntax (my_vit.py, line 1)"),
        ("# é\n".encode("cp1252"), "'utf-8' codec can't decode"),
        (b"\ndef rearrange(x, *pattern, **sizes):\n    return x\n", "from the file alone it is wrong"),
    ],
)
def test_a_file_in_which_an_answer_cannot_work_is_told_so_and_left_alone(notebook, content, why):
    notebook.file.write_bytes(content)
    said = notebook.run(CUT)
    assert "passed" in said
    assert f"Not kept in `my_vit.py`, which stays as it is: {why}" in said
    assert notebook.file.read_bytes() == content


@pytest.mark.parametrize(
    ("cell", "why"),
    [
        (CUT.replace("p=P", "p=P * ONE"), "uses `ONE`, which only this notebook has: define it in the same cell"),
        (CUT.replace("my_patchify", "cut_up").replace("check.cut_up", "check.patchify"), "look for `my_patchify`"),
    ],
)
def test_what_cannot_come_is_named(notebook, cell, why):
    notebook.run("ONE = 1")
    said = notebook.run(cell)
    assert "passed" in said
    assert why in said
    assert not notebook.file.exists()


def test_where_a_notebook_is_only_stored_and_outside_of_notebooks_nothing_is_kept(notebook):
    notebook.run("import os; os.environ['VIT_TUTORIAL_STILL'] = '1'")
    assert "ept in" not in notebook.run(CUT)
    notebook.run("del os.environ['VIT_TUTORIAL_STILL']")
    assert keeping.readers_file() is None
    assert not notebook.file.exists()


def test_annotations_and_dataclasses_come_with_what_they_need(notebook):
    by_hand = "\nfrom dataclasses import dataclass\n\n\n@dataclass\nclass Sizes:\n    D: int = 3\n"
    notebook.file.write_text(keeping.HEAD + by_hand)
    typed = CUT.replace("(images, P):", "(images: Tensor, P: int) -> Tensor:")
    assert "Kept" in notebook.run("from torch import Tensor\n" + typed)
    assert "from torch import Tensor" in notebook.file.read_text()


def test_a_helper_that_two_answers_share_stays_where_it_is(notebook):
    shared = "class Base(nn.Module):\n    pass\n"
    mlp, heads = (
        cell.replace("MyMlp(nn.Module)", "MyMlp(Base)").replace("Head(nn.Module)", "Head(Base)")
        for cell in (MLP, HEADS)
    )
    assert "Kept" in notebook.run(shared + heads)
    assert "Kept" in notebook.run(shared + mlp)
    assert notebook.file.read_text().count("class Base") == 1
