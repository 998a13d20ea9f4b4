"""What a cell may do, as one frozen value: the container's configuration, the limits inside, and who enforces which.

A policy is made from the operator's settings and changed only through `with_*`; nothing of a candidate enters it. It is the
text that the engine is asked for, that the readback (`engine.sandbox.readback`) and the attestation (`engine.sandbox.attest`)
compare with, and that `engine.sandbox.protections` tells in words. Sources: docs/concepts/cells.md; rules per runtime were
measured on runc 1.1.5 and runsc 20221219.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from engine.files import sha256_hex
from engine.sandbox import seccomp
from engine.sandbox.bell import BELL
from engine.sandbox.incoming import Limits
from engine.sandbox.segments import outgoing_paths
from engine.settings import Settings

Kind = Literal["run", "gate", "probe", "trial"]
Runtime = Literal["runc", "runsc"]

CAPABILITIES = ("KILL", "SETGID", "SETUID")
"""What PID 1 keeps: enough to become the worker's uid and to end it, nothing over files."""

ENVIRONMENT = {
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PATH": "/usr/bin",
    "PYTHONHASHSEED": "0",
    "TZ": "UTC",
}
ENTRYPOINT = (
    "/opt/cloche/python",
    "-s",
    "-P",
    "-S",
    "-B",
    "-X",
    "utf8",
    "/opt/cloche/cloche_guest/supervisor.py",
)
INBOX, OUTBOX = "/cloche/in", "/cloche/out"

MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    # How the machine was started and set up, which may name what is secret.
    "/proc/cmdline",
    "/proc/config.gz",
    # Counts of the whole machine, fine enough to follow what others type, send and write; and the locks that others hold.
    "/proc/diskstats",
    "/proc/interrupts",
    "/proc/locks",
    "/proc/softirqs",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    # Writable for all: what is written there has a thread of the host's kernel watch the load of the whole machine.
    "/proc/pressure",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    # With a cgroup namespace of its own on cgroup v1, runc 1.1 leaves the tmpfs that holds the hierarchies writable.
    "/sys/fs/cgroup",
    # An engine mounts it writable for all, also with IPC "none": a queue made there counts against the user on the whole machine.
    "/dev/mqueue",
    # The buffers of terminals count against nobody.
    "/dev/pts",
)
READ_ONLY_PATHS = ("/dev", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

PIDS_MARGIN = 32
"""Host pids above the guest's processes, so that exhaustion is EAGAIN in the guest and never the supervisor's."""

PIDS_RUNSC, PIDS_RUNSC_EACH = 2048, 10
"""gVisor counts its own threads: 57 at rest, 7.5 more a guest process, and some 90 more a second for as long as a program does
nothing but fork, because it keeps them. Where they run out the whole cell dies, so the floor is far above what a program needs."""

TMP_INODES = 16_384
MESSAGES = 200_000
SEGMENT_FLOOR_BYTES = 8 * 1024 * 1024
OPEN_FILES_MARGIN = 64


@dataclass(frozen=True)
class CellPolicy:
    """The configuration of a cell. Sizes in bytes; `nano_cpus` in 1e-9 cores; `ulimits` are (name, soft = hard)."""

    runtime: Runtime
    kind: Kind
    limits: Limits
    seccomp: str
    group: int
    memory: int
    memory_swap: int
    nano_cpus: int
    pids: int
    tmpfs: tuple[tuple[str, str], ...]
    ulimits: tuple[tuple[str, int], ...]
    user: int = 0
    cap_drop: tuple[str, ...] = ("ALL",)
    cap_add: tuple[str, ...] = CAPABILITIES
    no_new_privileges: bool = True
    read_only_root: bool = True
    privileged: bool = False
    network: str = "none"
    ipc: str = "none"
    pid_namespace: str = ""
    cgroup_namespace: str = "private"
    log: str = "none"
    shm_bytes: int = 65_536
    environment: tuple[tuple[str, str], ...] = tuple(ENVIRONMENT.items())
    masked_paths: tuple[str, ...] = MASKED_PATHS
    read_only_paths: tuple[str, ...] = READ_ONLY_PATHS
    inbox_read_only: bool = True
    outbox_read_only: bool = True
    extra_mounts: tuple[tuple[str, str], ...] = ()
    devices: tuple[str, ...] = ()
    bell: bool = False

    @classmethod
    def from_settings(cls, settings: Settings, runtime: Runtime, kind: Kind) -> CellPolicy:
        """The full policy for one kind of cell under one runtime."""
        limits = Limits(
            processes=settings.processes,
            open_files=settings.open_files,
            file_bytes=settings.file_bytes,
            output_bytes=settings.output_bytes,
            output_files=settings.output_files,
            output_files_bytes=settings.output_files_bytes,
            message_bytes=1024 * 1024,
            messages=MESSAGES,
            value_bytes=settings.value_bytes,
        )
        tmp = f"size={settings.tmp_bytes},mode=1777,nr_inodes={TMP_INODES},noexec,nosuid,nodev"
        pids = limits.processes + PIDS_MARGIN
        return cls(
            runtime=runtime,
            kind=kind,
            limits=limits,
            seccomp=seccomp.text(runtime),
            group=os.getegid(),
            memory=settings.memory_bytes,
            memory_swap=settings.memory_bytes,
            nano_cpus=round(settings.cpus * 1e9),
            pids=pids if runtime == "runc" else max(PIDS_RUNSC, 100 + PIDS_RUNSC_EACH * limits.processes),
            tmpfs=(("/tmp", tmp),),
            ulimits=(
                ("core", 0),
                ("fsize", max(limits.file_bytes, SEGMENT_FLOOR_BYTES)),
                ("nofile", limits.open_files + OPEN_FILES_MARGIN),
                ("nproc", limits.processes),
            ),
        )

    # changed copies: an operator's, or a test's that takes one protection away

    def with_user(self, user: int, group: int) -> CellPolicy:
        """PID 1 as another user and group."""
        return replace(self, user=user, group=group)

    def with_capabilities(self, *, add: tuple[str, ...], drop: tuple[str, ...] = ("ALL",)) -> CellPolicy:
        """Other capabilities of PID 1."""
        return replace(self, cap_add=add, cap_drop=drop)

    def with_seccomp(self, text: str) -> CellPolicy:
        """Another profile; "unconfined" for none."""
        return replace(self, seccomp=text)

    def with_new_privileges(self) -> CellPolicy:
        """Without no-new-privileges."""
        return replace(self, no_new_privileges=False)

    def with_privileged(self) -> CellPolicy:
        """A privileged container."""
        return replace(self, privileged=True)

    def with_root(self, *, read_only: bool) -> CellPolicy:
        """A writable or read-only root file system."""
        return replace(self, read_only_root=read_only)

    def with_inbox(self, *, read_only: bool) -> CellPolicy:
        """A writable or read-only host side of the exchange."""
        return replace(self, inbox_read_only=read_only)

    def with_outbox(self, *, read_only: bool) -> CellPolicy:
        """A cell's side of the exchange in which it can make files, or one of two files that are writable."""
        return replace(self, outbox_read_only=read_only)

    def with_bell(self) -> CellPolicy:
        """With the bell (`engine.sandbox.bell`) mounted by itself, as gVisor needs it; under runc it needs no mount of its own."""
        return replace(self, bell=True)

    def with_tmpfs(self, path: str, options: str) -> CellPolicy:
        """Another tmpfs, or other options for one."""
        return replace(self, tmpfs=(*(item for item in self.tmpfs if item[0] != path), (path, options)))

    def with_ulimit(self, name: str, value: int | None) -> CellPolicy:
        """Another ulimit; None leaves it to the engine."""
        kept = tuple(item for item in self.ulimits if item[0] != name)
        return replace(self, ulimits=kept if value is None else tuple(sorted((*kept, (name, value)))))

    def with_memory(self, memory: int, *, swap: int | None = None) -> CellPolicy:
        """Another memory bound; `swap` is the bound of memory and swap together (-1: none)."""
        return replace(self, memory=memory, memory_swap=memory if swap is None else swap)

    def with_pids(self, pids: int | None) -> CellPolicy:
        """Another bound of host processes; None for none."""
        return replace(self, pids=-1 if pids is None else pids)

    def with_cpus(self, cpus: float) -> CellPolicy:
        """Another CPU bound in cores; 0 for none."""
        return replace(self, nano_cpus=round(cpus * 1e9))

    def with_network(self, mode: str) -> CellPolicy:
        """Another network mode."""
        return replace(self, network=mode)

    def with_ipc(self, mode: str, *, shm_bytes: int = 65_536) -> CellPolicy:
        """Another IPC mode and size of /dev/shm."""
        return replace(self, ipc=mode, shm_bytes=shm_bytes)

    def with_pid_namespace(self, mode: str) -> CellPolicy:
        """Another pid namespace, e.g. the host's."""
        return replace(self, pid_namespace=mode)

    def with_cgroup_namespace(self, mode: str) -> CellPolicy:
        """Another cgroup namespace."""
        return replace(self, cgroup_namespace=mode)

    def with_log(self, driver: str) -> CellPolicy:
        """Another log driver of the engine."""
        return replace(self, log=driver)

    def with_environment(self, extra: Mapping[str, str]) -> CellPolicy:
        """More variables than the allow-list."""
        return replace(self, environment=tuple(sorted({**dict(self.environment), **extra}.items())))

    def with_paths(self, *, masked: tuple[str, ...], read_only: tuple[str, ...]) -> CellPolicy:
        """Other masked and read-only paths of /proc and /sys."""
        return replace(self, masked_paths=masked, read_only_paths=read_only)

    def with_mount(self, source: Path, target: str) -> CellPolicy:
        """One more directory of the host."""
        return replace(self, extra_mounts=(*self.extra_mounts, (str(source), target)))

    def with_device(self, path: str) -> CellPolicy:
        """One device of the host."""
        return replace(self, devices=(*self.devices, path))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything in it but the group of the owner; equal policies have equal digests on every machine."""
        facts = {**asdict(self), "group": None}
        return sha256_hex(json.dumps(facts, sort_keys=True).encode())

    def container(
        self, *, image_id: str, inbox: Path, outbox: Path, labels: Mapping[str, str], uid: int | None = None
    ) -> dict[str, Any]:
        """The body of the engine's create call (API 1.41). Everything is stated, so that no default of an engine counts.

        `uid` is the worker's, which is no part of the policy: the system call list then lets nobody become another one.
        """
        return {
            "Image": image_id,
            "User": f"{self.user}:{self.group}",
            "Env": [f"{name}={value}" for name, value in self.environment],
            "Entrypoint": list(ENTRYPOINT),
            "Cmd": [],
            "WorkingDir": "/",
            "Hostname": "cell",
            "Labels": dict(labels),
            "Tty": False,
            "OpenStdin": False,
            "AttachStdin": False,
            "AttachStdout": False,
            "AttachStderr": False,
            "HostConfig": self._host_config(inbox, outbox, uid),
        }

    def _host_config(self, inbox: Path, outbox: Path, uid: int | None) -> dict[str, Any]:
        profile = self.seccomp if uid is None else seccomp.for_worker(self.seccomp, uid)
        security = [f"seccomp={profile}"]
        if self.no_new_privileges:
            security.insert(0, "no-new-privileges")
        mounts = [
            _bind(str(inbox), INBOX, self.inbox_read_only),
            _bind(str(outbox), OUTBOX, self.outbox_read_only),
        ]
        if self.outbox_read_only:
            mounts += [_bind(str(path), f"{OUTBOX}/{path.name}", False) for path in outgoing_paths(outbox)]
        if self.bell:
            mounts.append(_bind(str(outbox / BELL), f"{OUTBOX}/{BELL}", False))
        return {
            "Runtime": self.runtime,
            "Privileged": self.privileged,
            "CapDrop": list(self.cap_drop),
            "CapAdd": list(self.cap_add),
            "SecurityOpt": security,
            "ReadonlyRootfs": self.read_only_root,
            "NetworkMode": self.network,
            "IpcMode": self.ipc,
            "PidMode": self.pid_namespace,
            "CgroupnsMode": self.cgroup_namespace,
            "LogConfig": {"Type": self.log, "Config": {}},
            "Memory": self.memory,
            "MemorySwap": self.memory_swap,
            "NanoCpus": self.nano_cpus,
            "PidsLimit": self.pids if self.pids > 0 else None,
            "ShmSize": self.shm_bytes,
            "Tmpfs": dict(self.tmpfs),
            "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in self.ulimits],
            "MaskedPaths": list(self.masked_paths),
            "ReadonlyPaths": list(self.read_only_paths),
            "Mounts": [*mounts, *(_bind(source, target, False) for source, target in self.extra_mounts)],
            "Devices": [
                {"PathOnHost": path, "PathInContainer": path, "CgroupPermissions": "rwm"} for path in self.devices
            ],
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "AutoRemove": False,
            "Init": False,
        }


def _bind(source: str, target: str, read_only: bool) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": source,
        "Target": target,
        "ReadOnly": read_only,
        "BindOptions": {"Propagation": "rprivate"},
    }
