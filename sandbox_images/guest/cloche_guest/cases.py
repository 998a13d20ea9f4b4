"""The child that runs one test case with pytest, or one probe attempt. It reports on its channel; the supervisor has the last word.

pytest's own way of finding and importing things is not used: no configuration, no plug-ins of the machine, no conftest hooks, no
import modes, no bytecode. The one module is imported by our loader under its name below `workflows.<id>.tests`, fixtures of
`conftest.py` are registered and nothing else of it, and the one item is picked out of what the module gives.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NoReturn

import cloche._call

from cloche_guest import attempt, failure, loader
from cloche_guest.children import CHANNEL
from cloche_guest.control import Paths
from cloche_guest.worker import prepare

_ARGUMENTS = ("-c", "/dev/null", "--noconftest", "--assert=plain", "--capture=no", "--tb=short", "-q")
_WITHOUT = (
    "cacheprovider",
    "doctest",
    "faulthandler",
    "junitxml",
    "nose",
    "pastebin",
    "setuponly",
    "setupplan",
    "stepwise",
)


_OURS = os.path.dirname(os.path.dirname(cloche._call.__file__)) + os.sep
"""Where the guest's own code lies."""


class EntryReplaced(RuntimeError):
    """The entry was replaced to see whether a test notices."""


def preload(paths: Paths) -> None:
    """Import pytest and its built-in plug-ins once, in the supervisor, so that each case starts warm."""
    if paths.pytest not in sys.path:
        sys.path.append(paths.pytest)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    import _pytest.config

    for name in _pytest.config.default_plugins:
        if name not in _WITHOUT:
            importlib.import_module(f"_pytest.{name}")
    importlib.import_module("cloche.testing")


def say(kind: str, **fields: Any) -> None:
    """One message to the supervisor."""
    data = json.dumps({"t": kind, **fields}).encode() + b"\n"
    while data:
        data = data[os.write(CHANNEL, data) :]


def run_case(job: dict[str, Any], case: dict[str, Any], paths: Paths) -> int:
    """Run exactly one case of `workflows.<entry>` and report its outcome."""
    prepare(paths.scratch[0])
    _answer_nothing()
    import pytest

    plugin = _one_case(job["entry"], case, paths)
    loader.install(
        paths.snapshot,
        wrap=functools.partial(_wrap, job["entry"], job["replace_entry"]),
        compile_tests=plugin.compile,
    )
    without = [argument for name in _WITHOUT for argument in ("-p", f"no:{name}")]
    pytest.main([*_ARGUMENTS, "--rootdir", paths.snapshot, *without], plugins=[plugin])
    outcome, detail = plugin.verdict()
    for prefix in (paths.snapshot, os.path.relpath(paths.snapshot, paths.scratch[0])):
        detail = detail.replace(f"{prefix}/", "")
    say("outcome", outcome=outcome, detail=failure.clip(detail, 16 * 1024))
    return 0


def run_probe(name: str, paths: Paths) -> int:
    """Run `attempt()` of `probes/<name>.py`; `passed` means that it got through."""
    prepare(paths.scratch[0])
    result, detail = attempt.outcome(os.path.join(paths.snapshot, "probes", f"{name}.py"))
    say("outcome", outcome=result, detail=detail)
    return 0


def _answer_nothing() -> None:
    """Outside a script every call is one that the test did not foresee."""
    from cloche.testing import UnscriptedCall

    class Refusing:
        def call(self, fn: str, arguments: dict[str, Any], *, label: str, site: str, phase: list[str]) -> NoReturn:
            cloche._call.report_unscripted(fn)
            raise UnscriptedCall(f"{fn}() was called at {site} and no script is active")

    cloche._call.install_unscripted_hook(lambda fn: say("unscripted", fn=fn))
    cloche._call.install(Refusing())


def _wrap(root: str, replace: bool, workflow_id: str, entry: Callable[..., Any]) -> Callable[..., Any]:
    if workflow_id != root:
        return loader.scoped(workflow_id, entry)

    @functools.wraps(entry)
    def watched(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        say("entered")
        if replace:
            raise EntryReplaced(f"{workflow_id} was replaced by one that raises")
        return entry(*args, **kwargs)

    return watched


def _one_case(entry: str, case: dict[str, Any], paths: Paths) -> Any:
    """The pytest plug-in that finds, runs and judges one case; made here because pytest is not there before the gate."""
    import pytest

    class CaseModule(pytest.Module):
        def _getobj(self) -> ModuleType:
            try:
                return importlib.import_module(_module_name(entry, case["file"]))
            except Exception as error:
                text = failure.package_traceback(error, snapshot=paths.snapshot)
                raise self.CollectError(text) from error

    class OneCase:
        def __init__(self) -> None:
            self.config: Any = None
            self.problem = ""
            self.item: Any = None
            self.reports: list[Any] = []

        def compile(self, source: bytes, path: str) -> Any:
            """With pytest's assertion rewriting, straight from the text."""
            from _pytest.assertion.rewrite import rewrite_asserts

            tree = ast.parse(source, filename=path)
            rewrite_asserts(tree, source, path, self.config)
            return compile(tree, path, "exec", dont_inherit=True)

        @pytest.hookimpl(trylast=True)
        def pytest_configure(self, config: Any) -> None:
            self.config = config
            config.pluginmanager.unregister(name="terminalreporter")

        @pytest.hookimpl(tryfirst=True)
        def pytest_collection(self, session: Any) -> bool:
            session.config.pluginmanager.register = _no_plugin
            session.items = []
            try:
                _register_fixtures(session, entry, case["file"])
            except Exception as error:
                self.problem = failure.package_traceback(error, snapshot=paths.snapshot)
                return True
            path = Path(paths.snapshot, "workflows", entry, case["file"])
            items = list(session.genitems(CaseModule.from_parent(session, path=path)))
            found = [item for item in items if _is_of(item, case)]
            if len(found) == case["total"] and case["index"] < len(found):
                self.item = found[case["index"]]
                session.items = [self.item]
                session.config.hook.pytest_collection_modifyitems(
                    session=session, config=session.config, items=session.items
                )
                session.testscollected = len(session.items)
            elif not self.problem:
                self.problem = f"{len(found)} cases of this name where {case['total']} were expected"
            return True

        def pytest_collectreport(self, report: Any) -> None:
            if report.failed:
                self.problem = report.longreprtext

        @pytest.hookimpl(tryfirst=True)
        def pytest_runtest_makereport(self, call: Any) -> None:
            """Frames of ours tell an author nothing: the last one of the package is where it failed."""
            if call.excinfo is not None:
                call.excinfo.traceback = type(call.excinfo.traceback)(_without_ours(call.excinfo.tb))

        def pytest_runtest_logreport(self, report: Any) -> None:
            self.reports.append(report)

        def verdict(self) -> tuple[str, str]:
            if self.item is None:
                return "not_collected", self.problem or "pytest did not get to it"
            return judge(self.reports, skip_is_marked=self.item.get_closest_marker("skip") is not None)

    return OneCase()


def _no_plugin(plugin: object, name: str | None = None) -> NoReturn:
    """A fixture that registers one would do for every case what no hook in conftest.py can."""
    raise RuntimeError("no plug-in is registered in the gate: it could change what becomes of a test")


def judge(reports: Sequence[Any], *, skip_is_marked: bool) -> tuple[str, str]:
    """Outcome and detail of a case from pytest's reports of its phases. Only a visible mark makes a skip a skip."""
    if [report.when for report in reports] not in (["setup", "call", "teardown"], ["setup", "teardown"]):
        return "error", "pytest did not report its phases"
    for report in reports:
        if hasattr(report, "wasxfail"):
            return "failed", f"xfail does not count: {report.wasxfail}"
        if report.failed:
            return ("failed" if report.when == "call" else "error"), report.longreprtext
    for report in reports:
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            marked = skip_is_marked and report.when == "setup"
            return ("skipped", str(reason)) if marked else ("failed", f"skipped while running: {reason}")
    return ("passed", "") if len(reports) == 3 else ("error", "the test itself did not run")


def _without_ours(tb: TracebackType | None) -> TracebackType | None:
    """The same chain without frames of the guest; whole when nothing else is in it."""
    kept: TracebackType | None = None
    at: list[TracebackType] = []
    while tb is not None:
        at.append(tb)
        tb = tb.tb_next
    theirs = [one for one in at if not one.tb_frame.f_code.co_filename.startswith(_OURS)]
    for one in reversed(theirs or at):
        kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return kept


def _is_of(item: Any, case: dict[str, Any]) -> bool:
    import pytest

    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    name = getattr(item, "originalname", None) or item.name
    return bool(name == case["function"] and ".".join(classes) == case["cls"])


def _module_name(entry: str, file: str) -> str:
    return ".".join(["workflows", entry, *file.removesuffix(".py").split("/")])


def _register_fixtures(session: Any, entry: str, file: str) -> None:
    """Fixtures of every conftest.py from the top of the tests down to the file's folder; hooks in them do not exist."""
    folders = file.split("/")[:-1]
    for depth in range(1, len(folders) + 1):
        name = _module_name(entry, "/".join([*folders[:depth], "conftest.py"]))
        if importlib.util.find_spec(name.rpartition(".")[0]) is None:
            continue
        try:
            module = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            continue
        session._fixturemanager.parsefactories(module, "")
