"""Target: the static validator, on one package with one file replaced."""

from __future__ import annotations

import ast
import json
from random import Random

from engine.package.contract import Severity
from engine.package.freeze import freeze_files
from engine.package.rules import RULES
from engine.package.validate import validate
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.target import Target, expect
from tests.helpers.package_cases import BASE, BASE_ID, package_cases

FILES = {str(path.relative_to(BASE)): path.read_bytes() for path in sorted(BASE.rglob("*")) if path.is_file()}


def check(data: bytes) -> None:
    """The first line names a file, the rest is its content: there are diagnostics that can be shown, or a package that compiles."""
    name, _, content = data.partition(b"\n")
    path = name.decode("utf-8", "surrogateescape")
    validation = validate(freeze_files(BASE_ID, {**FILES, path: content}))
    told = validation.diagnostics
    expect(all(found.rule in RULES and found.message and found.fix for found in told), "a diagnostic without its parts")
    json.dumps(validation.to_dict(), ensure_ascii=False).encode()
    expect(validation.ok != any(found.severity is Severity.error for found in told), "valid with an error")
    if validation.ok:
        for file in validation.candidate.files:
            if file.path.endswith(".py"):
                compile(file.data, file.path, "exec", dont_inherit=True)
                _no_import_of_machine(file.data)


def _no_import_of_machine(data: bytes) -> None:
    """The plainest spelling of what rules refuse: no accepted module imports what reaches the machine."""
    for node in ast.walk(ast.parse(data)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        for name in names:
            top = name.split(".")[0]
            expect(
                top not in ("os", "sys", "subprocess", "socket", "importlib", "builtins", "ctypes"), f"imports {name}"
            )


def seeds() -> list[bytes]:
    """Every file of the sound package, and every Python file of those that break a rule or come near it."""
    found = [name.encode() + b"\n" + content for name, content in FILES.items()]
    for case in package_cases():
        for path in sorted(case.directory.rglob("*")):
            if path.is_file() and path.suffix in (".py", ".toml", ".md") and path.name != "_case.toml":
                found.append(str(path.relative_to(case.directory)).encode() + b"\n" + path.read_bytes())
    return sorted(set(found), key=len)


def mutate(data: bytes, rng: Random) -> bytes:
    """Lines of code moved, repeated and taken from each other; now and then plain bytes."""
    name, _, content = data.partition(b"\n")
    if rng.random() < 0.3:
        return name + b"\n" + mutated_bytes(content, rng)
    made = content.split(b"\n")
    at, other = rng.randrange(len(made)), rng.randrange(len(made))
    match rng.randrange(6):
        case 0:
            del made[at]
        case 1:
            made.insert(other, made[at])
        case 2:
            made[at] = b"    " + made[at]
        case 3:
            made[at] = made[at].lstrip()
        case 4:
            made[at] = _word(made[at], rng)
        case _:
            made.insert(at, rng.choice(SNIPPETS))
    return name + b"\n" + b"\n".join(made)


def _word(line: bytes, rng: Random) -> bytes:
    words = line.split(b" ")
    words[rng.randrange(len(words))] = rng.choice(WORDS)
    return b" ".join(words)


WORDS = [
    b"async", b"await", b"yield", b"lambda:", b"*", b"**x", b"...", b"(x", b")", b"[", b"]", b":=", b"@x", b"match", b"case", b"_",
    b"global", b"nonlocal", b"class", b"def", b"f'{x!r:>{y}}'", b"b'\\xff'", b"'\\N{DASH}'", b"1_0", b"0x", b"1e999", b"1j", b"\x0c",
    b"\\", b"__import__", b"getattr", b"cloche.agent", b"asyncio.to_thread", b"__init_subclass__", b"\xc3\xa9", b"\xef\xbc\xa1",
]  # fmt: skip
SNIPPETS = [
    b"from . import x",
    b"from ..... import x as y",
    b"import asyncio, re as cloche",
    b"class A(B, metaclass=C): x: int = 1",
    b"X = [*Y, {**Z}]",
    b"if TYPE_CHECKING:\n    import re",
    b"@pytest.mark.parametrize('a', [1, pytest.param(2, marks=pytest.mark.skip(reason='x'))])",
    b"def f(a, /, b=1, *c, d: int = 2, **e) -> None: ...",
    b"match x:\n    case {'a': [1, *_], **k} | A(b=1): pass",
    b"try: pass\nexcept* E: pass",
    b"x = (y := 1)",
    b"__all__ = ['a']",
]

TARGET = Target("package", seeds, check, mutate)
