"""Keep what the reader wrote: an answer that passed goes into `my_vit.py`, beside the notebooks."""

from __future__ import annotations

import ast
import dis
import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType

from ..checks.exercise import Exercise
from ..files import write_atomically

FILE = "my_vit.py"
HEAD = '"""My own Vision Transformer, written in the lessons."""\n\nimport torch\nfrom torch import nn\n'
MARK = "  # ours, until yours has passed"
KEPT = (  # what is kept, in the order in which it stands in the file
    *("my_patchify", "my_unpatchify", "MyEmbeddings", "my_attention_head", "my_split_heads", "my_merge_heads"),
    *("MySelfAttention", "my_layer_norm", "MyMlp", "MyEncoderBlock", "MyVisionTransformer", "my_training"),
    *("my_resize_positions", "my_map_state_dict", "my_fold_layer_scale", "my_principal_components"),
)


class NotKept(Exception):
    """The answer does not go into the file; the message says why."""


def readers_file() -> Path | None:
    """Return where this notebook's reader keeps answers; None elsewhere, and where a notebook is only stored."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Path(FILE) if hasattr(shell, "kernel") and "VIT_TUTORIAL_STILL" not in os.environ else None


def keep(exercise: Exercise, answer: Callable) -> str:
    """Put an answer that passed into the file, if it passes from there alone, too; say so in one line."""
    path, name = readers_file(), exercise.answer.__name__
    if path is None or name not in KEPT or answer.__module__ != "__main__":
        return ""
    try:
        text = with_answer(*read(path), name, answer)
        verdict = exercise(getattr(run(path, text), name))
        if not verdict:
            raise NotKept(f"from the file alone it is {verdict.status}. {verdict.message}")
        write_atomically(path, text.encode())
    except (NotKept, OSError) as reason:
        return f"Not kept in `{FILE}`: {reason}"
    forgets = " Colab forgets it with this notebook: download it, and put it beside the next one."
    return f"Kept in `{FILE}`, beside the notebooks." + (forgets if "google.colab" in sys.modules else "")


def run(path: Path, text: str) -> ModuleType:
    """Run the text of a file as a module. Raises NotKept where it stops with an error.

    Python's own import may take what it compiled a second ago.
    """
    module = sys.modules["my_vit"] = ModuleType("my_vit")  # where a dataclass looks for it
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise NotKept(f"the file stops with {type(error).__name__}: {error}. It is left as it is.") from None
    return module


def read(path: Path) -> tuple[str, ModuleType]:
    """Return the text of the reader's file, or how one begins, and what it defines."""
    try:
        text = path.read_text("utf-8-sig") if path.exists() else HEAD
    except (OSError, UnicodeDecodeError) as error:
        raise NotKept(f"the file cannot be read: {error}") from None
    return text, run(path, text)


def with_answer(text: str, module: ModuleType, name: str, answer: Callable) -> str:
    """Return the file's text with this answer, and with what it needs of its notebook. All else stays as it is."""
    if answer.__name__ != name:
        raise NotKept(f"later lessons look for `{name}`, and yours is called `{answer.__name__}`.")
    needed: dict[str, str] = {}
    gather(name, answer, vars(module), needed, its_source=True)
    imports = [line for line in needed.values() if line.startswith(("import ", "from "))]
    sources = {used: source for used, source in needed.items() if source not in imports}
    lines = text.splitlines()
    top = max(
        (node.end_lineno for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom))), default=0
    )
    lines[top:top] = imports
    old = definitions("\n".join(lines))
    stood = {used: "\n".join(lines[n] for n in place).strip("\n") for used, place in old.items()}
    for used in [used for used in sources if used != name and used in old]:
        users = [each for each, source in stood.items() if each not in (name, used) and used in words(source)]
        if sources[used] == stood[used]:
            del sources[used]  # it stays where it is, before all who use it
        elif users:
            raise NotKept(f"your file has another `{used}`, which `{users[0]}` uses: give this one another name.")
    following = [name, *KEPT[KEPT.index(name) + 1 :], "__main__"]
    place = next((old[each].start for each in following if each in old), len(lines))
    gone = {n for used in sources for n in old.get(used, ())}
    gone |= {n for n, line in enumerate(lines) if line.endswith(f" {name}{MARK}")}
    before, after = ([n for n in part if n not in gone] for part in (range(place), range(place, len(lines))))
    parts = ["\n".join(lines[n] for n in before), *sources.values(), "\n".join(lines[n] for n in after)]
    return "\n\n\n".join(part.strip("\n") for part in parts if part.strip()) + "\n"


def gather(name: str, value: Callable, there: Mapping, needed: dict[str, str], its_source: bool = False) -> None:
    """Add what the file needs for a name of the notebook: its source, after all that this uses, or an import."""
    if not (its_source or is_readers(value)):
        needed[name] = import_of(name, value)
        return
    source, scope = source_of(value)
    needed[name] = ""
    for used in names_in(compile(source, "", "exec", dont_inherit=True)):
        again = used in needed or used not in scope  # what is not in the notebook either is Python's own
        kept = used in there and not (is_readers(scope.get(used)) and used not in KEPT)
        if not again and not kept:
            gather(used, scope[used], there, needed)
    del needed[name]  # behind what it uses
    needed[name] = source


def words(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))


def is_readers(value) -> bool:
    return callable(value) and getattr(value, "__module__", "") == "__main__"


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code takes from outside itself."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def import_of(name: str, value) -> str:
    """Return the line by which a file gets a name of the notebook. Raises NotKept for what the notebook alone has."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}" if value.__name__ != name else f"import {name}"
    module, own = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
    for place in (module.split(".")[0], module):
        if getattr(sys.modules.get(place), own, None) is value and place != "__main__":
            line = f"from {place} import {own} as {name}" if own != name else f"from {place} import {own}"
            return line + MARK if place.startswith("vit_tutorial") else line
    raise NotKept(f"it uses `{name}`, which only this notebook has. Write it inside, or give it as an argument.")


def definitions(text: str) -> dict[str, range]:
    """Return the lines of every function and class of a text, with the comments right above; "__main__" is the `if`."""
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))) - 1
        while first and lines[first - 1].startswith("#"):
            first -= 1
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = range(first, node.end_lineno)
        elif isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            found["__main__"] = range(first, node.end_lineno)
    return found


def source_of(value: Callable) -> tuple[str, Mapping]:
    """Return the source of a reader's function or class, with the comments above it, and the names of its notebook."""
    functions = filter(inspect.isfunction, vars(value).values() if inspect.isclass(value) else [value])
    files = [inspect.unwrap(function).__code__.co_filename for function in functions]
    cells = [file for file in reversed(linecache.cache) if "ipykernel" in file]  # a class does not know its cell
    for file in (*files, *cells):
        lines = linecache.getlines(file)
        with suppress(SyntaxError):
            if place := definitions("".join(lines)).get(value.__name__):
                return "".join(lines[n] for n in place).strip("\n"), vars(sys.modules[value.__module__])
    raise NotKept("its source is not found: write it with `def` or `class`, in one cell.")
