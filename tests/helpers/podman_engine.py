"""Podman's Docker-compatible socket for a test, as root or as an ordinary user made for it, in directories of its own."""

from __future__ import annotations

import ctypes
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SandboxError
from engine.sandbox.docker import Engine
from tests.helpers.sandbox import wait_for

SETTINGS = '[engine]\ncgroup_manager = "cgroupfs"\nruntime = "runc"\nevents_logger = "file"\n'
PR_SET_KEEPCAPS, CAP_DAC_READ_SEARCH, CAPABILITY_VERSION = 8, 2, 0x20080522
ANY_IMAGE = '{"default": [{"type": "insecureAcceptAnything"}]}'


@dataclass(frozen=True)
class PodmanEngine:
    """A running `podman system service`. `home` is a directory in which its user may make things."""

    host: str
    home: Path
    uid: int

    def as_its_user(self, work: Callable[[], object]) -> dict[str, str]:
        """Run `work` in a child that is the engine's user; `value`, or `code`, `message` and `fix` of its SandboxError."""
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                os.environ["HOME"] = str(self.home)
                if self.uid:
                    _become(self.uid)
                os.write(writing, json.dumps(_told(work)).encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = json.loads(pipe.read() or b'{"code": "the child died"}')
        os.waitpid(child, 0)
        assert isinstance(told, dict)
        return told


def _told(work: Callable[[], object]) -> dict[str, str]:
    try:
        return {"value": str(work())}
    except SandboxError as error:
        return {"code": error.code, "message": error.message, "fix": error.fix}
    except BaseException:
        return {"code": "bug", "message": traceback.format_exc()}


def _become(uid: int) -> None:
    """An ordinary user that may read and enter every directory, since the interpreter's may be root's alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(uid, uid, uid)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(1 << CAP_DAC_READ_SEARCH, 1 << CAP_DAC_READ_SEARCH)
    assert libc.capset(header, sets) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def podman_engine(*, rootless: bool = False) -> Iterator[PodmanEngine]:
    """Started, answering, and gone afterwards with its containers, images and user."""
    root = Path(tempfile.mkdtemp(prefix="cp-", dir="/tmp"))
    user = f"cloche-podman-{os.getpid()}"
    if rootless:  # useradd gives it a range of subordinate uids too
        subprocess.run(["useradd", "--no-create-home", "--home-dir", str(root), user], check=True)
    uid = pwd.getpwnam(user).pw_uid if rootless else 0
    try:
        environment = _laid_out(root, uid)
        service = subprocess.Popen(
            [*_becoming(uid), *_podman(root), "system", "service", "--time", "0", f"unix://{root}/podman.sock"],
            env=environment,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(root / "log").open("wb"),
            start_new_session=True,
        )
        try:
            wait_for(lambda: _listens(root / "podman.sock"), timeout_s=60)
            yield PodmanEngine(f"unix://{root}/podman.sock", root, uid)
        finally:
            _end(service, root, uid, environment)
    finally:
        shutil.rmtree(root, ignore_errors=True)
        if rootless:
            subprocess.run(["userdel", "--force", user], check=True, capture_output=True)


def _listens(path: Path) -> bool:
    """The name of a socket is there before anybody accepts connections."""
    with socket.socket(socket.AF_UNIX) as trying:
        return trying.connect_ex(str(path)) == 0


def _laid_out(root: Path, uid: int) -> dict[str, str]:
    for name in ("run", ".config/containers"):
        (root / name).mkdir(parents=True, mode=0o700)
    (root / "containers.conf").write_text(SETTINGS)
    (root / ".config/containers/policy.json").write_text(ANY_IMAGE)
    for path in (root, *root.rglob("*")):
        os.chown(path, uid, uid)
    return {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(root),
        "XDG_RUNTIME_DIR": str(root / "run"),
        "CONTAINERS_CONF": str(root / "containers.conf"),
    }


def _becoming(uid: int) -> list[str]:
    identity = ["--reuid", str(uid), "--regid", str(uid), "--clear-groups", "--inh-caps=-all"]
    return ["setpriv", *identity] if uid else []


def _podman(root: Path) -> list[str]:
    return ["podman", "--root", f"{root}/data", "--runroot", f"{root}/storage", "--tmpdir", f"{root}/tmp"]


def _end(service: subprocess.Popen[bytes], root: Path, uid: int, environment: dict[str, str]) -> None:
    """Ends the service and the process that holds a rootless engine's namespace, and takes its storage away."""
    os.killpg(service.pid, signal.SIGTERM)  # a rootless one goes on in a child of the one that was started
    service.wait(timeout=60)
    with suppress(ProcessLookupError):
        os.killpg(service.pid, signal.SIGKILL)
    pause = root / "tmp" / "pause.pid"
    holder = int(pause.read_text()) if pause.exists() else 0
    emptied = "import shutil, sys; shutil.rmtree(sys.argv[1], ignore_errors=True)"
    inside = [*_podman(root), "unshare"] if uid else []
    for name in ("data", "storage"):
        command = [*_becoming(uid), *inside, "/usr/bin/python3", "-c", emptied, f"{root}/{name}"]
        subprocess.run(command, env=environment, cwd=root, check=False, capture_output=True, timeout=60)
    if holder:
        with suppress(ProcessLookupError):
            os.kill(holder, signal.SIGKILL)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if point.startswith(f"{root}/"):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def loaded(engine: PodmanEngine) -> tuple[Engine, str]:
    """A connection, and the id of the cell image in it."""
    from tests.helpers.sandbox import loaded_image

    connection = Engine(engine.host, timeout_s=60)
    return connection, loaded_image(connection)
