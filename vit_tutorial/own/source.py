"""The text of `my_vit.py`: cut into its statements, put together again with an answer, and run."""

import ast
import linecache
import re
import sys
from collections.abc import Callable, Mapping, Set
from symtable import SymbolTable, symtable
from types import ModuleType
from typing import NamedTuple

from ..checks import check
from ..checks.running import Wrong

FILE = "my_vit.py"
EXERCISES = {exercise.answer.__name__: exercise for exercise in vars(check).values()}  # in the order of the lessons


class Piece(NamedTuple):
    """A statement with the comment right above it, or what stands between two of them."""

    source: str
    defines: Set[str] = frozenset()
    uses: Set[str] = frozenset()  # names from outside of it
    is_import: bool = False


def pieces(text: str) -> list[Piece]:
    """Cut a text into pieces. Put one after another, they are the text again."""
    lines, found, end = text.splitlines(keepends=True), [], 0
    for statement in ast.parse(text, FILE).body:
        first = min(each.lineno for each in (statement, *getattr(statement, "decorator_list", ())))
        start = max(end, first - 1)  # what follows a semicolon belongs to the statement before
        while start > end and lines[start - 1].startswith("#"):
            start -= 1
        between, end = lines[end:start], statement.end_lineno
        source = "".join(lines[start:end])
        is_import = isinstance(statement, (ast.Import, ast.ImportFrom))
        found += [Piece("".join(between)), Piece(source, *names_in(symtable(source, FILE, "exec")), is_import)]
    return [*found, Piece("".join(lines[end:]))]


def names_in(scope: SymbolTable) -> tuple[set[str], set[str]]:
    """Return the names that a scope defines, and those that it, and the scopes in it, take from outside of them."""
    symbols = scope.get_symbols()
    defines = {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}
    uses = {symbol.get_name() for symbol in symbols if symbol.is_global() and symbol.is_referenced()}
    return defines, uses.union(*(names_in(inner)[1] for inner in scope.get_children()))


def needed(some: list[Piece], there: list[Piece]) -> list[Piece]:
    """Return these pieces, and those that they use, and so on, but for other answers; in the order of the text."""
    wanted = {name for piece in some for name in piece.uses} - EXERCISES.keys()
    more = [piece for piece in there if piece.defines & wanted and piece not in some]
    return needed(some + more, there) if more else [piece for piece in there if piece in some]


def with_answer(text: str, name: str, cell: str, scope: Mapping) -> str:
    """Return the file's text with an answer, and all that it uses; raise Wrong for what only the notebook has."""
    there, in_cell = pieces(text), pieces(cell)
    answer = [piece for piece in in_cell if name in piece.defines]
    if not answer:
        raise Wrong(f"later lessons look for `{name}`: write it under this name, with `def` or `class`, in one cell.")
    new = [piece for piece in needed(answer, in_cell) if piece not in there]
    defined = {each for piece in new for each in piece.defines}
    require_unused(defined - EXERCISES.keys(), [piece for piece in there if name not in piece.defines], scope)
    used = {each for piece in new for each in piece.uses if not each.startswith("__")}
    elsewhere = sorted(used & scope.keys() - defined - {each for piece in there for each in piece.defines})
    imports = [f"{piece.source.strip()}\n" for piece in new if piece.is_import]
    imports += [import_of(each, scope[each]) for each in elsewhere]
    code = [f"\n\n\n{piece.source}\n\n\n" for piece in new if not piece.is_import]
    later = {*list(EXERCISES)[list(EXERCISES).index(name) :]}  # it goes where an older one stands, or before these
    ends = [(piece.defines & later and not piece.is_import) or "__main__" in piece.source for piece in there]
    place = next((index for index, is_end in enumerate(ends) if is_end), len(there))
    top = next((index for index, piece in enumerate(there[:place]) if piece.is_import), 0)  # for imports
    kept = ["" if piece.defines and piece.defines <= defined else piece.source for piece in there]
    joined = "".join([*kept[:top], *imports, *kept[top:place], *code, *kept[place:]])
    return re.sub(r"\n{4,}", "\n\n\n", joined).strip("\n") + "\n"


def require_unused(names: Set[str], there: list[Piece], scope: Mapping) -> None:
    """Raise Wrong if the answers that are there use one of these names for something else than the notebook does."""
    used = needed([piece for piece in there if piece.defines & EXERCISES.keys()], there)
    for name in sorted(names & {each for piece in used for each in piece.defines}):
        written_in("".join(piece.source for piece in used))
        if vars(sys.modules["my_vit"]).get(name) is not scope.get(name):  # an import may be written in two ways
            raise Wrong(f"an earlier answer uses another `{name}`: give yours a name of its own.")


def import_of(name: str, value: object) -> str:
    """Return the line by which a file gets a name of the notebook. Raises Wrong for what the notebook alone has."""
    own, module = getattr(value, "__name__", ""), getattr(value, "__module__", None) or "__main__"
    renamed = "" if own == name else f" as {name}"
    if isinstance(value, ModuleType):
        return f"import {own}{renamed}\n"
    for source in (module.split(".")[0], module):  # `from torch import Tensor` rather than from `torch._tensor`
        if source != "__main__" and getattr(sys.modules.get(source), own, None) is value:
            return f"from {source} import {own}{renamed}\n"
    todo = "check it first" if name in EXERCISES else "define it in the same cell"
    raise Wrong(f"it uses `{name}`, which only this notebook has: {todo}.")


def with_ours(text: str, names: Set[str]) -> str:
    """Return the file's text with our solutions under these names."""
    for name, exercise in EXERCISES.items():
        if name in names:
            text = with_answer(text, name, exercise.source, vars(sys.modules[exercise.answer.__module__]))
    return text


def written_in(text: str) -> dict[str, Callable]:
    """Run the text as the module `my_vit`; return the functions and classes that stand in it, by their names."""
    module = sys.modules["my_vit"] = ModuleType("my_vit")  # where a dataclass looks for it
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        exec(compile(text, FILE, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        raise Wrong(f"the file stops with {type(error).__name__}: {error}.") from None
    return {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == "my_vit"}
