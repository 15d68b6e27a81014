"""Judge the reader's own code: `from vit_tutorial import check`, one function for each exercise.

check.patchify(my_patchify)   →  passed; not attempted; not judged; or what is wrong, by its symptom
check.patchify.hint()         →  where to look next
check.patchify.solution()     →  one right answer, as code
"""

from importlib import import_module
from pkgutil import iter_modules

from ..errors import require_choice
from .task import Task

FILES = sorted(file.name for file in iter_modules(__path__) if file.name.startswith("lesson_"))
LESSONS = [import_module(f".{name}", __name__) for name in FILES]


class Check:
    """Every exercise by its name: `check.patchify(my_patchify)`. `check` alone lists them, in the lessons' order."""

    def __init__(self):
        for lesson in LESSONS:
            vars(self).update({name: each for name, each in vars(lesson).items() if isinstance(each, Task)})

    def __getattr__(self, name: str):
        try:
            require_choice("exercise", name, vars(self))
        except ValueError as error:
            raise AttributeError(error) from None

    def __repr__(self) -> str:
        lines = []
        for lesson in LESSONS:
            number, _, title = lesson.__name__.rpartition("lesson_")[2].partition("_")
            lines += [f"{number} {title.replace('_', ' ').capitalize()}"]
            lines += [f"    {each!r}" for each in vars(self).values() if each.answer.__module__ == lesson.__name__]
        return "\n".join(lines)


check = Check()
