"""The clock and the randomness of a program: what the interpreter would take from the world, taken from the run's record.

The wall clock shows the time of the last reply that the program got, and stands still in between; other clocks count from the
run's begin and never go back. Every source of randomness gives a stream of its own per scope, made from the run's seed and the
scope's name, so that a draw in one branch moves none in another. Types and functions keep their identity: `datetime.datetime`
is the same class as before. Done in the worker only, after the fork: the supervisor keeps the real clock.

Left as they are: `time.sleep`, which does not make the clock go on, and what only other processes could tell.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from itertools import islice
from types import BuiltinFunctionType, MethodType
from typing import Any, Final, Protocol

from cloche import _imports, _scopes

from cloche_guest.digest import sha256


class Clock(Protocol):
    """What the program's clocks show; `at` in seconds since 1970."""

    at: float

    def monotonic(self) -> float:
        """Seconds since the run began; never goes back."""
        ...


class Seed:
    """Of the run's randomness, hex; known when the job is."""

    hex = ""


def install(*, seed: Seed, clock: Clock) -> None:
    """Replace clocks and randomness in this process, for good. The seed is looked at when the first number is drawn."""
    replaced = {**_clocks(clock), **_entropy(_Streams(seed))}
    _replace(replaced)
    _imports.AfterImport("datetime", lambda: _datetime(clock))
    _imports.AfterImport("random", lambda: _random(seed))
    _imports.AfterImport("uuid", _uuid)


# time


def _clocks(clock: Clock) -> dict[Any, Any]:
    real_localtime, real_gmtime, real_strftime = time.localtime, time.gmtime, time.strftime
    real_ctime, real_asctime = time.ctime, time.asctime

    def now() -> float:
        return clock.at

    def now_ns() -> int:
        return round(clock.at * 1e6) * 1000

    def passed() -> float:
        return clock.monotonic()

    def passed_ns() -> int:
        return round(clock.monotonic() * 1e6) * 1000

    def clock_gettime(which: int) -> float:
        return clock.at if which == time.CLOCK_REALTIME else clock.monotonic()

    def clock_gettime_ns(which: int) -> int:
        return now_ns() if which == time.CLOCK_REALTIME else passed_ns()

    def localtime(seconds: float | None = None) -> time.struct_time:
        return real_localtime(clock.at if seconds is None else seconds)

    def gmtime(seconds: float | None = None) -> time.struct_time:
        return real_gmtime(clock.at if seconds is None else seconds)

    def ctime(seconds: float | None = None) -> str:
        return real_ctime(clock.at if seconds is None else seconds)

    def asctime(when: Any = None) -> str:
        return real_asctime(localtime() if when is None else when)

    def strftime(format: str, when: Any = None) -> str:
        return real_strftime(format, localtime() if when is None else when)

    made: dict[Any, Any] = {time.time: now, time.time_ns: now_ns}
    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        made[getattr(time, name)] = passed
        made[getattr(time, f"{name}_ns")] = passed_ns
    for function in (clock_gettime, clock_gettime_ns, localtime, gmtime, ctime, asctime, strftime):
        made[getattr(time, function.__name__)] = function
    return made


_kept: Final[list[Any]] = []
"""What stood in a type before: its caches may still point there."""


def _datetime(clock: Clock) -> None:
    """`now` and `utcnow` read the system's clock in C; `today` of both classes asks `time.time`, which is replaced."""
    import datetime

    def now(cls: Any, tz: datetime.tzinfo | None = None) -> Any:
        """The program's time, as `datetime.datetime.now`."""
        return cls.fromtimestamp(clock.at, tz)

    def utcnow(cls: Any) -> Any:
        """The program's time, as `datetime.datetime.utcnow`."""
        return cls.utcfromtimestamp(clock.at)

    # The class cannot be written to; the dict behind its proxy can, if the old values live on and the caches are emptied.
    (members,) = [one for one in gc.get_referents(datetime.datetime.__dict__) if type(one) is dict]
    _kept.append((members["now"], members["utcnow"]))
    members["now"], members["utcnow"] = classmethod(now), classmethod(utcnow)
    # Emptying the cache of all types (sys._clear_type_cache) takes 3 ms and a mebibyte of pages; a change of this one is enough.
    abstract = type.__dict__["__abstractmethods__"]
    abstract.__set__(datetime.datetime, frozenset())
    abstract.__delete__(datetime.datetime)


# randomness


class _Streams:
    """Bytes without end for each scope: SHA-256 over seed, scope and a counter."""

    def __init__(self, seed: Seed) -> None:
        self._seed = seed
        self._counters: dict[str, int] = {}

    def draw(self, size: int) -> bytes:
        """The next `size` bytes of the current scope."""
        scope = _scopes.current().path
        counter = self._counters.get(scope, 0)
        blocks = -(-size // 32)
        self._counters[scope] = counter + blocks
        made = [sha256(f"{self._seed.hex}\n{scope}\nbytes\n{counter + i}".encode()).digest() for i in range(blocks)]
        return b"".join(made)[:size]


def _entropy(streams: _Streams) -> dict[Any, Any]:
    def urandom(size: int, /) -> bytes:
        if size < 0:
            raise ValueError("negative argument not allowed")
        return streams.draw(size)

    def getrandom(size: int, flags: int = 0) -> bytes:
        return urandom(size)

    return {os.urandom: urandom, os.getrandom: getrandom}


def _random(seed: Seed) -> None:
    """The functions of `random` draw from a generator of the current scope; one made without a seed gets one."""
    import random

    generators: dict[str, random.Random] = {}
    real_seed = random.Random.seed

    def seeded(self: random.Random, a: Any = None, version: int = 2) -> None:
        """Initialize the generator; without a value from the program's own randomness, not from the system's."""
        real_seed(self, int.from_bytes(os.urandom(32), "big") if a is None else a, version)

    def here() -> random.Random:
        scope = _scopes.current().path
        if scope not in generators:
            digest = sha256(f"{seed.hex}\n{scope}\nrandom".encode()).digest()
            generators[scope] = random.Random(int.from_bytes(digest, "big"))
        return generators[scope]

    def drawing(name: str) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            return getattr(here(), name)(*args, **kwargs)

        draw.__name__ = name
        return draw

    random.Random.seed = seeded  # type: ignore[method-assign]
    one: Any = random._inst
    names = vars(random)
    for name, value in list(names.items()):
        if getattr(value, "__self__", None) is one and not name.startswith("_"):
            names[name] = drawing(name)


def _uuid() -> None:
    """A time-based id asks a library in C for time and hardware address; without it, it uses `time` and `random`."""
    import uuid

    made: Any = uuid
    made._generate_time_safe = None
    made._node = int.from_bytes(sha256(b"node").digest()[:6], "big") | (1 << 40)


_FUNCTIONS: Final = (BuiltinFunctionType, MethodType)
_ENTROPY: Final = (os.urandom, os.getrandom)


def _held_by(modules: dict[str, Any]) -> list[tuple[dict[str, Any], str, Any]]:
    """Where modules hold functions that may be replaced: the module's names, one of them, and what it names."""
    found = []
    for module in modules.values():
        names = getattr(module, "__dict__", {})
        found += [(names, name, value) for name, value in names.items() if isinstance(value, _FUNCTIONS)]
    return found


_loaded: Final[dict[str, Any]] = {}
_held: Final[list[tuple[dict[str, Any], str, Any]]] = []


def look_around() -> None:
    """Find what `install` will replace in the modules that are loaded now.

    The supervisor does it while it waits: the program need not wait for it, and a worker that only takes what was found has few
    pages of its own.
    """
    _loaded.clear()
    _loaded.update(sys.modules)
    _held[:] = [one for one in _held_by(_loaded) if getattr(one[2], "__module__", "") == "time" or one[2] in _ENTROPY]


look_around()


def _replace(made: dict[Any, Any]) -> None:
    """Put the new functions wherever a loaded module holds the old ones.

    Modules come to the end of `sys.modules`, and none goes before this: those that are not looked at need no page of their own.
    """
    for function, new in made.items():
        new.__doc__ = new.__doc__ or function.__doc__
    later = dict(islice(reversed(sys.modules.items()), max(0, len(sys.modules) - len(_loaded))))
    for names, name, value in [*_held, *_held_by(later)]:
        if value in made:
            names[name] = made[value]
