"""The only place that speaks to the container engine (Docker API 1.41 and later, through the Docker SDK).

Every call has a deadline, and raises what `engine.sandbox.engine_errors` translates. Blocking: async callers use threads. It
kills and removes nothing that lacks Cloche's labels, and changes nothing of the engine's configuration.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineTimeout
from engine.files import storage
from engine.points import reached
from engine.sandbox import freezer, labels
from engine.sandbox.engine_errors import (
    ContainerGone,
    EngineConnectionLost,
    EngineRefused,
    EngineTooOld,
    ImageMissing,
    NotOurs,
    translated,
)

DEFAULT_HOST = "unix:///var/run/docker.sock"
OLDEST_API, NEWEST_API = (1, 41), (1, 47)
KILL_WAIT_S = 10.0
NOT_RUNNING = ("is not running", "can only kill running containers")  # Docker's words, Podman's


@dataclass(frozen=True)
class EngineVersion:
    """What answers: its version, API as (major, minor), and the release of the kernel that it runs on."""

    version: str
    api: tuple[int, int]
    minimum_api: tuple[int, int]
    os: str
    architecture: str
    kernel: str = ""
    components: tuple[str, ...] = ()


@dataclass(frozen=True)
class Container:
    """One container in the engine's list. `state` is the engine's word, e.g. `running`, `exited`, `removing`."""

    id: str
    name: str
    state: str
    labels: Mapping[str, str]


@dataclass(frozen=True)
class EngineEvent:
    """Something that the engine did or saw with a container: `kill`, `oom`, `die`, `destroy`, …"""

    action: str
    attributes: Mapping[str, str]


class Engine:
    """A connection to one engine, made at the first call.

    `timeout_s` bounds each call: the engine's silence, that is, which for the short answers used here is the call.
    """

    def __init__(self, host: str = "", *, timeout_s: float = 60.0) -> None:
        self.host = host or DEFAULT_HOST
        self.timeout_s = timeout_s
        self._client: Any = None
        self._version: EngineVersion | None = None
        self._connected_to = ""
        self._ours: set[str] = set()

    @property
    def mark(self) -> str:
        """Changes when a local engine was started anew, since it makes its socket then; "" where that cannot be seen."""
        try:
            found = Path(self.host.removeprefix("unix://")).stat()
        except OSError:
            return ""
        return f"{found.st_ino}:{found.st_ctime_ns}"

    # the engine itself

    def ping(self) -> None:
        """Return when the engine answers.

        Raises:
            EngineUnreachable, EngineTooOld, EngineTimeout: it does not, or not in time.
        """
        with self._translated("ping"):
            self._api().ping()

    def version(self) -> EngineVersion:
        """What answers; asked once, and again after the engine was started anew."""
        self._api()
        assert self._version is not None
        return self._version

    def info(self) -> dict[str, Any]:
        """The engine's own description of itself. What a runtime can do is not believed from here but tried."""
        with self._translated("info"):
            return dict(self._api().info())

    def runtimes(self) -> dict[str, str]:
        """The OCI runtimes that the engine is configured with: name → its program and arguments, as one text."""
        listed = self.info().get("Runtimes") or {}
        return {str(name): json.dumps(told, sort_keys=True) for name, told in listed.items()}

    # containers

    def create(self, config: Mapping[str, Any], *, name: str) -> str:
        """Create a container from the body of a create call; its id. Not started.

        Raises:
            ImageMissing, RuntimeMissing, EngineRefused, EngineTimeout, EngineUnreachable. After EngineTimeout the
                container may exist under `name`.
        """
        if labels.HOME not in config.get("Labels", {}):
            raise NotOurs("a container without Cloche's labels is not created.")
        with self._translated(f"create {name}"):
            made = self._api().create_container_from_config(dict(config), name)
        identity = str(made["Id"])
        self._ours.add(identity)
        return identity

    def inspect(self, container: str) -> dict[str, Any]:
        """Everything that the engine says of a container.

        Raises:
            ContainerGone: there is none.
        """
        with self._translated(f"inspect {container[:20]}"):
            return dict(self._api().inspect_container(container))

    def start(self, container: str) -> None:
        """Start a created container."""
        with self._translated(f"start {container[:20]}"):
            self._api().start(container)

    def kill(self, container: str) -> bool:
        """Send SIGKILL to one of our containers, thawed first where it is frozen; False when it was not running any more.

        One whose first process is stopped is killed past the engine, which under gVisor could not do it.

        Raises:
            NotOurs, ContainerGone.
        """
        found = self._inspect_ours(container)
        self._thaw(found)
        if freezer.end_stopped(int((found.get("State") or {}).get("Pid") or 0), str(found.get("Id"))):
            return True
        try:
            with self._translated(f"kill {container[:20]}"):
                self._api().kill(container, signal="KILL")
        except EngineRefused as error:
            if any(words in error.message for words in NOT_RUNNING):
                return False
            raise
        return True

    def wait(self, container: str, *, timeout_s: float) -> int:
        """The exit code, when the container ends within the time.

        Raises:
            EngineTimeout: it did not. ContainerGone.
        """
        with self._translated(f"wait {container[:20]}", timeout_s=timeout_s):
            return int(self._api().wait(container, timeout=timeout_s)["StatusCode"])

    def remove(self, container: str) -> None:
        """Remove one of our stopped containers with its anonymous volumes; one that is gone already is fine.

        Raises:
            NotOurs, EngineRefused: it still runs.
        """
        try:
            self._check_ours(container)
            with self._translated(f"remove {container[:20]}"):
                self._api().remove_container(container, v=True, force=False)
        except ContainerGone:
            pass
        except EngineRefused as error:
            if "already in progress" not in error.message:
                raise
        self._ours.discard(container)

    def exists(self, container: str) -> bool:
        """False when the engine knows no such container."""
        try:
            self.inspect(container)
        except ContainerGone:
            return False
        return True

    def containers(self, labels: Mapping[str, str | None]) -> tuple[Container, ...]:
        """All containers, stopped ones too, that carry these labels (None: any value)."""
        wanted = [key if value is None else f"{key}={value}" for key, value in labels.items()]
        with self._translated("list containers"):
            listed = self._api().containers(all=True, filters={"label": wanted})
        return tuple(
            Container(
                id=row["Id"],
                name=(row.get("Names") or [""])[0].lstrip("/"),
                state=row.get("State", ""),
                labels=row.get("Labels") or {},
            )
            for row in listed
        )

    def events(self, container: str, *, since: float, until: float) -> tuple[EngineEvent, ...]:
        """What happened to a container between two Unix times; empty when the engine restarted in between."""
        with self._translated("events"):
            rows = self._api().events(
                since=f"{since:.9f}", until=f"{until:.9f}", filters={"container": container}, decode=True
            )
            with contextlib.closing(rows):
                return tuple(
                    EngineEvent(str(row.get("Action", "")), (row.get("Actor") or {}).get("Attributes") or {})
                    for row in rows
                )

    def destroy(self, container: str, *, ended: bool = False) -> None:
        """kill → wait → remove → seen absent; for one of our containers by id or name. Gone already is fine.

        `ended`: its first process was seen to end, so the kill is left out unless the engine does not notice. A step that
        failed may have taken effect all the same: everything is tried once more, unless the engine hangs.

        Raises:
            NotOurs; EngineTimeout, EngineUnreachable, EngineRefused, EngineConnectionLost: it may still exist.
        """
        try:
            self._end_and_remove(container, ended=ended)
        except (EngineRefused, EngineConnectionLost):
            self._end_and_remove(container, ended=ended)

    def _end_and_remove(self, container: str, *, ended: bool) -> None:
        try:
            if not (ended and self._ends(container)) and self.kill(container):
                self.wait(container, timeout_s=min(KILL_WAIT_S, self.timeout_s))
            reached("cell.killed")
            self.remove(container)
        except ContainerGone:
            return
        give_up = time.monotonic() + KILL_WAIT_S
        while self.exists(container):
            if time.monotonic() > give_up:
                raise EngineTimeout(f"container {container[:20]} is still there after its removal.")
            time.sleep(0.02)

    def _ends(self, container: str) -> bool:
        self._check_ours(container)
        try:
            self.wait(container, timeout_s=2.0)
        except EngineTimeout:
            return False
        return True

    def _check_ours(self, container: str) -> None:
        if container not in self._ours:
            self._inspect_ours(container)

    def _inspect_ours(self, container: str) -> dict[str, Any]:
        found = self.inspect(container)
        if labels.HOME not in (found["Config"].get("Labels") or {}):
            raise NotOurs(f"container {container[:20]} does not carry Cloche's labels; it was left alone.")
        return found

    def _thaw(self, found: Mapping[str, Any]) -> None:
        state = found.get("State") or {}
        if state.get("Paused"):
            with contextlib.suppress(EngineRefused), self._translated(f"unpause {found['Id'][:20]}"):
                self._api().unpause(found["Id"])
        if state.get("Pid"):
            freezer.thaw(int(state["Pid"]), str(found["Id"]))

    # images

    def image_exists(self, image_id: str) -> bool:
        """True when the engine has exactly this image."""
        try:
            self.inspect_image(image_id)
        except ImageMissing:
            return False
        return True

    def inspect_image(self, image_id: str) -> dict[str, Any]:
        """What the engine says of an image.

        Raises:
            ImageMissing.
        """
        with self._translated(f"image {image_id[:20]}", image=True):
            return dict(self._api().inspect_image(image_id))

    def load_image(self, archive: Path) -> None:
        """Load an archive whose layers the caller has verified (an engine does not, for a layer that it already has).

        Raises:
            EngineRefused: it is no image or is damaged.
        """
        with storage(archive):
            file = archive.open("rb")
        with file, self._translated(f"load {archive.name}"):
            for line in self._api().load_image(file, quiet=True):
                if "error" in line:
                    raise EngineRefused(f"the engine refused {archive.name}: {str(line['error'])[:300]}.")

    def save_image(self, image_id: str, archive: Path) -> None:
        """Write an image as the engine's archive (compare image ids and layers, never these bytes).

        Raises:
            ImageMissing, StorageFull, EngineFailure.
        """
        with storage(archive):
            file = archive.open("wb")
        with file, self._translated(f"save {image_id[:20]}", image=True):
            for chunk in self._api().get_image(image_id):
                with storage(archive):  # only around the file: the HTTP client's errors are OSErrors too
                    file.write(chunk)

    # connection

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _api(self) -> Any:  # the SDK's types are incomplete and partly wrong (float deadlines, times of events)
        mark = self.mark
        if self._client is None or mark != self._connected_to:
            self.close()
            self._version, self._connected_to = self._negotiate(), mark
            chosen = min(self._version.api, max(NEWEST_API, self._version.minimum_api))
            self._client = self._connect(chosen)
        return self._client

    def _connect(self, api: tuple[int, int]) -> Any:
        import docker  # a third of a second, which a command that finds a waiting cell does not need

        connect: Any = docker.APIClient
        client = connect(base_url=self.host, version=f"{api[0]}.{api[1]}", timeout=self.timeout_s, num_pools=8)
        if self.host.startswith("unix://"):
            client.trust_env = False  # proxies and .netrc mean nothing here, and are looked for at every call
        return client

    def _negotiate(self) -> EngineVersion:
        with self._translated("version"):
            client = self._connect(OLDEST_API)
            try:
                told = client.version(api_version=False)
            finally:
                client.close()
        version = EngineVersion(
            version=str(told.get("Version", "")),
            api=_pair(told.get("ApiVersion")),
            minimum_api=_pair(told.get("MinAPIVersion")),
            os=str(told.get("Os", "")),
            architecture=str(told.get("Arch", "")),
            kernel=str(told.get("KernelVersion", "")),
            components=tuple(str(one.get("Name", "")) for one in told.get("Components") or []),
        )
        if version.api < OLDEST_API:
            raise EngineTooOld(
                f"the engine at {self.host} speaks API {version.api[0]}.{version.api[1]}, 1.41 is the oldest usable.",
                fix="Install Docker 20.10 or later.",
            )
        return version

    def _translated(
        self, what: str, *, image: bool = False, timeout_s: float | None = None
    ) -> AbstractContextManager[None]:
        return translated(what, host=self.host, timeout_s=timeout_s or self.timeout_s, image=image)


def _pair(text: object) -> tuple[int, int]:
    major, _, minor = str(text).partition(".")
    return (int(major), int(minor)) if major.isdigit() and minor.isdigit() else (0, 0)
