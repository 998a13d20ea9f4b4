"""Every rule of the package contract by its stable id, and the collector that diagnostics go through.

An id is public: it is printed, documented in docs/reference/rules.md and never reused for something else. The rules
themselves live in the `rules_*` modules, by subject; a diagnostic with an id that is not listed here is a bug.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from engine.package.contract import Diagnostic, Severity

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "tree.symlink": "No symbolic links, anywhere; they are never followed.",
        "tree.special": "No FIFOs, sockets or devices; they are never opened.",
        "tree.unexpected": "Only the files and folders of the layout.",
        "tree.missing": "The five required files are there.",
        "tree.no_module": "`steps/`, `goals/` or `helpers/` hold at least one module that is not `__init__.py`.",
        "tree.path_name": "Path components are printable UTF-8 without backslash; modules are named as Python names them.",
        "tree.path_length": "A path has at most 200 characters.",
        "tree.path_depth": "A path has at most 12 components.",
        "tree.file_size": "A file has at most 1 MiB.",
        "tree.file_count": "A package has at most 200 files.",
        "tree.total_size": "All files together have at most 5 MiB.",
        "text.utf8": "Every file is UTF-8 text.",
        "text.bom": "No byte order mark.",
        "text.nul": "No NUL bytes.",
        "text.encoding": "No other source encoding than UTF-8 is declared.",
        "text.syntax": "Python files compile.",
        "text.nesting": "Code nests at most 100 levels deep.",
        "text.tokens": "All Python files together hold at most 200,000 words, numbers, strings and signs.",
        "identity.pattern": "The workflow id matches `[a-z][a-z0-9_]{0,79}`.",
        "identity.reserved": "The workflow id is no keyword, primitive or management name.",
        "identity.project": "`project.name` equals the directory's name.",
        "metadata.toml": "`pyproject.toml` is TOML, has at most 64 KiB, and at most 500 dots outside strings and comments.",
        "metadata.type": "Known keys have their TOML type.",
        "metadata.unknown_key": "The tool table holds no unknown key.",
        "metadata.spelling": "There is one tool table, in one spelling.",
        "metadata.version": "`project.version` is there.",
        "metadata.description": "`project.description` has 1-500 characters after trimming.",
        "metadata.keywords": "`project.keywords` is there: at most 20 strings of 1-60 characters.",
        "metadata.dependencies": "`project.dependencies` is absent or empty.",
        "metadata.entry_point": 'The entry point group holds exactly `<id> = "workflows.<id>:<id>"`.',
        "metadata.display_name": "`display-name`, if present, equals the workflow id.",
        "metadata.permissions": "Declared permissions exist.",
        "metadata.pins": "`workflow-dependencies` maps workflow ids to 40-hex revisions.",
        "module.statement": "Module level and class bodies hold no other statements than the contract lists.",
        "module.call": "Module level calls only the allowed constructors.",
        "module.expression": "Module level holds constant expressions only.",
        "module.unbound": "Module level uses only names that are already bound.",
        "module.decorator": "Decorators are the listed ones.",
        "module.metaclass": "Classes have no metaclass of their own.",
        "module.special": "Nothing is defined that Python calls by itself during the import: `__init_subclass__`, "
        "`__class_getitem__`, `__set_name__`, `__mro_entries__` and `__prepare__` of classes, `__getattr__` and `__dir__` of modules.",
        "module.all": "`__all__` is a literal list or tuple of strings, assigned once.",
        "import.placement": "Imports stand at module level, plain or under `if TYPE_CHECKING:`.",
        "import.star": "No star imports.",
        "import.refused": "Only modules of the closed list are imported.",
        "import.unrecorded": "Modules whose effects replay cannot repeat are replaced by recorded primitives.",
        "import.management": "Management functions are not imported.",
        "import.primitive": "Names imported from `cloche` are primitives that exist.",
        "import.program": "Names imported from `cloche.programs` are registered programs.",
        "import.permission": "Imported programs, and `ask`, are covered by the declared permissions.",
        "import.workflow": "Workflows are imported as `from workflows.<x> import <x>`.",
        "import.relative": "Relative imports stay inside the package and name what exists there.",
        "import.test_only": "Test modules and test tools are imported by tests only.",
        "name.refused": "Names that reach around the recorder or the validator are not loaded.",
        "name.attribute": "Attributes that reach interpreter internals are not used.",
        "name.hidden": "Refused modules, `open`, threads and processes are not reached through allowed modules.",
        "name.clock": "The machine's clock is not read; `now()` is recorded.",
        "entry.count": "`workflow.py` has exactly one public function.",
        "entry.name": "The entry has the name of the workflow.",
        "entry.kind": "The entry is a plain `def`, neither async nor a generator.",
        "entry.signature": "The entry has exactly one positional-or-keyword parameter `task`.",
        "entry.rebound": "The entry's name is bound once and never again.",
        "entry.decorator": "The entry carries no decorator but the real `@agentic_function`, which does not rename.",
        "entry.second_agentic": "No other function carries `@agentic_function`.",
        "entry.export": "`__init__.py` re-exports the entry under its name, unshadowed.",
        "tests.init": "`tests/__init__.py` is empty.",
        "tests.none": "There is at least one test case.",
        "tests.conftest": "`conftest.py` holds fixtures only.",
        "tests.hook": "Tests define no pytest hooks and load no plug-ins.",
        "tests.outcome": "Outcomes are not bent: no `xfail`, `skipif`, `importorskip`, run-time skip or exit.",
        "tests.skip_reason": "A skip has a literal reason.",
        "tests.skip_share": "At most half of the cases are skipped.",
        "tests.parametrize": "Parameter lists can be counted without running them.",
        "tests.count": "A package has at most 2,000 test cases.",
        "tests.fixture_params": "Fixtures take no `params`.",
        "tests.collect": "Every test is a plain function or method that the source alone names.",
        "readme.empty": "`README.md` is not empty.",
        "readme.section": "`README.md` has the eight sections (a warning; an error for planner-written packages).",
    }
)
"""Rule id → what it demands, in the order of the reference."""


class Findings:
    """Collects diagnostics of one validation; the same diagnostic counts once."""

    def __init__(self, known: Iterable[Diagnostic] = ()) -> None:
        self._found: set[Diagnostic] = set(known)

    def add(
        self, rule: str, file: str, message: str, *, fix: str, line: int = 0, severity: Severity = Severity.error
    ) -> None:
        """Record one broken rule. Raises KeyError for an id that is not in `RULES` (our bug)."""
        RULES[rule]
        self._found.add(Diagnostic(rule, file, line, message, fix, severity))

    def ordered(self) -> tuple[Diagnostic, ...]:
        """All of them by file, line, rule, message."""
        return tuple(sorted(self._found))

    def files(self) -> frozenset[str]:
        """The files that have a diagnostic so far."""
        return frozenset(found.file for found in self._found)
