"""The protections of a cell's policy, each with a way to take it away: one per field, and one per refused system call."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from engine.sandbox.policy import CellPolicy

Weaken = Callable[[CellPolicy, Path], CellPolicy]
"""The second argument is the home, a directory of the host."""

NO_PROTECTION = {
    "runtime": "the choice of who enforces",
    "kind": "what a cell is for",
    "group": "the owner's, different on every machine",
    "bell": "the way in which a supervisor that waits is woken",
    "limits": "the guest's own bounds, see the programs below",
}
"""Fields of the policy that take nothing from a cell."""


def _tmp(policy: CellPolicy, old: str, new: str) -> CellPolicy:
    return policy.with_tmpfs("/tmp", dict(policy.tmpfs)["/tmp"].replace(old, new))


FIELDS: dict[str, tuple[str, Weaken]] = {
    "PID 1 as uid 0": ("user", lambda p, _: p.with_user(1000, p.group)),
    "three capabilities": ("cap_add", lambda p, _: p.with_capabilities(add=(*p.cap_add, "DAC_OVERRIDE"))),
    "all others dropped": ("cap_drop", lambda p, _: p.with_capabilities(add=p.cap_add, drop=())),
    "the list of system calls": ("seccomp", lambda p, _: p.with_seccomp("unconfined")),
    "no-new-privileges": ("no_new_privileges", lambda p, _: p.with_new_privileges()),
    "not privileged": ("privileged", lambda p, _: p.with_privileged()),
    "read-only root": ("read_only_root", lambda p, _: p.with_root(read_only=False)),
    "read-only in/": ("inbox_read_only", lambda p, _: p.with_inbox(read_only=False)),
    "read-only out/": ("outbox_read_only", lambda p, _: p.with_outbox(read_only=False)),
    "size of /tmp": ("tmpfs", lambda p, _: p.with_tmpfs("/tmp", "size=300m,mode=1777,noexec,nosuid,nodev")),
    "no program in /tmp": ("tmpfs", lambda p, _: _tmp(p, "noexec", "exec")),
    "no setuid in /tmp": ("tmpfs", lambda p, _: _tmp(p, "nosuid", "suid")),
    "no device in /tmp": ("tmpfs", lambda p, _: _tmp(p, "nodev", "dev")),
    "no other tmpfs": ("tmpfs", lambda p, _: p.with_tmpfs("/var", "size=1048576,mode=1777")),
    "no core files": ("ulimits", lambda p, _: p.with_ulimit("core", -1)),
    "open files": ("ulimits", lambda p, _: p.with_ulimit("nofile", 1024)),
    "file size": ("ulimits", lambda p, _: p.with_ulimit("fsize", None)),
    "processes of the uid": ("ulimits", lambda p, _: p.with_ulimit("nproc", None)),
    "memory": ("memory", lambda p, _: p.with_memory(2 * p.memory)),
    "no swap": ("memory_swap", lambda p, _: p.with_memory(p.memory, swap=-1)),
    "host processes": ("pids", lambda p, _: p.with_pids(None)),
    "CPU": ("nano_cpus", lambda p, _: p.with_cpus(0)),
    "no network": ("network", lambda p, _: p.with_network("host")),
    "no IPC": ("ipc", lambda p, _: p.with_ipc("private", shm_bytes=1 << 26)),
    "size of /dev/shm": ("shm_bytes", lambda p, _: p.with_ipc(p.ipc, shm_bytes=1 << 26)),
    "own process namespace": ("pid_namespace", lambda p, _: p.with_pid_namespace("host")),
    "own cgroup namespace": ("cgroup_namespace", lambda p, _: p.with_cgroup_namespace("host")),
    "no log of the engine": ("log", lambda p, _: p.with_log("json-file")),
    "the allow-list of variables": (
        "environment",
        lambda p, _: p.with_environment({"AWS_SECRET_ACCESS_KEY": "planted"}),
    ),
    "masked paths": ("masked_paths", lambda p, _: p.with_paths(masked=(), read_only=p.read_only_paths)),
    "read-only paths": ("read_only_paths", lambda p, _: p.with_paths(masked=p.masked_paths, read_only=())),
    "no directory of the host": ("extra_mounts", lambda p, home: p.with_mount(home, str(home))),
    "no device of the host": ("devices", lambda p, _: p.with_device("/dev/kmsg")),
}
"""Name of the protection → the field that holds it, and the policy without it."""

CALLS = (
    *(
        "acct",
        "add_key",
        "bpf",
        "chroot",
        "clone",
        "delete_module",
        "fcntl",
        "fanotify_init",
        "finit_module",
        "fsopen",
        "fspick",
    ),
    *("get_mempolicy", "init_module", "inotify_init1", "io_uring_setup", "ioperm", "iopl", "ioprio_set", "kcmp"),
    *("kexec_load", "keyctl", "mbind", "memfd_create", "mknod", "mknodat", "modify_ldt", "mount", "move_mount"),
    *("move_pages", "mq_open", "msgget", "name_to_handle_at", "open_by_handle_at", "open_tree", "perf_event_open"),
    *("personality", "pidfd_getfd", "pidfd_open", "pidfd_send_signal", "pivot_root", "prlimit64", "process_vm_readv"),
    *("process_vm_writev", "ptrace", "quotactl", "reboot", "request_key", "rt_sigqueueinfo", "sched_setaffinity"),
    *("sched_setscheduler", "seccomp", "semget", "set_mempolicy", "sethostname", "setns", "setpriority"),
    *("settimeofday", "shmget", "socket", "splice", "swapoff", "swapon", "syslog", "tkill", "umount2", "unshare"),
    *("userfaultfd",),
)
"""System calls that attempts make and the list refuses, wholly or with such arguments."""


def allowing(policy: CellPolicy, *names: str) -> CellPolicy:
    """The policy with these calls let through, whatever their arguments."""
    profile = json.loads(policy.seccomp)
    profile["syscalls"].append({"names": list(names), "action": "SCMP_ACT_ALLOW"})
    return policy.with_seccomp(json.dumps(profile))


def _without_rule(name: str) -> Weaken:
    return lambda policy, _: allowing(policy, name)


PROTECTIONS: dict[str, Weaken] = {
    **{name: weaken for name, (_, weaken) in FIELDS.items()},
    **{f"call {name}": _without_rule(name) for name in CALLS},
}
