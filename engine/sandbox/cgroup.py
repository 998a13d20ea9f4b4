"""The cgroup files of one container, read on the host: limits in force and counters, for cgroup v1 and v2.

Found through the container's first process, and believed only when its cgroup carries the container's id: behind a remote
engine or a virtual machine there is nothing to read, and `find` gives None.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

ROOT = Path("/sys/fs/cgroup")
UNLIMITED = 1 << 62


@dataclass(frozen=True)
class Counters:
    """What a cell used so far; None where the kernel gives no figure. Highest values seen, so that merging loses nothing."""

    oom_kills: int = 0
    pids_refused: int = 0
    peak_memory_bytes: int | None = None
    peak_processes: int | None = None
    cpu_s: float | None = None
    throttled_s: float | None = None

    def merged(self, later: Counters) -> Counters:
        """Field by field the larger of both."""
        return Counters(
            oom_kills=max(self.oom_kills, later.oom_kills),
            pids_refused=max(self.pids_refused, later.pids_refused),
            peak_memory_bytes=_larger(self.peak_memory_bytes, later.peak_memory_bytes),
            peak_processes=_larger(self.peak_processes, later.peak_processes),
            cpu_s=_larger(self.cpu_s, later.cpu_s),
            throttled_s=_larger(self.throttled_s, later.throttled_s),
        )


@dataclass(frozen=True)
class LimitsInForce:
    """What the kernel enforces; None where it enforces nothing. `memory_swap` is memory and swap together."""

    memory: int | None
    memory_swap: int | None
    pids: int | None
    cpus: float | None


def paths_of(text: str) -> dict[str, str]:
    """`/proc/<pid>/cgroup` as controller → path; the unified hierarchy is ""."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def directories_of(pid: int, container_id: str) -> tuple[Path, ...]:
    """The process's cgroups of any controller that are named after the container; none when it is gone or elsewhere."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    found = []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        for mounted in (controllers.removeprefix("name="), "unified"):
            directory = ROOT / mounted / path.lstrip("/")
            if container_id in directory.name and directory.is_dir():
                found.append(directory)
    return tuple(dict.fromkeys(found))


@dataclass
class Cgroup:
    """Open descriptors of the files that are polled; they outlive the names, not the container."""

    unified: bool
    directories: dict[str, Path]
    _descriptors: dict[tuple[str, str], int] = field(default_factory=dict)

    @classmethod
    def find(cls, pid: int, container_id: str, *, root: Path = ROOT, proc: Path = Path("/proc")) -> Cgroup | None:
        """The container's cgroup, or None when this machine cannot see it."""
        try:
            paths = paths_of((proc / str(pid) / "cgroup").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        unified = "memory" not in paths
        wanted = ("",) if unified else ("memory", "pids", "cpu", "cpuacct")
        if any(container_id not in paths.get(name, "") for name in wanted):
            return None
        directories = {name: root / name / paths[name].lstrip("/") for name in wanted}
        return cls(unified=unified, directories=directories) if all(map(Path.is_dir, directories.values())) else None

    def limits(self) -> LimitsInForce:
        """Read now.

        Raises:
            OSError: the container is gone.
        """
        if self.unified:
            quota, _, period = self._text("", "cpu.max").partition(" ")
            memory, swap = _limit(self._text("", "memory.max")), _limit(self._text_or("", "memory.swap.max", "0"))
            return LimitsInForce(
                memory=memory,
                memory_swap=None if memory is None or swap is None else memory + swap,
                pids=_limit(self._text("", "pids.max")),
                cpus=None if quota == "max" else int(quota) / int(period),
            )
        memory = _limit(self._text("memory", "memory.limit_in_bytes"))
        quota_us = int(self._text("cpu", "cpu.cfs_quota_us"))
        return LimitsInForce(
            memory=memory,
            memory_swap=_limit(self._text_or("memory", "memory.memsw.limit_in_bytes", str(memory or UNLIMITED))),
            pids=_limit(self._text("pids", "pids.max")),
            cpus=None if quota_us <= 0 else quota_us / int(self._text("cpu", "cpu.cfs_period_us")),
        )

    def memory_now(self) -> int:
        """Bytes that the kernel counts for it now, page cache included.

        Raises:
            OSError: the container is gone.
        """
        return int(self._text("", "memory.current") if self.unified else self._text("memory", "memory.usage_in_bytes"))

    def sample(self) -> Counters | None:
        """The counters now; None when the container is gone."""
        try:
            return self._unified() if self.unified else self._legacy()
        except (OSError, ValueError):
            return None

    def _legacy(self) -> Counters:
        cpu = _fields(self._text("cpu", "cpu.stat"))
        return Counters(
            oom_kills=_fields(self._text("memory", "memory.oom_control")).get("oom_kill", 0),
            pids_refused=_fields(self._text("pids", "pids.events")).get("max", 0),
            peak_memory_bytes=int(self._text("memory", "memory.max_usage_in_bytes")),
            peak_processes=int(self._text("pids", "pids.current")),
            cpu_s=int(self._text("cpuacct", "cpuacct.usage")) / 1e9,
            throttled_s=cpu["throttled_time"] / 1e9 if "throttled_time" in cpu else None,
        )

    def _unified(self) -> Counters:
        cpu = _fields(self._text("", "cpu.stat"))
        peak = self._text_or("", "memory.peak", "") or self._text("", "memory.current")
        return Counters(
            oom_kills=_fields(self._text("", "memory.events")).get("oom_kill", 0),
            pids_refused=_fields(self._text("", "pids.events")).get("max", 0),
            peak_memory_bytes=int(peak),
            peak_processes=int(self._text_or("", "pids.peak", "") or self._text("", "pids.current")),
            cpu_s=cpu.get("usage_usec", 0) / 1e6,
            throttled_s=cpu["throttled_usec"] / 1e6 if "throttled_usec" in cpu else None,
        )

    def _text(self, controller: str, name: str) -> str:
        key = (controller, name)
        if key not in self._descriptors:
            self._descriptors[key] = os.open(self.directories[controller] / name, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(self._descriptors[key], 4096, 0).decode().strip()

    def _text_or(self, controller: str, name: str, absent: str) -> str:
        try:
            return self._text(controller, name)
        except FileNotFoundError:
            return absent

    def close(self) -> None:
        """Give the descriptors back."""
        for descriptor in self._descriptors.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()


def _fields(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}


def _limit(text: str) -> int | None:
    return None if text == "max" or int(text) >= UNLIMITED else int(text)


Figure = TypeVar("Figure", int, float)


def _larger(one: Figure | None, other: Figure | None) -> Figure | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
