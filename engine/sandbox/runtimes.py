"""How runtimes differ, as one table: the attestation and the tests take their expectations from it, and a page is rendered from it.

A row is something that a cell shows, a program meets or the host sees, and that is not the same under `runc` and under gVisor. What
is not in the table holds under both. `value` is what code compares; `says` is for people (docs/reference/runtimes.md). Measured on
runc 1.1.5 and runsc 20221219 (platform ptrace) with the runtime arguments of our own engines; other versions may show more, and
a test that expects less than a newer gVisor does then fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.sandbox.policy import Runtime

Value = bool | int | str


@dataclass(frozen=True)
class Side:
    """One runtime's side of a row."""

    value: Value
    says: str


@dataclass(frozen=True)
class Difference:
    """One row: `name` for code, `what` for people, and both sides."""

    name: str
    what: str
    runc: Side
    runsc: Side

    def under(self, runtime: Runtime) -> Side:
        """The side of one runtime."""
        return self.runc if runtime == "runc" else self.runsc


ENFORCED = (
    Difference(
        "kernel_is_the_hosts",
        "kernel under the program",
        Side(True, "the host's, behind the seccomp list"),
        Side(False, "gVisor's, in user space; an attestation that shows the host's kernel is refused"),
    ),
    Difference(
        "seccomp_attested",
        "list of allowed system calls",
        Side(True, "enforced by the host's kernel and attested (mode 2)"),
        Side(False, "enforced inside with `--oci-seccomp`, which our own engines set; else ignored, and not asked for"),
    ),
    Difference(
        "errno_of_a_rule_honoured",
        "errno that the list gives for a call (`clone3`: ENOSYS)",
        Side(True, "honoured"),
        Side(False, "ignored: `clone3` is let through, and gVisor has none, which gives ENOSYS too"),
    ),
    Difference(
        "newer_calls_answer",
        "a call with a number past all of the list",
        Side("ENOSYS", "ENOSYS, as from a kernel that has none"),
        Side("EPERM", "EPERM with `--oci-seccomp`, as every other call that is not on the list; else what gVisor has"),
    ),
    Difference(
        "listed_calls_refused",
        "calls of the list that are refused all the same",
        Side("", "none"),
        Side(
            "openat2",
            "`openat2` with `--oci-seccomp`: this version has no name for it; CPython and its library use none",
        ),
    ),
    Difference(
        "foreign_calls_answer",
        "calls of other architectures (x32, `int 0x80`)",
        Side("killed", "SIGSYS"),
        Side(
            "filtered",
            "x32: EPERM; `int 0x80` is taken for the 64-bit call of that number, and the list holds for it",
        ),
    ),
    Difference(
        "supervisor_scheduling_refused",
        "nice value and CPUs of PID 1, set by the worker",
        Side(True, "EPERM from the list"),
        Side(False, "EPERM with `--oci-seccomp`; else gVisor reports success, and the deadline was measured to hold"),
    ),
    Difference(
        "host_notifications_arrive",
        "notifications (inotify) of files that the host writes",
        Side(True, "arrive; the exchange does not use them"),
        Side(False, "do not arrive"),
    ),
    Difference(
        "no_new_privileges_shown",
        "no-new-privileges",
        Side(True, "set, and shown in `/proc/self/status`"),
        Side(False, "not shown; gVisor gives no privileges on exec"),
    ),
    Difference(
        "ambient_shown",
        "ambient capabilities",
        Side(True, "shown, and empty"),
        Side(False, "not shown"),
    ),
    Difference(
        "socket_families_refused",
        "sockets of the families inet, inet6 and netlink",
        Side(True, "EPERM from the list"),
        Side(False, "EPERM with `--oci-seccomp`; else made, and nothing is behind them but loopback"),
    ),
    Difference(
        "mount_flags_shown",
        "`nosuid` and `nodev` of /tmp",
        Side(True, "set and shown"),
        Side(False, "set, not shown; without capabilities neither a device nor a setuid file can be made"),
    ),
    Difference(
        "tmp_inodes_bounded",
        "number of files in /tmp (`nr_inodes`)",
        Side(True, "bounded: ENOSPC"),
        Side(False, "ignored; each file costs memory of the cell, which is bounded"),
    ),
    Difference(
        "proc_sys_covered",
        "/proc/sys",
        Side(True, "mounted read-only again"),
        Side(False, "gVisor's own, a few files of the sandbox; nothing of the host"),
    ),
    Difference(
        "cgroup_files_shown",
        "/sys/fs/cgroup",
        Side(True, "the host's, covered by an empty tmpfs"),
        Side(False, "not there"),
    ),
    Difference(
        "host_network_reached",
        "a container that was given the host's network by mistake",
        Side(True, "has its interfaces, which the attestation finds"),
        Side(False, "has none, since the runtime is registered with `--network=none`; the readback finds the mistake"),
    ),
    Difference(
        "host_sockets_mounted",
        "a unix socket of the host among the mounts",
        Side(True, "is mounted, which readback and attestation find"),
        Side(False, "does not start"),
    ),
    Difference(
        "bell_opens_for_writing",
        "the pipe that wakes a waiting cell, opened for writing by PID 1 on its read-only mount",
        Side(True, "opens, as Linux has it; what is written is read by PID 1 itself"),
        Side(False, "EROFS"),
    ),
    Difference(
        "proc_self_writable",
        "files of its own in /proc/self that the program may open for writing",
        Side(True, "those that the kernel gives everybody (`comm`, `oom_score_adj` …)"),
        Side(False, "none"),
    ),
    Difference(
        "places_of_the_sandbox",
        "writable places that no mount of ours makes",
        Side("", "none"),
        Side(
            "/dev(/(shm|pts(/ptmx)?|net(/tun)?|fuse))?|/proc/sys/.*",
            "gVisor's own `/dev` and `/proc/sys`, in memory that counts as the cell's",
        ),
    ),
    Difference(
        "supervisor_environment_readable",
        "`/proc/1/environ` and `/proc/1/maps` for the worker",
        Side(False, "EACCES"),
        Side(True, "readable; the environment is the allow-list and holds no secret"),
    ),
)

ENDINGS = (
    Difference(
        "memory_of_a_child",
        "a child process takes more memory than the cell has",
        Side("child", "the kernel kills the child; the program goes on, and the accounting notes it"),
        Side("cell", "the whole cell dies, as `limit:memory`"),
    ),
    Difference(
        "last_word_at_memory",
        "the program itself takes more memory than the cell has",
        Side(True, "the supervisor survives, says so and hands over what was printed"),
        Side(False, "the whole cell dies with it, as `limit:memory` all the same"),
    ),
    Difference(
        "fork_bomb",
        "a fork bomb at the default limits",
        Side("EAGAIN", "the limit of processes comes first: EAGAIN in the program"),
        Side("memory", "memory comes first, since a process costs 8 MiB of it: `limit:memory`"),
    ),
    Difference(
        "forks_use_up_host_threads",
        "a program that forks without end",
        Side(False, "EAGAIN at the limit of processes, until the deadline"),
        Side(
            True,
            "the same, but gVisor keeps some 90 threads more each second; at the host's limit of 2,048 the cell dies "
            "as `supervisor_lost`, with the refused threads noted",
        ),
    ),
    Difference(
        "paused_cell_is_seen",
        "a waiting cell that somebody paused (`docker pause`)",
        Side(True, "is seen to be stopped; a job starts in a new cell"),
        Side(
            False,
            "looks alive, since gVisor stops the program and not its own process; a job that it is given and does not take within "
            "20 s fails the sandbox (`job.not_taken`), and the run goes on from its record",
        ),
    ),
    Difference(
        "dies_while_stopped",
        "a kill of a cell whose first process the host had stopped",
        Side(True, "the kernel ends it"),
        Side(False, "gVisor's own kill waits for the sandbox to answer; such a process is killed past the engine"),
    ),
    Difference(
        "host_process_is_root",
        "first process of the cell as the host sees it",
        Side(True, "uid 0 with SETUID, SETGID and KILL, seccomp mode 2"),
        Side(
            False,
            "the sandbox: uid 65534 in namespaces and a seccomp list of its own; gofer and program are other processes",
        ),
    ),
)

COSTS = (
    ("memory of a waiting cell", "5 MiB", "18 MiB in the cgroup, 37 MiB with shim and gofer"),
    ("host processes and threads of a waiting cell", "1", "about 57, and 7.5 more a process of the program"),
    ("idle CPU while a file is polled every 5, 10, 20 ms", "0.4 % of a core at 5 ms", "3.3, 2.3, 1.5 %"),
    ("a trial cell from start to gone", "about 130 ms", "about 290 ms"),
    ("round trip of a call", "0.2 ms", "0.8 ms"),
    ("from handing a job over to the first line of its package", "3 ms", "7.4 ms"),
    ("reading a source file of a package", "0.02 ms", "0.5 ms"),
    ("system call", "0.2 µs", "30 to 45 µs on the platform ptrace; `systrap` is not in this version, `kvm` hung"),
)
"""What, under runc, under gVisor; medians on the machine of docs/reference/benchmarks.md, under some load. Nothing expects them."""

DIFFERENCES = (*ENFORCED, *ENDINGS)

_BY_NAME: Mapping[str, Difference] = {row.name: row for row in DIFFERENCES}


def expected(runtime: Runtime, name: str) -> Value:
    """What the table says for this runtime in the row of this name."""
    return _BY_NAME[name].under(runtime).value
