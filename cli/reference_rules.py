"""docs/reference/rules.md: the package contract, rendered from the lists that the validator judges by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from engine.package import layout, vocabulary
from engine.package.rules import RULES
from engine.package.rules_readme import SECTIONS

GROUPS = {
    "tree": "Files",
    "text": "Text",
    "identity": "Name",
    "metadata": "pyproject.toml",
    "module": "Module level",
    "import": "Imports",
    "name": "Names in code",
    "entry": "The entry",
    "tests": "Tests",
    "readme": "README.md",
}


def rules_page() -> str:
    """The whole page."""
    return "\n".join(_page())


def _page() -> Iterator[str]:
    yield "# Rules of the package contract\n"
    yield "`cloche workflows validate` prints these ids. An id never changes its meaning. How to write a package that keeps them:"
    yield "[write a package](../guide/write-a-package.md)."
    for prefix, title in GROUPS.items():
        yield f"\n## {title}\n\n| rule | demands |\n|---|---|"
        yield from (
            f"| `{rule}` | {text.replace('|', chr(92) + '|')} |" for rule, text in RULES.items() if _in(rule, prefix)
        )
        if prefix == "tree":
            yield from _layout()
    yield "\nThe sections are headings of any level; case, numbering and emphasis do not matter.\n"
    yield "| section | accepted headings |\n|---|---|"
    yield from (f"| {section} | {', '.join(names)} |" for section, names in SECTIONS.items())
    yield "\n## Closed lists\n"
    yield f"**From `cloche`:** {_listed(vocabulary.primitives())}.\n"
    yield f"**From `cloche.programs`:** {_listed(vocabulary.programs())}.\n"
    yield f"**Standard modules:** {_listed(vocabulary.STANDARD)}.\n"
    yield "**Besides:** modules of the package itself, relatively; `from workflows.<x> import <x>`;"
    yield f"in tests also `pytest` and `{vocabulary.TESTING_MODULE}`.\n"
    yield "**Never imported,** because a replay could not repeat what they do:\n"
    yield "| module | instead |\n|---|---|"
    for module in sorted(vocabulary.UNRECORDED):
        yield f"| `{module}` | {vocabulary.instead_of(module)} |"
    yield f"\n**Module level calls only** {_listed(_plain(vocabulary.CONSTRUCTORS))};"
    yield f"class bodies also {_listed(_plain(vocabulary.CLASS_CONSTRUCTORS))}.\n"
    yield f"**Decorators:** {_listed(_plain(vocabulary.DECORATORS | {vocabulary.AGENTIC}))}; in tests also"
    yield f"{_listed(vocabulary.TEST_DECORATORS)}.\n"
    yield f"**Permissions:** {_listed(vocabulary.PERMISSIONS)}, `program:<name>`;"
    yield f"a package that declares none has {_listed(vocabulary.DEFAULT_PERMISSIONS)}.\n"
    yield f"**Names not used in code:** {_listed(vocabulary.REFUSED_NAMES)}.\n"
    yield f"**Attributes not used in code:** {_listed(vocabulary.REFUSED_ATTRIBUTES)}.\n"


def _layout() -> Iterator[str]:
    yield "\n| where | what may lie there |\n|---|---|"
    yield f"| top | {_listed(layout.ROOT_FILES)} |"
    yield f"| {_listed(f'{name}/' for name in layout.CODE_FOLDERS)} and folders in them | Python modules |"
    yield f"| `{layout.RESOURCES}/` and folders in it | text files ending in {_listed(layout.RESOURCE_SUFFIXES)} |"
    yield f"| `{layout.TESTS}/` | `__init__.py` (empty; may be left out), `conftest.py`, `test_*.py` |"
    yield f"| `{layout.TESTS}/data/` and folders in it | text files ending in {_listed(layout.TEST_DATA_SUFFIXES)} |"
    yield f"\nRequired: {_listed(layout.REQUIRED)}. Passed over: bytecode, `.git`, `.gitignore`, caches of common tools."


def _in(rule: str, prefix: str) -> bool:
    return rule.partition(".")[0] == prefix


def _plain(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("builtins.") for name in names]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names, key=lambda name: (name.lower(), name)))
