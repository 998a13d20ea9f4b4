"""What the cell looks like from inside, as plain values; the host compares them with its policy. Nothing is judged here.

Looked at twice: by the supervisor itself, and by a child that has dropped its rights exactly as the worker will, which also
tries what the worker must not be able to do. Both happen before any untrusted code exists. Shape: docs/reference/protocol.md.
"""

from __future__ import annotations

import _socket as socket  # `socket` itself takes 2.5 ms of every start
import errno
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any

from cloche_guest.digest import sha256, sha256_hex

VERSION = 1

_RLIMITS = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "fsize": resource.RLIMIT_FSIZE,
    "memlock": resource.RLIMIT_MEMLOCK,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
}

_CAPABILITIES = {
    "CapInh": "inheritable",
    "CapPrm": "permitted",
    "CapEff": "effective",
    "CapBnd": "bounding",
    "CapAmb": "ambient",
}

_AF_VSOCK = 40
_AF_ALG = 38


def attestation(worker_view: dict[str, Any], *, guest_root: str) -> dict[str, Any]:
    """The `attestation` of the cell's hello. `worker_view` is what `worker_view()` gave in a child without rights."""
    return {
        "version": VERSION,
        "guest_sha256": guest_digest(guest_root),
        "python": sys.version,
        "kernel": os.uname().release,
        "supervisor": process_view(),
        "worker": worker_view,
        "mounts": mounts(_text("/proc/self/mountinfo")),
        "interfaces": interfaces(_text("/proc/net/dev")),
        "routes": _text("/proc/net/route").splitlines()[1:],
        "environment": sorted(os.environ),
    }


def guest_digest(root: str) -> str:
    """SHA-256 over the guest's files: for each, ordered by path, `path NUL sha256 newline`; `__pycache__` is left out.

    The host computes the same over its copy (`cloche/` and `cloche_guest/` below `root`).
    """
    whole = sha256()
    for path in sorted(_files(root)):
        with open(os.path.join(root, path), "rb") as file:
            whole.update(f"{path}\0{sha256_hex(file.read())}\n".encode())
    return str(whole.hexdigest())


def _files(root: str) -> list[str]:
    found = []
    for top in ("cloche", "cloche_guest"):
        for folder, folders, names in os.walk(os.path.join(root, top)):
            folders[:] = [name for name in folders if name != "__pycache__"]
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return found


def process_view() -> dict[str, Any]:
    """This process: ids, capabilities (hex), no_new_privs, seccomp mode, limits as [soft, hard] (-1: none)."""
    status = dict(line.split(":", 1) for line in _text("/proc/self/status").splitlines() if ":" in line)
    return {
        "pid": os.getpid(),
        "uids": [int(value) for value in status["Uid"].split()],
        "gids": [int(value) for value in status["Gid"].split()],
        "groups": [int(value) for value in status.get("Groups", "").split()],
        "capabilities": {name: status.get(key, "").strip() for key, name in _CAPABILITIES.items()},
        "no_new_privs": int(status.get("NoNewPrivs", "-1")),
        "seccomp": int(status.get("Seccomp", "-1")),
        "rlimits": {name: list(resource.getrlimit(number)) for name, number in _RLIMITS.items()},
    }


def worker_view(incoming: str, outgoing: str) -> dict[str, Any]:
    """`process_view` and `tried`: what came of things that the worker must not be able to do, "ok" or the errno's name."""
    attempts: dict[str, Callable[[], object]] = {
        "socket_inet": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).close(),
        "socket_inet6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close(),
        "socket_netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "socket_vsock": lambda: socket.socket(_AF_VSOCK, socket.SOCK_STREAM).close(),
        "socket_alg": lambda: socket.socket(_AF_ALG, socket.SOCK_SEQPACKET).close(),
        "write_root": lambda: _create("/.cloche"),
        "write_in": lambda: _create(os.path.join(incoming, ".cloche")),
        "write_out": lambda: _create(os.path.join(outgoing, ".cloche")),
        "list_out": lambda: os.listdir(outgoing),
        "open_in_segment": lambda: os.close(os.open(os.path.join(incoming, "000001.seg"), os.O_RDONLY)),
        "open_out_segment": lambda: os.close(os.open(os.path.join(outgoing, "000001.seg"), os.O_WRONLY)),
        "signal_supervisor": lambda: os.kill(1, 0),
        "memory_of_supervisor": lambda: os.close(os.open("/proc/1/mem", os.O_RDWR)),
        "become_root": lambda: os.setresuid(0, 0, 0),
        "group_of_supervisor": lambda: os.setresgid(0, 0, 0),
    }
    return {**process_view(), "tried": {name: _outcome(attempt) for name, attempt in attempts.items()}}


def send_worker_view(descriptor: int, incoming: str, outgoing: str) -> None:
    """Write `worker_view` as JSON to a pipe."""
    data = json.dumps(worker_view(incoming, outgoing)).encode()
    while data:
        data = data[os.write(descriptor, data) :]


def mounts(mountinfo: str) -> list[dict[str, Any]]:
    """`/proc/self/mountinfo` as a list of point, root, options, type, source, super_options; in its order (proc(5))."""
    found = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        fields, (kind, source, *super_options) = before.split(" "), after.split(" ")
        found.append(
            {
                "point": _unescape(fields[4]),
                "root": _unescape(fields[3]),
                "options": fields[5].split(","),
                "type": kind,
                "source": _unescape(source),
                "super_options": " ".join(super_options).split(","),
            }
        )
    return found


def interfaces(text: str) -> list[str]:
    """Names in `/proc/net/dev`."""
    return [line.split(":", 1)[0].strip() for line in text.splitlines()[2:] if ":" in line]


def _unescape(field: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error.errno))
    return "ok"


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().encode(errors="replace").decode()
    except FileNotFoundError:
        return ""
