"""How the package is built: imports point up the reading order and are declared, forwards have no branch."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import vit_tutorial

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGE = Path(vit_tutorial.__file__).parent

# In reading order, which is the order of the paper's equations.
MODEL = ["errors", "config", "patchify", "positions", "embeddings", "attention", "encoder", "model"]
ORDER = [*MODEL, "hybrid", "model_card", "files", "data", "saving", "inference", "training", "adapting", "pretrained"]
ORDER += ["train", "analysis", "experiments", "plotting", "live", "checks", "own"]

FILES = sorted(PACKAGE.rglob("*.py"))


def room(path: Path) -> str:
    """The file's name; for a folder of files, the folder's."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> set[str]:
    """Full names of the modules that a file imports: `from ..config import Size` is `vit_tutorial.config`."""
    here = ["vit_tutorial", *path.relative_to(PACKAGE).with_suffix("").parts]
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = [*here[: -node.level], *(node.module or "").split(".")] if node.level else node.module.split(".")
            base = [part for part in base if part]
            # `from . import config` names a module, `from .config import Size` does not.
            names |= {".".join([*base, alias.name] if base == ["vit_tutorial"] else base) for alias in node.names}
    return names


def test_a_file_imports_only_from_files_above_it():
    for path in set(FILES) - {PACKAGE / "__init__.py"}:  # the front door opens every room
        assert room(path) in ORDER, f"{room(path)} has no place in the reading order yet"
        allowed = ORDER[: ORDER.index(room(path)) + 1]
        for name in imported(path):
            top, *rest = name.split(".")
            if top == "vit_tutorial":
                assert rest, f"{path} imports the whole package"
                assert rest[0] in allowed, f"{path} imports {name}"


def test_what_is_imported_is_declared():
    """IPython is there where a figure is drawn in a notebook, and timm where a reader asks for a model of timm's."""
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.match(r"[\w-]+", need)[0].replace("pillow", "PIL") for need in project["dependencies"]}
    names = {name.split(".")[0] for path in FILES for name in imported(path)}
    assert names - declared - sys.stdlib_module_names <= {"vit_tutorial", "IPython", "timm"}


def forwards() -> list[tuple[str, ast.FunctionDef]]:
    return [
        (f"{path.stem}.{cls.name}", method)
        for path in FILES
        for cls in ast.walk(tree(path))
        if isinstance(cls, ast.ClassDef)
        for method in cls.body
        if isinstance(method, ast.FunctionDef) and method.name == "forward"
    ]


def test_no_forward_has_a_branch():
    branches = (ast.If, ast.IfExp, ast.Match, ast.While, ast.Try, ast.Assert, ast.BoolOp)
    rests_in_eval = re.compile(r"self\.\w+ if self\.training else 0\.0")  # dropout: nothing about the data
    assert {"model.VisionTransformer", "attention.SelfAttention", "encoder.EncoderBlock"} <= {n for n, _ in forwards()}
    about_hooks = "lending.Lender"  # as little about the data
    for name, method in forwards():
        if name == about_hooks:
            continue
        found = [ast.unparse(node) for node in ast.walk(method) if isinstance(node, branches)]
        found = [branch for branch in found if not rests_in_eval.fullmatch(branch)]
        found += [ast.unparse(node) for node in ast.walk(method) if isinstance(node, ast.comprehension) and node.ifs]
        assert not found, f"{name} decides on the data's way: {found}"
