"""Keep what the reader wrote: an answer that passed goes into `my_vit.py`, beside the notebooks."""

import inspect
import linecache
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from ..checks.exercise import Exercise
from ..files import write_atomically
from .pieces import END, MAIN, beside, is_import, names_in, pieces

FILE = "my_vit.py"
HEAD = '"""My own Vision Transformer, written in the lessons."""\n\nimport torch\nfrom torch import nn\n'
KEPT = (  # what is kept, in the order in which it stands in the file
    *("my_patchify", "my_unpatchify", "MyEmbeddings", "my_attention_head", "my_split_heads", "my_merge_heads"),
    *("MySelfAttention", "my_layer_norm", "MyMlp", "MyEncoderBlock", "MyVisionTransformer", "my_training"),
    *("my_resize_positions", "my_map_state_dict", "my_fold_layer_scale", "my_principal_components"),
    "my_direction",
)


class NotKept(Exception):
    """The answer does not go into the file; the message says why."""


def readers_file() -> Path | None:
    """Return where this notebook's reader keeps answers; None elsewhere, and where a notebook is only stored."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return Path(FILE) if hasattr(shell, "kernel") and "VIT_TUTORIAL_STILL" not in os.environ else None


def keep(exercise: Exercise, answer: Callable) -> str:
    """Put an answer that passed into the file, if it passes from there alone, too; say so in one line."""
    path, name, older = readers_file(), exercise.answer.__name__, ""
    if path is None or name not in KEPT or answer.__module__ != "__main__":
        return ""
    try:
        if re.search(rf"^(class|def) {name}\b", text := read(path), re.MULTILINE):
            older = f" `{FILE}` still has the one that passed before."
        if answer.__name__ != name:
            raise NotKept(f"later lessons look for `{name}`, and yours is called `{answer.__name__}`.")
        text = with_answer(text, name, cell_of(answer), vars(sys.modules["__main__"]))
        verdict = exercise(getattr(run(text), name))
        if not verdict:
            raise NotKept(f"from the file alone it is {verdict.status}. {verdict.message}")
        write_atomically(path, text.encode())
    except (NotKept, OSError, UnicodeDecodeError, SyntaxError) as reason:
        return f"Not kept in `{FILE}`: {reason}{older}"
    forgets = " Colab forgets it with this notebook: download it, and put it beside the next one."
    return f"Kept in `{FILE}`, beside the notebooks." + (forgets if "google.colab" in sys.modules else "")


def read(path: Path | None) -> str:
    """Return the text of the reader's file, or how one begins."""
    return path.read_text("utf-8-sig") if path and path.exists() else HEAD


def usable_text() -> str:
    """Return the text of the reader's file if it can be run; else how one begins, and print why."""
    try:
        run(text := read(readers_file()))
    except (NotKept, OSError, UnicodeDecodeError) as reason:
        print(f"Without `{FILE}`: {reason}")
        return HEAD
    return text


def run(text: str) -> ModuleType:
    """Run the text of the file as a module; Python's own import may take what it compiled a second ago."""
    module = sys.modules["my_vit"] = ModuleType("my_vit")  # where a dataclass looks for it
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        exec(compile(text, FILE, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise NotKept(f"the file stops with {type(error).__name__}: {error}. It is left as it is.") from None
    return module


def written_in(text: str) -> dict[str, Callable]:
    """Return the functions and classes that stand in the text of the reader's file, by their names."""
    found = vars(run(text))
    return {name: value for name, value in found.items() if getattr(value, "__module__", "") == "my_vit"}


def cell_of(answer: Callable) -> str:
    """Return the text of the cell in which the reader wrote a function or a class."""
    functions = filter(inspect.isfunction, [answer, *vars(answer).values()])  # a class does not know its cell
    files = [inspect.unwrap(function).__code__.co_filename for function in functions]
    if text := "".join(linecache.getlines(files[0])) if files else "":
        return text
    cells = sys.modules["IPython"].get_ipython().history_manager.input_hist_raw  # what `%%time` runs is no file
    defined = re.compile(rf"^(class|def) {answer.__name__}\b", re.MULTILINE)
    return re.sub(r"(?m)^[%!].*", "", next(filter(defined.search, reversed(cells)), ""))


def with_answer(text: str, name: str, cell: str, scope: Mapping) -> str:
    """Return the file's text with an answer, what it uses of its cell, and imports. All else stays as it is."""
    known, there = vars(run(text)).keys(), pieces(text)
    new = new_pieces(name, pieces(cell), there)
    code = "\n".join(new.values())
    missing = sorted(names_in(code) & scope.keys() - new.keys() - known)
    imports = "".join(import_of(used, scope[used]) for used in missing)
    stay = "\n".join(source for key, source in there.items() if key not in new)
    idle = names_in("\n".join(there.get(key, "") for key in new)) - names_in(stay) - names_in(code)
    gone = new.keys() | {key for key in idle if is_import(there.get(key, "")) and there[key] not in HEAD}
    homes = (name, *KEPT[KEPT.index(name) + 1 :], MAIN, END)
    place = list(there).index(next(key for key in homes if key in there and not is_import(there[key])))
    sources = ["" if key in gone else source for key, source in there.items()]
    made = "\n\n\n".join(["".join(sources[:place]), *new.values(), "".join(sources[place:])])
    first_import = re.search(r"^(import|from) .*\n", made, re.MULTILINE)
    top = first_import.end() if first_import else 0
    return re.sub(r"\n{4,}", "\n\n\n", made[:top] + imports + made[top:]).strip("\n") + "\n"


def new_pieces(name: str, cell: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    """Return what comes into the file: an answer, and what it uses of its cell and is not there already."""
    new = {key: source for key, source in beside(name, cell, KEPT).items() if not is_import(source)}
    if name not in new:
        raise NotKept("its source is not found: write it with `def` or `class`, in one cell.")
    for key in new.keys() & there.keys():
        if not new[key].startswith("#"):
            new[key] = re.match(r"(#.*\n)*", there[key])[0] + new[key]  # a comment that was written above it there
    for used in new.keys() & there.keys() - {name}:
        users = [key for key, source in there.items() if key not in (name, used) and used in names_in(source)]
        if new[used] == there[used]:
            del new[used]  # it stays where it is, before all who use it
        elif users:
            raise NotKept(f"your file has another `{used}`, which `{users[0]}` uses: give this one another name.")
    return new


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
    advice = "define it in the same cell, or let it pass its check." if own else f"write `{name} = …` in the same cell."
    raise NotKept(f"it uses `{name}`, which only this notebook has: {advice}")
