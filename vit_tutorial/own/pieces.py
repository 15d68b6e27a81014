"""Source code in pieces: what has a name, what a piece uses, and what is between."""

import ast
import dis
from collections.abc import Collection, Mapping
from types import CodeType

MAIN, END = "if __name__", "the end"  # of a file


def pieces(text: str) -> dict[str, str]:
    """Cut a text into what has a name, with the comments right above, and what is between."""
    lines, found, end = text.splitlines(keepends=True), {}, 0
    for node in ast.parse(text).body:
        start = min(each.lineno for each in (node, *getattr(node, "decorator_list", ()))) - 1
        while start > end and lines[start - 1].startswith("#"):
            start -= 1
        found[f"before {start}"] = "".join(lines[end:start])
        end = node.end_lineno
        source = "".join(lines[start:end])
        key = MAIN if source.startswith(MAIN) else name_of(node)
        found[key if key and key not in found else f"line {start}"] = source
    return {**found, END: "".join(lines[end:])}


def name_of(node: ast.stmt) -> str:
    """Return the (first) name that a function, a class, an import or `NAME = …` defines; "" for other statements."""
    first = getattr(node, "names", getattr(node, "targets", [node]))[0]
    return getattr(first, "asname", None) or getattr(first, "name", getattr(first, "id", ""))


def is_import(source: str) -> bool:
    return source.startswith(("import ", "from "))


def beside(name: str, there: Mapping[str, str], but: Collection[str]) -> dict[str, str]:
    """Return a piece and all others that it uses, and that those use, but for some names."""
    used, more = set(), {name}
    while more:
        used |= more
        more = {each for key in more for each in names_in(there.get(key, ""))} & there.keys() - used - {*but}
    return {key: source for key, source in there.items() if key in used}


def names_in(source: str) -> set[str]:
    """Return the names that code takes from outside itself."""
    codes, found = [compile(source, "", "exec", dont_inherit=True)], set()
    for code in codes:  # and what is defined within, which joins the list
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        found |= {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return found
