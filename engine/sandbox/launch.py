"""From nothing to a started container whose configuration is what was asked for; and back to nothing.

Blocking steps, run in a worker thread by `engine.sandbox.cell`. The intent is on disk before the engine is asked for anything,
and the container's name follows from it, so every half-done start can be undone, by us or by the reaper.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from engine import ids
from engine.errors import CellLost, SandboxUnavailable
from engine.points import reached
from engine.sandbox import labels, origin, podman, readback, remains, uids
from engine.sandbox.exchange import HostLink
from engine.sandbox.place import Idle, Intent, Place, boot_id, container_name
from engine.sandbox.policy import CellPolicy, Kind

if TYPE_CHECKING:
    from engine.sandbox.service import Sandbox

EXPIRY_MARGIN_S = 120
"""Past its deadline and the time to start, a cell is the reaper's, whoever owns it."""


@dataclass(frozen=True)
class Wish:
    """What a caller wants: `policy` is what is created, `claimed` what readback and attestation are compared with.

    `deadline_s` bounds the job. `idle_s`: how long the cell may wait for it without an owner; 0 for a cell whose owner has a job.
    """

    image_id: str
    kind: Kind
    deadline_s: float
    generation: int
    run_id: str
    policy: CellPolicy
    claimed: CellPolicy
    idle_s: float = 0.0


class Launch:
    """The host's resources of one cell, acquired step by step; given back after any of them by `destroy` and `release`.

    Or those of an idle cell, which `taken` acquires at once.
    """

    def __init__(self, sandbox: Sandbox, wish: Wish, *, cell_id: str = "") -> None:
        self._sandbox = sandbox
        self.wish = wish
        self.is_taken = bool(cell_id)
        self.cell_id = cell_id or ids.new_cell_id()
        self.name = container_name(self.cell_id)
        self.nonce = ids.new_nonce()
        self.container = ""
        self.pid = 0
        self.started_at_unix = time.time()
        self._asked_engine = False
        self._idle: Idle | None = None
        self._claim: uids.Claim | None = None
        self._place: Place | None = None
        self._link: HostLink | None = None

    @classmethod
    def taken(cls, sandbox: Sandbox, wish: Wish, place: Place, idle: Idle) -> Launch:
        """The resources of an idle cell whose place is owned now. On an error the place is left to the reaper.

        Raises:
            CellLost: its uid is another cell's by now, so that its container cannot live. StorageFull, EngineFailure: its files.
        """
        launch = cls(sandbox, wish, cell_id=place.intent.cell)
        launch._idle = idle
        launch._fit_to_engine()
        launch.nonce, launch.container, launch.pid = idle.nonce, idle.container_id, idle.pid
        launch._asked_engine = True
        launch._place = place
        try:
            launch._claim = uids.take(place.intent.uid, place.intent.cell)
            if launch._claim is None:
                raise CellLost(f"idle cell {place.intent.cell} lost its uid.")
            launch._link = launch._exchange(begun=True)
            place.claim_for(launch._intent())
        except BaseException:
            launch.release(gone=False)
            raise
        return launch

    @property
    def uid(self) -> int:
        """The worker's uid."""
        assert self._claim is not None
        return self._claim.uid

    @property
    def place(self) -> Place:
        """The cell's directory."""
        assert self._place is not None
        return self._place

    @property
    def link(self) -> HostLink:
        """The host's end of the exchange."""
        assert self._link is not None
        return self._link

    @property
    def open_link(self) -> HostLink | None:
        """The exchange, if the start came that far."""
        return self._link

    def prepare(self, *, wait_s: float) -> None:
        """Claim a uid, write the intent, lay out the exchange with the hello in it. The engine is told nothing yet.

        Raises:
            SandboxUnavailable, EngineTimeout: which engine it is had to be asked, and it does not answer.
        """
        self._claim = uids.claim(self.cell_id, self._uids_in_use)
        reached("cell.claimed")
        self._place = Place.make(self._sandbox.settings.home, self._intent())
        self._link = self._exchange()
        self._link.send_hello(nonce=self.nonce, kind=self.wish.kind, uid=self._claim.uid, wait_s=wait_s)
        reached("cell.intent")

    def _exchange(self, *, begun: bool = False) -> HostLink:
        """Before the job, frames are of generation 0: the cell may wait before anybody knows what for."""
        policy = self.wish.policy
        return HostLink(self.place.path, limits=policy.limits, generation=0, group=policy.group, begun=begun)

    def start(self) -> None:
        """Create, read back, compare, start.

        Raises:
            PolicyMismatch: the engine made something else. Everything that `Engine.create` and `Engine.start` raise.
        """
        engine = self._sandbox.engine
        self._asked_engine = True
        try:
            self._fit_to_engine()
            config, claimed = (one.container(**self._variable()) for one in (self.wish.policy, self.wish.claimed))
            if self._speaks_podman:
                config = podman.request(config, self.place.path / podman.PROFILE)
            self.container = engine.create(config, name=self.name)
        except SandboxUnavailable:
            self._asked_engine = False  # refused before anything was made
            raise
        self.place.keep_container(self.container)
        reached("cell.created")
        inspected = engine.inspect(self.container)
        if self._speaks_podman:
            inspected = podman.as_docker(claimed, inspected, self.place.path / podman.PROFILE)
        if found := readback.differences(claimed, inspected):
            raise readback.refusal(found)
        engine.start(self.container)
        reached("cell.started")
        self.pid = int(engine.inspect(self.container)["State"]["Pid"])
        origin.keep_seen(self.place.path, pid=self.pid, container=self.container)

    def _fit_to_engine(self) -> None:
        if self._speaks_podman:
            fitted = podman.adapted(self.wish.policy), podman.adapted(self.wish.claimed)
            self.wish = replace(self.wish, policy=fitted[0], claimed=fitted[1])

    @property
    def _speaks_podman(self) -> bool:
        return self._idle.podman if self._idle else podman.speaks(self._sandbox.engine.version())

    @property
    def host_kernel(self) -> str:
        """The release of the kernel that the engine runs on, as it was said when the cell was made; "" where it is not said."""
        return self._idle.host_kernel if self._idle else self._sandbox.engine.version().kernel

    def _variable(self) -> dict[str, Any]:
        return {
            "image_id": self.wish.image_id,
            "inbox": self.link.inbox,
            "outbox": self.link.outbox,
            "labels": labels.labels_of(self.place.intent, home_id=self._sandbox.home_id),
            "uid": self.uid,
        }

    def shelve(self, key: str) -> None:
        """Give an idle cell up to whoever takes it next; this process has no part in it any more."""
        assert self.place.intent.idle_until is not None
        assert self._claim is not None
        idle = Idle(
            key=key,
            container_id=self.container,
            pid=self.pid,
            nonce=self.nonce,
            until=self.place.intent.idle_until,
            host_kernel=self.host_kernel,
            podman=self._speaks_podman,
        )
        self.link.close()
        self._claim.abandon()
        self.place.shelve(idle)

    def _intent(self) -> Intent:
        now = self._sandbox.clock.now()
        idle = timedelta(seconds=self.wish.idle_s)
        before = self._place.intent if self._place is not None else None
        return Intent(
            cell=self.cell_id,
            container=self.name,
            kind=self.wish.kind,
            image_id=self.wish.image_id,
            runtime=self.wish.policy.runtime,
            policy=self.wish.policy.digest,
            uid=self.uid,
            run_id=self.wish.run_id,
            generation=self.wish.generation,
            owner_pid=self._sandbox.pid,
            boot_id=boot_id(),
            created_at=now,
            expires_at=now + idle + timedelta(seconds=self.wish.deadline_s + EXPIRY_MARGIN_S),
            idle_until=now + idle if idle else None,
            engine=origin.of_new_cell(self._sandbox) if before is None else before.engine,
            engine_host=self._sandbox.engine.host if before is None else before.engine_host,
        )

    def _uids_in_use(self) -> frozenset[int]:
        listed = self._sandbox.engine.containers({labels.UID: None})
        return frozenset(int(one.labels[labels.UID]) for one in listed if one.labels[labels.UID].isdigit())

    def destroy(self, *, ended: bool = False) -> None:
        """kill → wait → remove → seen absent, and no process left of it; also a container whose creation was never answered.

        `ended`: its first process was seen to end.

        Raises:
            SandboxError: it may still be there; `release(gone=False)` then.
        """
        if self._asked_engine:
            self._sandbox.engine.destroy(self.container or self.name, ended=ended)
            remains.end(self.container)
            reached("cell.removed")

    def release(self, *, gone: bool) -> None:
        """Give everything on this machine back; what may live on is left to the reaper."""
        if self._link is not None:
            self._link.close()
        if self._place is not None:
            (self._place.remove if gone else self._place.leave)()
        if self._claim is not None:
            (self._claim.release if gone else self._claim.abandon)()
