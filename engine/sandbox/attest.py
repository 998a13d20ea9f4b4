"""The policy against what the cell looks like: from inside (the supervisor's attestation) and in the host's cgroup files.

Pure comparison: lists of differences, each a sentence. A check that did not run is a difference. The shape of an attestation
is what `cloche_guest/attest.py` makes (docs/reference/protocol.md); here it is data of an enemy, so nothing in it is trusted
to be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.sandbox.bell import BELL
from engine.sandbox.cgroup import LimitsInForce
from engine.sandbox.policy import INBOX, OUTBOX, CellPolicy
from engine.sandbox.runtimes import expected
from engine.sandbox.segments import outgoing_paths

VERSION = 1
_CAPABILITY_BITS = {"CHOWN": 0, "DAC_OVERRIDE": 1, "FOWNER": 3, "KILL": 5, "SETGID": 6, "SETUID": 7}  # capabilities(7)

MUST_FAIL = (
    "write_root",
    "write_in",
    "write_out",
    "list_out",
    "open_in_segment",
    "open_out_segment",
    "signal_supervisor",
    "memory_of_supervisor",
    "become_root",
    "group_of_supervisor",
    "socket_vsock",
    "socket_alg",
)
MUST_FAIL_BY_SECCOMP = ("socket_inet", "socket_inet6", "socket_netlink")
"""gVisor has these families without a network behind them; what counts there is that no interface but lo exists."""

_SEGMENTS = tuple(str(path) for path in outgoing_paths(Path(OUTBOX)))
_BELL = f"{OUTBOX}/{BELL}"
_WRITABLE = {*_SEGMENTS, "/proc"}
_WRITABLE_RUNSC = {"/dev", "/dev/pts", "/dev/mqueue"}
"""gVisor's own, in its memory, which counts as the cell's; it honours no read-only or masked path."""

_KNOWN = re.compile(
    r"/|/(proc|sys)(/.*)?|/dev(/(pts|mqueue))?|/etc/(hosts|hostname|resolv\.conf)|"
    + "|".join(re.escape(path) for path in (INBOX, OUTBOX, *_SEGMENTS, _BELL))
)


def differences(
    attestation: Mapping[str, Any], policy: CellPolicy, *, uid: int, host_kernel: str = ""
) -> tuple[str, ...]:
    """What the cell says of itself that the policy does not; empty when all is as it must be.

    `host_kernel` is the release of the kernel that the engine runs on, "" where it does not say.
    """
    try:
        return (*_kernel(attestation["kernel"], policy, host_kernel), *_differences(attestation, policy, uid))
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        return (f"the attestation has another shape ({type(error).__name__}: {str(error)[:80]})",)


def _differences(attestation: Mapping[str, Any], policy: CellPolicy, uid: int) -> Iterator[str]:
    if attestation["version"] != VERSION:
        yield f"attestation version {attestation['version']}, this side knows {VERSION}"
    supervisor, worker = attestation["supervisor"], attestation["worker"]
    ulimits = dict(policy.ulimits)
    yield from _process("supervisor", supervisor, policy, ids=(policy.user, policy.group), limits=ulimits)
    inside = policy.limits
    own = {"core": 0, "fsize": inside.file_bytes, "nofile": inside.open_files, "nproc": inside.processes}
    yield from _process("worker", worker, policy, ids=(uid, uid), limits=own)
    if supervisor["pid"] != 1:
        yield f"the supervisor is process {supervisor['pid']}, not 1"
    if not set(supervisor["groups"]) <= {policy.group}:
        yield f"the supervisor has groups {supervisor['groups']}"
    if worker["groups"]:
        yield f"the worker has groups {worker['groups']}"
    yield from _capabilities(supervisor["capabilities"], worker["capabilities"], policy)
    yield from _tried(worker["tried"], policy)
    yield from _mounts(attestation["mounts"], policy)
    yield from _surroundings(attestation, policy)


def _kernel(release: str, policy: CellPolicy, host: str) -> Iterator[str]:
    """A program that is called `runsc` and is another runtime gives a cell that runs on the host's own kernel."""
    if host and release == host and not expected(policy.runtime, "kernel_is_the_hosts"):
        yield f"the kernel is the host's own ({release[:40]}), so {policy.runtime} is not what runs the cell"


def _process(
    who: str, view: Mapping[str, Any], policy: CellPolicy, *, ids: tuple[int, int], limits: Mapping[str, int]
) -> Iterator[str]:
    for name, wanted in (("uids", ids[0]), ("gids", ids[1])):
        if set(view[name]) != {wanted} or len(view[name]) != 4:
            yield f"the {who} has {name} {view[name]}, not {wanted}"
    # gVisor does not show the flag, and gives no privileges on exec at all
    shown = {int(policy.no_new_privileges)} | (set() if expected(policy.runtime, "no_new_privileges_shown") else {-1})
    if view["no_new_privs"] not in shown:
        yield f"no-new-privileges of the {who} is {view['no_new_privs']}"
    filtered = expected(policy.runtime, "seccomp_attested") and policy.seccomp != "unconfined"
    if filtered and view["seccomp"] != 2:
        yield f"the {who} runs without a seccomp filter (mode {view['seccomp']})"
    for name, value in limits.items():
        soft, hard = view["rlimits"][name]
        if (soft, hard) != (value, value):
            yield f"limit {name} of the {who} is {soft}, {hard}, not {value}"


def _capabilities(supervisor: Mapping[str, str], worker: Mapping[str, str], policy: CellPolicy) -> Iterator[str]:
    allowed = sum(1 << _CAPABILITY_BITS[name] for name in policy.cap_add)
    for name in ("effective", "permitted", "bounding"):
        if int(supervisor[name], 16) != allowed:
            yield f"{name} capabilities of the supervisor are {supervisor[name][:16]}, not {allowed:016x}"
    hidden = {} if expected(policy.runtime, "ambient_shown") else {"ambient": "0"}
    for name in ("inheritable", "ambient"):
        if int(supervisor[name] or hidden.get(name, ""), 16):
            yield f"{name} capabilities of the supervisor are {supervisor[name][:16]}, not none"
    for name in ("effective", "permitted", "inheritable", "ambient"):
        if int(worker[name] or hidden.get(name, ""), 16):
            yield f"{name} capabilities of the worker are {worker[name][:16]}, not none"


def _tried(tried: Mapping[str, str], policy: CellPolicy) -> Iterator[str]:
    by_seccomp = MUST_FAIL_BY_SECCOMP if expected(policy.runtime, "socket_families_refused") else ()
    names = (*MUST_FAIL, *by_seccomp)
    for name in names:
        if name not in tried:
            yield f"the worker did not try {name}"
        elif tried[name] == "ok":
            yield f"the worker succeeded in {name}"


def _mounts(mounts: list[Mapping[str, Any]], policy: CellPolicy) -> Iterator[str]:
    by_point = {mount["point"]: mount for mount in mounts}
    tmpfs = dict(policy.tmpfs)
    for point, options in tmpfs.items():
        yield from _tmpfs(point, options, by_point.get(point), policy)
    for point in ("/", INBOX, OUTBOX, *_SEGMENTS):
        if point not in by_point:
            yield f"nothing is mounted at {point}"
    own = _WRITABLE_RUNSC if policy.runtime == "runsc" else set()
    allowed = _WRITABLE | own | set(tmpfs) | ({_BELL} if policy.bell else set())
    for mount in mounts:
        point, writable = mount["point"], "ro" not in mount["options"]
        # an overmount hides what is below; only the last one at a point is seen
        if by_point[point] is not mount:
            continue
        if not _KNOWN.fullmatch(point) and point not in tmpfs:
            yield f"{point[:80]} is mounted and should not be"
        elif writable and point not in allowed and not _masked(point, mount, policy):
            yield f"{point[:80]} is writable"
    for path in policy.read_only_paths:
        if path in by_point and path not in own and "ro" not in by_point[path]["options"]:
            yield f"{path} is writable"
    if expected(policy.runtime, "proc_sys_covered") and "/proc/sys" not in by_point:
        yield "/proc/sys is not covered"


def _masked(point: str, mount: Mapping[str, Any], policy: CellPolicy) -> bool:
    """A masked file is covered by /dev/null, whose node is writable and empty; a directory by a tmpfs that is read-only."""
    null = mount["type"] in ("tmpfs", "devtmpfs") and mount["root"] == "/null"
    return point in policy.masked_paths and null


def _tmpfs(point: str, options: str, mount: Mapping[str, Any] | None, policy: CellPolicy) -> Iterator[str]:
    if mount is None or mount["type"] != "tmpfs":
        yield f"{point} is no tmpfs"
        return
    flags = ("noexec", "nosuid", "nodev") if expected(policy.runtime, "mount_flags_shown") else ("noexec",)
    for flag in flags:
        if flag in options.split(",") and flag not in mount["options"]:
            yield f"{point} is mounted without {flag}"
    seen = dict(item.split("=", 1) for item in mount["super_options"] if "=" in item)
    inodes = {"nr_inodes": 1} if expected(policy.runtime, "tmp_inodes_bounded") else {}
    for name, scale in {"size": 1024, **inodes}.items():
        wanted = re.search(rf"(?:^|,){name}=([0-9]+)", options)
        if wanted is None:
            continue
        shown = re.fullmatch(r"([0-9]+)k?", seen.get(name, ""))
        if shown is None or int(shown[1]) * (scale if seen[name].endswith("k") else 1) != int(wanted[1]):
            yield f"{point} has {name} {seen.get(name, 'unlimited')}, not {wanted[1]}"


def _surroundings(attestation: Mapping[str, Any], policy: CellPolicy) -> Iterator[str]:
    others = sorted(set(attestation["interfaces"]) - {"lo"})
    if others:
        yield f"there are network interfaces: {', '.join(others)[:200]}"
    if attestation["routes"]:
        yield f"there are {len(attestation['routes'])} network routes"
    allowed = {name for name, _ in policy.environment} | {"HOSTNAME"}
    more = sorted(set(attestation["environment"]) - allowed)
    if more:
        yield f"the environment has more than the allow-list: {', '.join(more)[:200]}"


def cgroup_differences(limits: LimitsInForce, policy: CellPolicy) -> tuple[str, ...]:
    """What the kernel enforces against what the policy says."""
    wanted = LimitsInForce(
        memory=policy.memory,
        memory_swap=policy.memory_swap,
        pids=policy.pids,
        cpus=policy.nano_cpus / 1e9,
    )
    found = []
    for name in ("memory", "memory_swap", "pids"):
        want, have = getattr(wanted, name), getattr(limits, name)
        # the kernel keeps memory in pages
        if have is None or abs(have - want) >= 4096 * (name != "pids") + (name == "pids"):
            found.append(f"the {name.replace('_', ' and ')} limit in force is {have}, not {want}")
    if limits.cpus is None or abs(limits.cpus - (wanted.cpus or 0)) > 0.001:
        found.append(f"the CPU limit in force is {limits.cpus}, not {wanted.cpus}")
    return tuple(found)
