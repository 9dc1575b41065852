"""Lets Griffe, which reads the source without running it, see what a reader of the API should.

Fields of configurations carry their meaning in a comment behind them. It becomes the description of the argument.
"""

import re
from typing import Any

import griffe

_COMMENT = re.compile(r"  # (?P<meaning>.+)$")


class DescribedFields(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name == "utds":
            for cls in _classes(pkg):
                _describe(cls)


def _classes(module: griffe.Module) -> list[griffe.Class]:
    own = [x for x in module.members.values() if not x.is_alias]
    inner = [cls for x in own if isinstance(x, griffe.Module) for cls in _classes(x)]
    return [x for x in own if isinstance(x, griffe.Class) and not x.name.startswith("_")] + inner


def _describe(cls: griffe.Class) -> None:
    """Append `Args:` to the docstring of a dataclass whose fields have comments, inherited fields first."""
    if not any("dataclass" in str(decorator.value) for decorator in cls.decorators):
        return
    meanings: dict[str, str] = {}
    for base in (*reversed(cls.mro()), cls):
        meanings |= _meanings(base)
    if not meanings or (cls.docstring and "Args:" in cls.docstring.value):
        return
    lines = [f"    {name}: {meaning}" for name, meaning in meanings.items()]
    about = cls.docstring or cls.module.docstring  # a module about one algorithm speaks for its class
    text = cls.docstring.value if cls.docstring else about.value.split("\n\n")[0] if about else cls.name
    cls.docstring = griffe.Docstring("\n".join([text, "", "Args:", *lines]), parent=cls)


def _meanings(cls: griffe.Class) -> dict[str, str]:
    """Field -> the comment at the end of its line."""
    found = {}
    for name, member in cls.members.items():
        if isinstance(member, griffe.Attribute) and member.lineno and not name.startswith("_"):
            comment = _COMMENT.search(cls.module.lines_collection[cls.filepath][member.lineno - 1])
            if comment and member.annotation is not None:
                found[name] = comment["meaning"]
    return found
