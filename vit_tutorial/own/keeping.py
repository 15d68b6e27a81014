"""Keep what the reader wrote: an answer that passed goes into `my_vit.py`, beside the notebooks."""

import ast
import dis
import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import CodeType, ModuleType

from ..checks.exercise import Exercise
from ..files import write_atomically

FILE = "my_vit.py"
HEAD = '"""My own Vision Transformer, written in the lessons."""\n\nimport torch\nfrom torch import nn\n'
KEPT = (  # what is kept, in the order in which it stands in the file
    *("my_patchify", "my_unpatchify", "MyEmbeddings", "my_attention_head", "my_split_heads", "my_merge_heads"),
    *("MySelfAttention", "my_layer_norm", "MyMlp", "MyEncoderBlock", "MyVisionTransformer", "my_training"),
    *("my_resize_positions", "my_map_state_dict", "my_fold_layer_scale", "my_principal_components"),
    "my_direction",
)
MAIN, END = "if __name__", "the end"  # of the file


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
        if answer.__name__ != name:
            raise NotKept(f"later lessons look for `{name}`, and yours is called `{answer.__name__}`.")
        text = with_answer(read(path), name, cell_of(answer), vars(sys.modules["__main__"]))
        verdict = exercise(getattr(run(text), name))
        if not verdict:
            raise NotKept(f"from the file alone it is {verdict.status}. {verdict.message}")
        write_atomically(path, text.encode())
    except (NotKept, OSError, UnicodeDecodeError) as reason:
        return f"Not kept in `{FILE}`: {reason}"
    forgets = " Colab forgets it with this notebook: download it, and put it beside the next one."
    return f"Kept in `{FILE}`, beside the notebooks." + (forgets if "google.colab" in sys.modules else "")


def read(path: Path | None) -> str:
    """Return the text of the reader's file, or how one begins."""
    return path.read_text("utf-8-sig") if path and path.exists() else HEAD


def run(text: str) -> ModuleType:
    """Run the text of the file as a module; Python's own import may take what it compiled a second ago."""
    module = sys.modules["my_vit"] = ModuleType("my_vit")  # where a dataclass looks for it
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        exec(compile(text, FILE, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise NotKept(f"the file stops with {type(error).__name__}: {error}. It is left as it is.") from None
    return module


def cell_of(answer: Callable) -> str:
    """Return the text of the cell in which the reader wrote a function or a class."""
    functions = filter(inspect.isfunction, [answer, *vars(answer).values()])  # a class does not know its cell
    files = [inspect.unwrap(function).__code__.co_filename for function in functions]
    return "".join(linecache.getlines(files[0])) if files else ""


def with_answer(text: str, name: str, cell: str, scope: Mapping) -> str:
    """Return the file's text with an answer, what its cell defines beside it, and imports. All else stays as it is."""
    module, there, new = run(text), pieces(text), pieces(cell)
    new = {key: source for key, source in new.items() if key == name or (key.isidentifier() and key not in KEPT)}
    if name not in new:
        raise NotKept("its source is not found: write it with `def` or `class`, in one cell.")
    for used in new.keys() & there.keys() - {name}:
        users = [key for key, source in there.items() if key not in (name, used) and re.search(rf"\b{used}\b", source)]
        if new[used] == there[used]:
            del new[used]  # it stays where it is, before all who use it
        elif users:
            raise NotKept(f"your file has another `{used}`, which `{users[0]}` uses: give this one another name.")
    names = set(names_in(compile("\n".join(new.values()), "", "exec", dont_inherit=True)))
    missing = sorted(names & scope.keys() - new.keys() - vars(module).keys())
    imports = "".join(import_of(used, scope[used]) for used in missing)
    gone = {key for key, source in there.items() if re.fullmatch(rf"from vit_tutorial.* {name}\n", source)}  # ours
    order = list(there)
    place = order.index(next(key for key in (name, *KEPT[KEPT.index(name) + 1 :], MAIN, END) if key in there))
    before = "".join(there[key] for key in order[:place] if key not in gone | new.keys())
    after = "".join(there[key] for key in order[place:] if key not in gone | new.keys())
    made = "\n\n\n".join([before, *new.values(), after])
    first_import = re.search(r"^(import|from) .*\n", made, re.MULTILINE)
    top = first_import.end() if first_import else 0
    return re.sub(r"\n{4,}", "\n\n\n", made[:top] + imports + made[top:]).strip("\n") + "\n"


def pieces(text: str) -> dict[str, str]:
    """Cut a text into functions and classes, by their names, with the comments right above, and what is between."""
    lines, found, end = text.splitlines(keepends=True), {}, 0
    for node in ast.parse(text).body:
        start = min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))) - 1
        while start > end and lines[start - 1].startswith("#"):
            start -= 1
        found[f"before {start}"] = "".join(lines[end:start])
        end = node.end_lineno
        source = "".join(lines[start:end])
        key = MAIN if source.startswith(MAIN) else getattr(node, "name", "")
        found[key if key and key not in found else f"line {start}"] = source
    return {**found, END: "".join(lines[end:])}


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code takes from outside itself."""
    yield from (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from names_in(inner)


def import_of(name: str, value) -> str:
    """Return the line by which a file gets a name of the notebook. Raises NotKept for what the notebook alone has."""
    if isinstance(value, ModuleType):
        return f"import {name}\n" if value.__name__ == name else f"import {value.__name__} as {name}\n"
    own = getattr(value, "__name__", "")
    module = getattr(value, "__module__", None) or "__main__"
    for place in (module.split(".")[0], module):
        if place != "__main__" and getattr(sys.modules.get(place), own, None) is value:
            renamed = f" as {name}" if own != name else ""
            return f"from {place} import {own}{renamed}\n"
    advice = "define it in the same cell, or let it pass its check." if callable(value) else "put it into the function."
    raise NotKept(f"it uses `{name}`, which only this notebook has: {advice}")
