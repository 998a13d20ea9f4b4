"""What a validation says beside its diagnostics: metadata, reach, cases; and that hostile sources end in diagnostics."""

from __future__ import annotations

import ast
import json
import textwrap
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.package.contract import ValidatedPackage
from engine.package.freeze import freeze_files
from engine.package.rules import RULES
from engine.package.validate import require_valid, validate
from engine.package.vocabulary import primitives, programs
from tests.helpers.package_cases import BASE, files_of

ROOT = Path(__file__).parents[2]
FRAGMENTS = ["(", ")", "[", "]", "{", "}", ":", "=", "x", "f'{", "'", '"""', "\n", "    ", "def ", "lambda ", "1", "\\", "#",
             "class ", "import ", "from . ", "@", "async ", "*", "not ", "global x", "match x:", "\t", "\x0c", "é", ","]  # fmt: skip


def package_with(files: dict[str, str]) -> ValidatedPackage:
    changed = {path: textwrap.dedent(text).encode() for path, text in files.items()}
    return require_valid(freeze_files("word_count", {**files_of(BASE), **changed}))


def rules_of(files: dict[str, bytes]) -> set[str]:
    return {found.rule for found in validate(freeze_files("word_count", {**files_of(BASE), **files})).diagnostics}


def test_the_public_form_never_reads_like_a_passed_test() -> None:
    found = json.loads(json.dumps(validate(freeze_files("word_count", files_of(BASE))).to_dict()))
    assert found["ok"] is True
    assert found["executed_tests"] is False
    assert found["workflow_id"] == "word_count"
    assert found["metadata"]["permissions"] == ["workspace.read"]
    assert [file["path"] for file in found["files"]] == sorted(files_of(BASE))
    assert "passed" not in json.dumps(found)


def test_reach_is_what_code_imports_and_not_what_tests_import() -> None:
    package = package_with(
        {
            "helpers/reach.py": """
                from workflows.zeta import zeta
                from workflows.alpha import alpha as first
                from openprogram.programs.tools.grep import grep
                from cloche.programs import read
            """,
            "tests/test_more.py": "from workflows.only_tests import only_tests\nfrom cloche.programs import glob\n",
        }
    )
    assert package.dependencies == ("alpha", "zeta")
    assert package.programs == ("grep", "read")


def test_cases_are_listed_by_file_class_function_and_index() -> None:
    package = package_with(
        {
            "tests/test_a.py": """
                import pytest

                TEXTS = ["a", pytest.param("b", marks=pytest.mark.skip(reason="not b"))]

                @pytest.mark.parametrize("text", TEXTS)
                class TestTexts:
                    @pytest.mark.parametrize("n", [1, 2])
                    def test_both(self, text, n):
                        assert text

                    def helper(self):
                        return 1

                @pytest.mark.skip(reason="later")
                def test_later():
                    assert False
            """
        }
    )
    assert [(case.id, case.skip_reason) for case in package.cases] == [
        ("tests/test_a.py::TestTexts::test_both[0]", None),
        ("tests/test_a.py::TestTexts::test_both[1]", "not b"),
        ("tests/test_a.py::TestTexts::test_both[2]", None),
        ("tests/test_a.py::TestTexts::test_both[3]", "not b"),
        ("tests/test_a.py::test_later", "later"),
        ("tests/test_workflow.py::test_counts_the_words_of_a_text", None),
    ]


def test_warnings_stay_with_the_package() -> None:
    package = package_with({"README.md": "# Counts words\n"})
    assert {found.rule for found in package.warnings} == {"readme.section"}
    assert len(package.warnings) == 8


def test_declared_permissions_replace_the_default() -> None:
    text = files_of(BASE)["pyproject.toml"].decode() + '\n[tool.openprogram]\npermissions = ["ask", "program:crawl"]\n'
    package = package_with({"pyproject.toml": text})
    assert package.metadata.permissions == ("ask", "program:crawl")
    assert package.metadata.spelling == "openprogram"


def test_every_rule_id_used_in_the_code_is_registered() -> None:
    used: set[str] = set()
    for file in (ROOT / "engine" / "package").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in RULES:
                used.add(node.value)
    assert used == set(RULES)


def test_the_vocabulary_is_that_of_the_authoring_package() -> None:
    assert {"agent", "llm", "now", "agentic_function"} <= primitives()
    assert programs() == {"read", "grep", "glob", "list"}


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        (b"X = " + b"-" * 190_000 + b"1", "text.nesting"),
        (b"X = " + b"not " * 190_000 + b"1", "text.nesting"),
        (b"X = a" + b".b" * 90_000, "text.nesting"),
        (b"if 1:\n pass\n" + b"elif 1:\n pass\n" * 40_000, "text.nesting"),
        (b"X = " + b"lambda: " * 90_000 + b"1", "text.nesting"),
        (b"[" * 190_000, "text.nesting"),
        (b"X = " + b"{1:" * 99, "text.syntax"),
        (b"X = " + b"f(a=" * 99, "text.syntax"),
        (b"def f():\n" + b"".join(b" " * depth + b"if 1:\n" for depth in range(1, 150)), "text.syntax"),
        (b'X = f"' + b"{a}" * 300_000 + b'"', "text.syntax"),
        (b'"""' + b'\\"""' * 200_000 + b"\\", "text.syntax"),
        (b"X = 1\n\\", "text.syntax"),
        (b"X = 0x" + b"f" * 5000 + b"()", "module.call"),
        (b"@(0x" + b"f" * 5000 + b")\ndef f(): pass\n", "module.decorator"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:12].decode(),
)
def test_a_hostile_source_becomes_a_diagnostic(source: bytes, rule: str) -> None:
    assert rules_of({"steps/hostile.py": source}) == {rule}


@pytest.mark.parametrize(
    ("path", "line", "told"),
    [
        ("workflow.py", "from word_count.steps.split import words", "`from .steps.split import …`"),
        ("workflow.py", "from steps.split import words", "`from .steps.split import …`"),
        ("steps/more.py", "import word_count.steps.split", "`from ..steps.split import …`"),
        ("steps/more.py", "import requests", "docs/reference/rules.md"),
    ],
)
def test_an_absolute_import_of_the_package_itself_is_told_as_the_relative_one(path: str, line: str, told: str) -> None:
    source = files_of(BASE).get(path, b"")
    files = {**files_of(BASE), path: line.encode() + b"\n\n" + source}
    (found,) = validate(freeze_files("word_count", files)).diagnostics
    assert (found.rule, told in found.fix) == ("import.refused", True)


def cpu_s(files: dict[str, bytes]) -> float:
    """Seconds of this process that judging a package with these files takes."""
    before = process_time()
    rules_of(files)
    return process_time() - before


def test_eight_thousand_functions_are_judged_in_seconds() -> None:
    assert rules_of({"steps/many.py": b"def f(): pass\n" * 8000}) == set()


def test_functions_in_functions_are_judged_in_seconds() -> None:
    nested = b"".join(b" " * depth + b"def f():\n" for depth in range(90)) + b" " * 90 + b"x;" * 95_000
    assert cpu_s({"steps/nested.py": nested}) < 15  # it was minutes


def test_thousands_of_functions_below_thousands_of_parameters_are_judged_in_seconds() -> None:
    parameters = b",".join(b"a%d" % i for i in range(30_000))
    assert cpu_s({"steps/wide.py": b"def f(" + parameters + b"): return [" + b"lambda: 0," * 30_000 + b"]"}) < 15


def test_a_name_that_is_declared_global_is_no_parameter() -> None:
    inner = b"def f(input):\n    def g():\n        global input\n        return input\n    return g\n"
    assert rules_of({"steps/x.py": inner}) == {"name.refused"}
    assert rules_of({"steps/x.py": b"def f(input):\n    return lambda vars: (input, vars)\n"}) == set()
    assert rules_of({"steps/x.py": b"def f(input):\n    return input\nX = f\ndef g():\n    return input\n"}) == {
        "name.refused"
    }


@pytest.mark.parametrize(
    "hostile",
    [
        b"x = " + b"[" * 60_000,
        b"x = '" + b"a" * 70_000 + b"'\n",
        b"[" + b"a." * 30_000 + b"b]\n",
        b"a." * 30_000 + b"b = 1\n",
        b"[tool.y]\n" + b"b.a = 1\n" * 5_000,
        b"x = [" + b"1.5, " * 600 + b"]\n",
    ],
    ids=["nested", "large", "header", "key", "keys", "floats"],
)
def test_a_hostile_toml_becomes_a_diagnostic_at_once(hostile: bytes) -> None:
    files = {"pyproject.toml": hostile}
    assert "metadata.toml" in rules_of(files)
    assert cpu_s(files) < 5


def test_dots_in_strings_and_comments_of_a_toml_are_free() -> None:
    text = files_of(BASE)["pyproject.toml"] + b"# " + b"." * 1000 + b"\n[tool.y]\n"
    text += b"a = '" + b"." * 1000 + b'\'\nb = "\\"' + b"." * 1000 + b'"\nc = """\n"' + b"." * 1000 + b'"""\n'
    assert rules_of({"pyproject.toml": text}) == set()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=40).map("".join))
def test_no_source_takes_the_validator_down(source: str) -> None:
    first = validate(freeze_files("word_count", {**files_of(BASE), "steps/x.py": source.encode()}))
    assert first == validate(freeze_files("word_count", {**files_of(BASE), "steps/x.py": source.encode()}))
    assert {found.file for found in first.diagnostics} <= {"steps/x.py"}
