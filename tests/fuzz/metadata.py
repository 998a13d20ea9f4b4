"""Target: pyproject.toml of a package: read, judged, and rewritten with pins."""

from __future__ import annotations

import tomllib
from random import Random

from engine.errors import EngineFailure, InvalidPackage
from engine.package.freeze import freeze_files
from engine.package.pins import parse, pins_of, with_pins_in
from engine.package.rules import Findings
from engine.package.rules_metadata import check_metadata
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.package import FILES
from tests.fuzz.package import seeds as of_packages
from tests.fuzz.target import Target, expect
from tests.helpers.package_cases import BASE_ID

PYPROJECT = "pyproject.toml"
PINS = {"other_one": "a" * 40, "word_list": "0123456789" * 4}


def check(data: bytes) -> None:
    """A document is refused as ValueError, or is judged; rewriting keeps all of it but the pins."""
    findings = Findings()
    check_metadata(freeze_files(BASE_ID, {**FILES, PYPROJECT: data}), findings)
    for found in findings.ordered():
        f"{found.message}{found.fix}".encode()
    try:
        parse(data)
    except ValueError:
        expect(pins_of(data) == {}, "pins of a document that cannot be read")
        return
    try:
        rewritten = with_pins_in(data, PINS)
    except (InvalidPackage, EngineFailure):  # the second: a form that cannot be rewritten and leave the rest as it is
        return
    expect(pins_of(rewritten) == PINS, "the pins are not those that were written")
    expect(with_pins_in(rewritten, PINS) == rewritten, "the same pins give other bytes")
    expect(list(tomllib.loads(data.decode())) == list(parse(data)), "another reader finds other tables")


def seeds() -> list[bytes]:
    """The metadata of every package of the contract, with pins as well."""
    documents = [seed.partition(b"\n")[2] for seed in of_packages() if seed.startswith(PYPROJECT.encode())]
    return [*documents, with_pins_in(FILES[PYPROJECT], PINS)]


def mutate(data: bytes, rng: Random) -> bytes:
    """Lines moved and repeated, TOML of odd forms put in between, or plain bytes."""
    if rng.random() < 0.3:
        return mutated_bytes(data, rng)
    made = data.split(b"\n")
    at, other = rng.randrange(len(made)), rng.randrange(len(made))
    match rng.randrange(4):
        case 0:
            del made[at]
        case 1:
            made.insert(other, made[at])
        case 2:
            made[at] = made[at].split(b"=")[0] + b"= " + rng.choice(TOML)
        case _:
            made.insert(at, rng.choice(TABLES))
    return b"\n".join(made)


TOML = [
    b"1", b"-0", b"0xff", b"9" * 5000, b"nan", b"-inf", b"1e999", b"true", b"[]", b"[" * 2000, b"{a={b=1}}", b"''",
    b"'''\n'''", b'"""\\\n"""', b'"\\u0000"', b'"\\ud800"', b"1979-05-27T07:32:00-25:00", b"07:32:00.9999999999",
    b"[1,{a=[]}]", b"{}", b'"\xc3\xa9"', b"'a' # c", b"\r", b"[1,\n2,\n]", b"0o8", b"1__0", b"{a.b=1,a.c=2}",
]  # fmt: skip
TABLES = [
    b"[tool.cloche]", b"[tool.openprogram]", b"[[tool.cloche]]", b"[tool]", b"[tool.cloche.workflow-dependencies]",
    b"tool.cloche.x = 1", b'[tool."cloche"]', b"[tool.cloche.workflow-dependencies.a]", b"[project.entry-points]",
    b"[[project]]", b"[a.b.c]", b"a.b.c = 1", b'"" = 1', b"[ tool . cloche ]", b"tool = {cloche = {}}",
    b"workflow-dependencies = {}", b'"other_one" = "' + b"a" * 40 + b'"',
]  # fmt: skip

TARGET = Target("metadata", seeds, check, mutate)
