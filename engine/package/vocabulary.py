"""The names packages may and may not use, each list in one place.

Primitives and registered programs are read from the installed authoring package, so that the validator and the API a
cell offers cannot drift apart.
"""

from __future__ import annotations

import keyword
from functools import cache
from importlib import import_module
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRIMITIVES_MODULE: Final = "cloche"
PROGRAMS_MODULE: Final = "cloche.programs"
TESTING_MODULE: Final = "cloche.testing"

MANAGEMENT: Final = frozenset(
    {
        "search_workflows",
        "create_workflow",
        "revise_workflow",
        "auto_workflow",
        "resume_workflow",
        "run_task_list",
        "run_agentic_workflow",
        "run_agent_turn",
    }
)
"""Functions that manage workflows or sessions; a package never calls them."""

RESERVED: Final = (MANAGEMENT - {"run_agent_turn"}) | {"agentic_workflow", "workflow", "workflows", "cloche"}
"""Workflow ids that are taken."""

STANDARD: Final = _words(
    """__future__ abc asyncio base64 bisect calendar collections collections.abc contextlib copy csv dataclasses datetime
    decimal difflib enum fnmatch fractions functools hashlib heapq html io itertools json logging math operator pathlib
    pprint re statistics string struct textwrap tomllib types typing unicodedata urllib.parse zlib zoneinfo"""
)
"""Standard modules a package may import, by exact name."""

UNRECORDED: Final = {
    "threading": ("parallel", "`pipeline()` or asyncio"),
    "multiprocessing": ("parallel", "`pipeline()` or asyncio"),
    "concurrent": ("parallel", "`pipeline()` or asyncio"),
    "os": ("", "`read`, `glob`, `list` and `grep` from cloche.programs, and `resource()`"),
    "sys": ("", "exceptions, `emit()` and `deliver()`"),
    "time": ("", "`now()` from cloche"),
    "random": ("", "`random()` from cloche"),
    "uuid": ("", "`new_id()` from cloche"),
    "secrets": ("", "`random()` or `new_id()` from cloche"),
    "subprocess": ("", "a registered program from cloche.programs"),
    "socket": ("", "a registered program from cloche.programs"),
}
"""Modules whose effects a replay cannot repeat → (recorded helper, what to use where it is absent)."""

HIDDEN: Final = frozenset(UNRECORDED) | _words(
    "builtins importlib inspect gc ctypes signal shutil tempfile _thread _os _sys _io _socket"
)
"""Modules that must not be reached as attributes of others (`logging.os`)."""

HIDDEN_MEMBERS: Final = frozenset({"io.open", "io.open_code", "io.FileIO"})
UNORDERED_MEMBERS: Final = frozenset(
    {"asyncio.to_thread", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"}
)
"""What starts threads and processes; the loop of a run has none, so that code which names them can only fail."""
ALLOWED_MEMBERS: Final = frozenset({"datetime.time", "datetime.datetime.time"})
"""Members that only share their name with a refused module."""

REFUSED_NAMES: Final = _words(
    """__import__ eval exec compile globals locals vars open input breakpoint __builtins__ __loader__ __spec__"""
)
CALLED_AT_IMPORT: Final = _words("__init_subclass__ __class_getitem__ __set_name__ __mro_entries__ __prepare__")
"""Methods of a class that Python calls while the class, or one that uses it, is made."""
CALLED_OF_MODULES: Final = frozenset({"__getattr__", "__dir__"})
"""Functions of a module that the import system calls."""
REFUSED_ATTRIBUTES: Final = _words(
    """__subclasses__ __bases__ __base__ __mro__ __globals__ __code__ __closure__ __dict__ __getattribute__ __reduce__
    __reduce_ex__ __loader__ __spec__ __builtins__ tb_frame tb_next tb_lasti tb_lineno gi_frame gi_code cr_frame cr_code
    cr_origin ag_frame ag_code f_back f_builtins f_code f_globals f_lasti f_lineno f_locals f_trace"""
)
CLOCKS: Final = frozenset(
    {("datetime", "datetime", "now"), ("datetime", "datetime", "today"), ("datetime", "datetime", "utcnow")}
    | {("datetime", "date", "today")}
)
"""Dotted ends of the calls that read the machine's clock."""

CONSTRUCTORS: Final = _words(
    """builtins.frozenset builtins.tuple builtins.dict builtins.set builtins.list re.compile pathlib.Path
    pathlib.PurePath pathlib.PurePosixPath datetime.date datetime.datetime datetime.time datetime.timedelta
    datetime.timezone zoneinfo.ZoneInfo decimal.Decimal fractions.Fraction typing.TypeVar typing.NewType
    collections.namedtuple logging.getLogger textwrap.dedent cloche.JsonSchemaOutput cloche.Agent"""
)
"""What module level may call."""
CLASS_CONSTRUCTORS: Final = frozenset({"dataclasses.field", "enum.auto"})
"""What class bodies may call besides."""
AGENTIC: Final = "cloche.agentic_function"
DECORATORS: Final = _words(
    """dataclasses.dataclass builtins.property builtins.staticmethod builtins.classmethod functools.lru_cache
    functools.cache functools.cached_property contextlib.contextmanager contextlib.asynccontextmanager
    abc.abstractmethod functools.total_ordering functools.wraps typing.overload typing.override typing.final
    functools.singledispatch typing.runtime_checkable enum.unique"""
)
MARKS: Final = frozenset({"pytest.mark.parametrize", "pytest.mark.skip", "pytest.mark.usefixtures"})
TEST_DECORATORS: Final = MARKS | {"pytest.fixture"}
TEST_CONSTRUCTORS: Final = frozenset({"pytest.param"})

PERMISSIONS: Final = frozenset({"workspace.read", "workspace.write", "workspace.exec", "network", "ask"})
DEFAULT_PERMISSIONS: Final = ("workspace.read",)
PROGRAM_PERMISSION: Final = dict.fromkeys(("read", "grep", "glob", "list"), "workspace.read")
"""Registered program → the permission a package needs to call it."""
PRIMITIVE_PERMISSION: Final = {"ask": "ask"}
"""Primitive → the permission a package needs to call it."""


@cache
def primitives() -> frozenset[str]:
    """What `from cloche import …` offers."""
    return frozenset(import_module(PRIMITIVES_MODULE).__all__)


@cache
def programs() -> frozenset[str]:
    """What `from cloche.programs import …` offers."""
    return frozenset(import_module(PROGRAMS_MODULE).__all__)


def is_reserved(workflow_id: str) -> bool:
    """True for a workflow id that is a hard keyword, a primitive or a management name."""
    return keyword.iskeyword(workflow_id) or workflow_id in RESERVED or workflow_id in primitives()


def instead_of(module: str) -> str:
    """What to use instead of an unrecorded module, as advice."""
    helper, otherwise = UNRECORDED[module.split(".")[0]]
    return f"Use `{helper}()` from cloche." if helper in primitives() else f"Use {otherwise}."
