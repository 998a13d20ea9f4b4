"""A policy in words: each protection, its value, who enforces it, and what this runtime leaves out."""

from __future__ import annotations

import json
from dataclasses import dataclass

from engine.sandbox.policy import CellPolicy


@dataclass(frozen=True)
class Rule:
    """One line: what is protected, the value, who enforces it, and what the runtime leaves out."""

    protection: str
    value: str
    enforced_by: str
    note: str = ""


def protections(policy: CellPolicy) -> tuple[Rule, ...]:
    """What holds in such a cell and who sees to it; what this runtime ignores is said and not claimed."""
    runc = policy.runtime == "runc"
    kernel = "kernel" if runc else "gVisor"
    return (
        Rule("network", policy.network, "kernel namespace" if runc else "gVisor's own stack, which has loopback alone"),
        Rule(
            "system calls",
            f"{_allowed(policy.seccomp)}, clone3 → ENOSYS" if runc else "those that gVisor has",
            "kernel (seccomp)" if runc else "gVisor's own kernel",
            "" if runc else "our list is ignored unless runsc runs with --oci-seccomp",
        ),
        Rule(
            "privileges",
            "no-new-privileges, ALL dropped, " + " ".join(policy.cap_add) + " for PID 1",
            kernel,
            "" if runc else "gVisor does not show no-new-privileges and ambient capabilities; it gives none on exec",
        ),
        Rule("identity", f"PID 1 {policy.user}:{policy.group}, worker under its own uid without groups", kernel),
        Rule("root file system", "read-only" if policy.read_only_root else "writable", kernel),
        *(
            Rule(
                f"tmpfs {path}",
                options,
                kernel,
                "" if runc else "nr_inodes is ignored; nosuid and nodev are not shown",
            )
            for path, options in policy.tmpfs
        ),
        Rule(
            "closed paths",
            " ".join((*policy.masked_paths, *policy.read_only_paths)),
            kernel if runc else "",
            ""
            if runc
            else "ignored: gVisor has a /proc, /sys and /dev of its own, in memory that counts as the cell's",
        ),
        Rule("shared memory", f"ipc {policy.ipc}", kernel),
        Rule("memory", f"{policy.memory} bytes, swap {policy.memory_swap - policy.memory}", "cgroup"),
        Rule("cpu", f"{policy.nano_cpus / 1e9:g} cores", "cgroup"),
        Rule("host processes", str(policy.pids), "cgroup", "" if runc else "counts gVisor's own threads too"),
        Rule("guest processes", str(policy.limits.processes), f"{kernel} (RLIMIT_NPROC of the worker's uid)"),
        *(Rule(f"ulimit {name}", str(value), kernel) for name, value in policy.ulimits if name != "nproc"),
        Rule("environment", " ".join(name for name, _ in policy.environment), "engine"),
        Rule(
            "scheduling of PID 1",
            "refused" if runc else "possible",
            "seccomp" if runc else "",
            "" if runc else "gVisor reports success for nice and affinity; the deadline was measured to hold",
        ),
    )


def _allowed(profile: str) -> str:
    try:
        rules = json.loads(profile)["syscalls"]
    except (ValueError, KeyError, TypeError):
        return "all calls"
    return f"{len({name for rule in rules if rule['action'] == 'SCMP_ACT_ALLOW' for name in rule['names']})} calls"
