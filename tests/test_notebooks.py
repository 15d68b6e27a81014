"""What every notebook keeps to, so that a strict comparison of its outputs means something."""

import ast
import base64
import contextlib
import io
import re
import shutil
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import nbformat
import pytest
import refresh
import torch
from PIL import Image

import vit_tutorial
from vit_tutorial import ImageSet, Shapes, analysis, experiments, training
from vit_tutorial.training import evaluate, fit

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
WITHOUT_DINO = [path for path in NOTEBOOKS if path.stem[:2] not in ("07", "09", "10")]
# Cells that nbval runs but does not compare, or does not run at all.
NOT_COMPARED = re.compile(r"nbval[-_](ignore[-_]output|skip|raises[-_]exception)", re.IGNORECASE)


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_compared(cell):
    return not NOT_COMPARED.search(cell.source + " ".join(cell.metadata.get("tags", [])))


def test_every_cell_was_executed_from_the_top_in_one_go(notebook):
    counts = [cell.execution_count for cell in code_cells(notebook)]
    assert counts == list(range(1, len(counts) + 1)), "nbval does not compare a cell without a count"


def test_nine_cells_in_ten_are_compared(notebook):
    cells = code_cells(notebook)
    assert sum(map(is_compared, cells)) >= 0.9 * len(cells)


def test_a_cell_that_is_not_compared_is_followed_by_one_that_is(notebook):
    cells = code_cells(notebook)
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        assert is_compared(cell) or (following and is_compared(following) and "assert" in following.source)


def test_what_is_stored_is_the_same_on_every_machine_and_no_error_no_warning_and_no_widget(notebook):
    assert "widgets" not in notebook.metadata
    for cell in code_cells(notebook):
        for output in cell.outputs:
            assert output.get("name") != "stderr", cell.source
            assert output.output_type != "error", cell.source
            assert not any("widget" in kind for kind in output.get("data", {})), cell.source
            assert "srcdoc" not in output.get("data", {}).get("text/html", ""), "a live page: run notebooks/refresh.py"
            text = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
            places = re.search(r"0x[0-9a-f]{6,}|ipykernel_\d|/tmp/|/home/|/Users/|/root/", text)
            assert not (places and is_compared(cell)), cell.source


def test_predictions_are_few_and_their_answers_are_folded(notebook):
    asked = [i for i, cell in enumerate(notebook.cells) if "**Predict.**" in cell.source]
    assert 1 <= len(asked) <= 5
    for i in asked:
        answer = next(cell for cell in notebook.cells[i:] if cell.cell_type == "code")
        assert answer.metadata["jupyter"]["outputs_hidden"]  # JupyterLab folds it until the cell is run or clicked
        told = ["hide-input"] if "show_" in answer.source else []  # a figure's title tells the answer
        assert {"hide-output", *told} <= {*answer.metadata["tags"]}  # the web page folds it


def test_the_time_at_the_top_is_what_readers_need(notebook, path):
    """130 words and 8 lines of code a minute, as measured, and each exercise as it says itself."""
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    plain = re.sub(r"\$[^$]*\$|`[^`]*`|\(https?[^)]*\)|^\|.*\|$", " ", prose, flags=re.MULTILINE)
    words = len(re.findall(r"[A-Za-z][A-Za-z'’-]*", plain))
    sources = (cell.source.replace('print("The answer:")\n', "") for cell in code_cells(notebook))  # nobody reads that
    lines = sum(len([line for line in source.splitlines() if line.strip()]) for source in sources)
    exercises = sum(int(minutes) for minutes in re.findall(r"^### Your turn.* (\d+) minutes$", prose, re.MULTILINE))
    read, practise = map(int, re.search(r"about (\d+) minutes to read, (\d+) for the", prose).groups())
    assert practise == 5 * round(exercises / 5)
    assert read == 5 * round((words / 130 + lines / 8) / 5) <= (40 if path.stem < "06" else 50)
    row = next(
        row
        for row in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
        if f"notebooks/{path.name})" in row and "|" in row
    )
    assert f"| {read} + {practise} min |" in row


@pytest.mark.parametrize("path", WITHOUT_DINO, indirect=True, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")
def test_a_cell_can_be_run_twice(notebook, path, monkeypatch, tmp_path):
    """All but the lessons that look long at DINOv2. They train and count on less here than readers do."""
    monkeypatch.chdir(tmp_path)
    most = 400 if path.stem.startswith("06") else 28  # scenes: lesson 06 relies on as many
    few_steps, tables, bug_table = partial(analysis.first_tests, steps=2), {}, experiments.bug_table

    class FewerImages(ImageSet):
        def subset(self, indices):
            return super().subset(torch.as_tensor(indices)[:64] % len(self))

    def fewer_shapes(count, *rest, **more):
        scenes = Shapes(min(count, most), *rest, **more)
        return FewerImages(scenes.pixels, scenes.labels, scenes.classes, scenes.masks)

    def short_fit(model, images, recipe, **more):
        recipe = replace(recipe, epochs=min(recipe.epochs, 2), warmup_epochs=0.0)
        return fit(model, images.subset(range(min(len(images), 32))), recipe, **more)

    def short_count(model, images):
        return evaluate(model, images.subset(range(min(len(images), most))))

    def first_table(config, images, labels, bugs=experiments.BUGS):  # short trainings, the same every time
        if bugs not in tables:
            tables[bugs] = bug_table(config, images[:4], labels[:4], bugs)
        return tables[bugs]

    monkeypatch.setattr(vit_tutorial, "Shapes", fewer_shapes)
    monkeypatch.setattr(training, "fit", short_fit)
    monkeypatch.setattr(training, "evaluate", short_count)
    monkeypatch.setattr(analysis, "first_tests", few_steps)
    monkeypatch.setattr(experiments.planted_bugs, "first_tests", few_steps)
    monkeypatch.setattr(experiments, "bug_table", first_table)
    monkeypatch.setattr(experiments, "tune", partial(experiments.tune, scenes=32))
    monkeypatch.setattr(experiments, "try_stack", partial(experiments.try_stack, steps=2))
    monkeypatch.setattr(experiments, "short_run", lambda rate, **more: 0.5)
    names = {"__name__": "__main__", "display": lambda figure: None}  # which a notebook has
    with contextlib.redirect_stdout(io.StringIO()):
        for cell in code_cells(notebook):
            code = compile(cell.source, "cell", "exec", optimize=1)  # without asserts about accuracy
            exec(code, names)
            exec(code, names)


def picture_in(output):
    """Return the picture of an output in base64, and what is told of it; nothing if there is none."""
    kinds = [kind for kind in ("image/png", "image/jpeg") if kind in output.get("data", {})]
    return (output.data[kinds[0]], output.metadata[kinds[0]]) if kinds else ()


def test_the_first_line_of_a_folded_output_has_no_digit_and_no_verdict(notebook):
    """It stays readable in JupyterLab. A picture says nothing."""
    verdict = r"\d|\b(yes|no|none|true|false|right|wrong|correct|best|better|worse|same|different)\b"
    for cell in code_cells(notebook):
        first = cell.outputs[0] if cell.outputs else {}
        shown = first.get("data", {})
        text = "" if picture_in(first) else first.get("text") or shown.get("text/plain", "")
        line = text.strip().partition("\n")[0]
        assert "hide-output" not in cell.metadata.get("tags", []) or not re.search(verdict, line, re.IGNORECASE), line


def calls_in(tree):
    """Return the names of the functions that code calls as it runs, not those inside of functions that it defines."""
    if isinstance(tree, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        return []
    own = [tree.func.id] if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else []
    return own + [name for node in ast.iter_child_nodes(tree) for name in calls_in(node)]


def test_every_figure_that_is_called_is_seen(notebook):
    for cell in code_cells(notebook):
        calls = [name for name in calls_in(ast.parse(cell.source)) if name.startswith("show_")]
        pictures = [output for output in cell.outputs if picture_in(output)]
        assert len(pictures) >= len(calls), cell.source


def test_no_magic(notebook):
    for cell in code_cells(notebook):
        assert not re.search(r"^\s*[%!]", cell.source, re.MULTILINE), "a mistyped %magic passes the comparison"


def test_every_picture_in_the_text_says_what_it_shows(notebook):
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            assert not re.search(r"!\[\s*\]\(", cell.source), cell.source
            assert all("alt=" in tag for tag in re.findall(r"<img[^>]*>", cell.source)), cell.source


def test_every_figure_is_sharp_with_alternative_text_where_tools_look_for_it_and_a_caption_under_it(notebook):
    for cell, following in zip(notebook.cells, [*notebook.cells[1:], None], strict=True):
        outputs = cell.outputs if cell.cell_type == "code" else []
        figures = [picture_in(output) for output in outputs if picture_in(output)]
        shown = [look for _, look in figures]
        for data, look in figures:
            image = Image.open(io.BytesIO(base64.b64decode(data)))
            assert (look["width"], look["height"]) == (image.width // 2, image.height // 2)
            assert len(look["alt"].split()) >= 8, f"more than a title: {look['alt']}"
        if figures:
            alt = " ".join(look["alt"] for look in shown)
            assert cell.metadata["alt"] == cell.metadata["mystnb"]["image"]["alt"] == alt
            assert following.cell_type == "markdown" or is_compared(following), cell.source


def test_links_to_other_notebooks_lead_somewhere(path, notebook):
    for cell in notebook.cells:
        for target in re.findall(r"\]\(([\w./-]+\.ipynb)", cell.source):
            assert (path.parent / target).is_file(), target


def test_what_the_text_names_is_there(notebook):
    """The files of the repository, and the modules after `python -m`."""
    for cell in notebook.cells:
        named = re.findall(r"(?<![\w./-])(?:images|notebooks|tests|vit_tutorial)/[\w./-]*\w", cell.source)
        modules = re.findall(r"python -m (vit_tutorial[\w.]*)", cell.source)
        named += [f"{module.replace('.', '/')}.py" for module in modules]
        assert not [path for path in named if not (ROOT / path).exists()]


def test_the_file_is_small(path):
    assert path.stat().st_size < 1_000_000


def test_the_setup_cell_is_the_same_in_all_and_holds_the_address(notebook):
    first = code_cells(nbformat.read(NOTEBOOKS[0], as_version=4))[0].source
    assert code_cells(notebook)[0].source == first
    assert f"git+{refresh.address()}" in first
    assert sum("git+http" in cell.source for cell in notebook.cells) == 1


@pytest.mark.parametrize("published", [True, False])
def test_on_colab_the_setup_cell_installs_the_package_or_says_what_to_do(published, monkeypatch, tmp_path):
    cell, asked = code_cells(nbformat.read(NOTEBOOKS[0], as_version=4))[0].source, []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)  # as where the package is not installed
    monkeypatch.setattr("subprocess.run", lambda command, check: asked.append(command))
    if published:
        exec(refresh.INSTALL.sub("git+https://example.org/me/mine", cell), {})
        assert asked == [[sys.executable, "-m", "pip", "install", "--quiet", "git+https://example.org/me/mine"]]
    else:
        with pytest.raises(AssertionError, match="put the address of your copy on GitHub into SOURCE"):
            exec(cell, {})


def test_the_badge_opens_this_notebook_at_the_address(path, notebook):
    owner_and_name = "/".join(refresh.address().split("/")[-2:])
    badge = f"https://colab.research.google.com/github/{owner_and_name}/blob/main/notebooks/{path.name}"
    assert badge in notebook.cells[0].source


def test_the_stored_file_is_normalised(path, notebook, tmp_path):
    refresh.normalise(notebook)
    nbformat.write(notebook, again := tmp_path / path.name)
    assert again.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), "run python notebooks/refresh.py"


def test_one_command_writes_the_address_everywhere(monkeypatch, tmp_path):
    old, new = refresh.address(), "https://github.com/me/mine"
    for name in ("PYPROJECT", "PAGE", "README"):
        monkeypatch.setattr(refresh, name, Path(shutil.copy(getattr(refresh, name), tmp_path)))
    notebook = shutil.copy(NOTEBOOKS[0], tmp_path)
    monkeypatch.setattr(sys, "argv", ["refresh.py", "--address", new, str(notebook)])
    refresh.main()
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    assert len(written) == 4
    for text in written.values():
        assert new in text
        assert "/".join(old.split("/")[-2:]) not in text
        assert refresh.website(old) not in text
    readme = written["README.md"]
    assert "(https://me.github.io/mine/)" in readme
    assert "git clone --depth 1 https://github.com/me/mine\ncd mine\n" in readme
    assert readme.count("https://colab.research.google.com/github/me/mine/blob/main/notebooks/") == len(NOTEBOOKS)
