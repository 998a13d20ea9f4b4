"""The page of the seccomp list, rendered from its data file, so that list and page cannot part."""

from __future__ import annotations

from collections.abc import Iterator

from engine.sandbox import seccomp

_BEFORE = """# The system calls of a cell

An allow-list of {count} of the kernel's system calls; everything else is refused with EPERM, and with ENOSYS where the number
lies above every number of the list (which is how a C library learns to try an older call). It is made from
`engine/sandbox/system_calls.toml`; this page is rendered from the same file.

Each name was taken away in a real cell, and the guest, pytest and scripts over the standard library were run: files, trees, memory,
time, signals, children, subprocess, threads, asyncio, selectors, multiprocessing (spawn and fork), sqlite without locks
(`tests/helpers/standard_library.py`). That was done a second time from the shortened list, where nothing was left to fall back on.
*Without it* says what then failed. A name whose absence showed nothing stays only where the reason is given: calls that cannot fail
by their definition, so that a refusal is taken for a value, and what runc's own Go scheduler or a newer runc calls between the
filter and the program.

- **`clone3`** gets ENOSYS: its flags lie in memory, where a filter cannot look, and after ENOSYS the C library uses `clone`, whose
  flags are checked. With EPERM no thread would start.
- **32-bit and x32 calls**: x86-64 is the only architecture of the profile. A call through `int 0x80`, or with an x32 number, ends
  its process (SIGSYS). Both are tried in the tests, with machine code of their own.
- **`uretprobe` and `uprobe`** (335, 336): newer kernels let them past any filter, for probes of the host's own. Called outside
  of one they give SIGILL and ENXIO, and nothing else.
- **No socket**: there is no `socket`, `connect`, `bind`, `listen` or `accept`, so no family at all (inet, netlink, vsock, packet,
  alg, unix by name); `socketpair` gives two connected ends, and `sendto` takes no address. Without `sendmsg` and `recvmsg` no
  descriptor passes between processes.
- **No file locks**: a record lock takes 192 bytes of the kernel's memory, which no cell is charged for and no limit counts
  (`RLIMIT_LOCKS` has been without effect since Linux 2.4.25); measured, eight processes held 270 MB of the host in nine seconds.
- **Arguments**: a filter sees numbers, not what a pointer points to. Where the kernel reads an int, 32 bits are compared.
- **A base of your own** (`image build --base`) with another C library or a newer Python may use calls that are not here; they fail
  with EPERM. `cloche doctor` starts a trial cell of the image.

## What is gone, and what it means for a program

`os.mkfifo`, `os.mknod`, `os.chown`, `os.nice`, `os.setpriority`, `os.sched_setaffinity`, `os.memfd_create`, `os.pidfd_open`,
`os.eventfd`, `os.copy_file_range`, `os.posix_fallocate`, `os.getloadavg`, `os.fchdir`, `os.getxattr`, `fcntl.flock`,
`fcntl.lockf`, `socket.send_fds` and every `socket.socket()` fail, as a rule with EPERM. A file of sqlite opens with `?nolock=1` only;
`:memory:` needs no lock. `shutil`, `tempfile`, `subprocess` and `asyncio` fall back by themselves where they would use `sendfile`,
`vfork` or `close_range`.

## Per runtime
"""

_RUNTIMES = {
    "`runc`": (
        "the host's kernel",
        (
            "in force, with every argument rule; the attestation sees the filter (mode 2) and tries sockets from inside before any code"
            " is delivered"
        ),
    ),
    "`runsc`": (
        "gVisor's own kernel, in user space; the host sees only gVisor's own, shorter list",
        (
            "**ignored**, and not claimed. Measured by the same calls: sockets, `ptrace`, IPC, `memfd_create`, inotify and a user"
            " namespace are there, all inside gVisor; perf, keys and file handles answer with an error; bpf, userfaultfd, modules"
            " and `clone3` do not exist"
        ),
    ),
    "`runsc --oci-seccomp`": (
        "gVisor's own kernel",
        (
            "in force inside gVisor with every argument rule, by EPERM always: `clone3` would get it too and threads would fail, so"
            " under `runsc` the profile lets it through, and `pselect6` by gVisor's name for it. `int 0x80` is taken for a 64-bit call"
        ),
    ),
    "Podman's socket": (
        "the host's kernel",
        "in force; handed over as a file, because there `seccomp=` is a path ([engines](engines.md))",
    ),
}
"""Runtime → who answers a system call, and what the list is worth there (measured with runc 1.1.5 and runsc 20221219)."""


def seccomp_page() -> str:
    """All of the page below the notice."""
    calls = seccomp.system_calls()
    return "\n".join([_BEFORE.format(count=len(calls)), *_per_runtime(), *_groups()])


def _per_runtime() -> Iterator[str]:
    yield "| runtime | who answers a system call | the list |\n|---|---|---|"
    for runtime, (answers, worth) in _RUNTIMES.items():
        yield f"| {runtime} | {answers} | {worth} |"
    yield ""


def _groups() -> Iterator[str]:
    for group in seccomp.groups():
        yield f"## {group.title}\n"
        yield "| call | number | needed by | without it | what it could do | arguments let through |\n|---|---|---|---|---|---|"
        for call in group.calls:
            told = (call.by, call.without, call.could, call.only or "any")
            yield f"| `{call.name}` | {call.number} | " + " | ".join(text.replace("|", "\\|") for text in told) + " |"
        yield ""
