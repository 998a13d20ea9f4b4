"""Every system call of the machine, called by untrusted code in a real cell: what the list does not name is refused."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from engine.sandbox import seccomp
from engine.sandbox.docker import Engine
from engine.sandbox.policy import Runtime
from engine.sandbox.runtimes import expected
from tests.helpers import standard_library
from tests.helpers.sandbox import make_sandbox, run_package, snapshot

pytestmark = [pytest.mark.sandbox, pytest.mark.both_runtimes]

HIGHEST = 480
"""Past the last number of the kernels of the day (468 in 6.18)."""

REFUSED: dict[str, tuple[int, ...]] = {
    "tracing": (101, 310, 311, 312),  # ptrace, process_vm_readv, process_vm_writev, kcmp
    "mounts": (
        165,
        166,
        155,
        161,
        428,
        429,
        430,
        431,
        432,
        433,
        442,
    ),  # mount umount2 pivot_root chroot open_tree … mount_setattr
    "bpf": (321,),
    "perf": (298,),
    "io_uring": (425, 426, 427),
    "aio": (206, 207, 208, 209, 210, 333),
    "keys": (248, 249, 250),
    "userfaultfd": (323,),
    "namespaces": (272, 308),  # unshare, setns
    "modules": (175, 313, 176, 246, 320),  # init_module finit_module delete_module kexec_load kexec_file_load
    "sockets": (
        41,
        42,
        43,
        49,
        50,
        288,
        44 + 2,
        47,
        299,
        307,
        48,
        54,
        55,
    ),  # socket connect accept bind listen accept4 sendmsg …
    "other processes": (
        434,
        424,
        438,
        440,
        448,
        141,
        203,
        144,
        142,
        314,
        251,
    ),  # pidfd_*, setpriority, sched_set*, ioprio_set
    "handles and devices": (304, 303, 133, 259),  # open_by_handle_at, name_to_handle_at, mknod, mknodat
    "files executed from memory": (319, 322, 447),  # memfd_create, execveat, memfd_secret
    "IPC": (29, 30, 31, 64, 65, 66, 68, 69, 70, 71, 240),  # shm*, sem*, msg*, mq_open
    "capabilities and identity": (
        126,
        157,
        135,
        317,
        92,
        93,
        94,
        105,
        106,
    ),  # capset prctl personality seccomp chown … setgid
    "tearing": (275, 276, 278, 326, 40, 285),  # splice tee vmsplice copy_file_range sendfile fallocate
    "the machine": (
        169,
        167,
        168,
        163,
        179,
        227,
        305,
        164,
        159,
        103,
        153,
        154,
        172,
        173,
    ),  # reboot swapon … iopl ioperm
    "watching": (253, 294, 300, 301, 212),  # inotify_init, fanotify_init, lookup_dcookie
    "memory placement": (237, 238, 256, 279, 149, 151, 216, 329, 330),  # mbind … mlock mlockall remap_file_pages pkey_*
}
"""Families that the policy names, with their numbers on x86-64."""

ASKED = {  # arguments that do no harm and meet the rules of the list
    "arch_prctl": "0x1002, libc.pthread_self()",
    "mmap": "0, 0, 0, 0x22, -1, 0",
    "futex": "-1, 1, 0",
    "madvise": "-1, 0, 4",
    "ioctl": "-1, 0x5401",
    "fcntl": "-1, 1",
    "pipe2": "-1, 0",
    "clone": "0x10000, 0",  # a thread that would share nothing: EINVAL
    "socketpair": "1, 1, -1, -1",
    "sendto": "-1, 0, 0, 0, 0, 0",
    "prlimit64": "0, -1",
    "setgroups": "0, 0",
    "restart_syscall": "0",
    "brk": "0",
}
BROKEN_RULES = {  # the same calls outside their rules, each with arguments that the kernel itself would not answer with EPERM
    "arch_prctl": "0x1003, -1",  # ARCH_GET_FS
    "mmap": "0, 0, 0, 0x40022, -1, 0",
    "futex": "-1, 6, 0",  # FUTEX_LOCK_PI
    "madvise": "-1, 0, 12",  # MADV_MERGEABLE
    "ioctl": "-1, 0x5412",  # TIOCSTI
    "fcntl": "-1, 6",  # F_SETLK
    "pipe2": "-1, 0x80",
    "clone": "0x10000 | 0x8000, 0",  # CLONE_PARENT
    "socketpair": "2, 1, -1, -1",
    "sendto": "-1, 0, 0, 0, 1, 1",
    "prlimit64": "libc.getpid(), -1",  # the caller's parent
}
EXEMPT = {335: {"EPERM", "signal 4"}, 336: {"EPERM", "ENXIO"}}
"""uretprobe and uprobe: newer kernels ask no filter about them, and outside of a probe's own trampoline they do nothing else."""

NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
KERNEL_REFUSES_TOO = {"setgroups"}
"""EPERM for the worker also where the list lets it through: it has no capability. That the supervisor may is its own start."""

BODY = """
    import ctypes, errno, mmap, os, signal

    libc = ctypes.CDLL(None, use_errno=True)
    libc.pthread_self.restype = ctypes.c_long

    def call(number, *arguments):
        ctypes.set_errno(0)
        value = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(one) for one in arguments])
        return errno.errorcode.get(ctypes.get_errno(), "?") if value == -1 else "ok"

    def in_child(work, number=0):
        r, w = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(r)
            mine = os.getpid()
            signal.setitimer(signal.ITIMER_REAL, 0.05 if number == 34 else 20)  # pause waits for that
            told = work()
            if os.getpid() == mine:
                os.write(w, told.encode())
            os._exit(0)
        os.close(w)
        told = os.read(r, 100).decode()
        os.close(r)
        status = os.waitpid(child, 0)[1]
        return told or (f"signal {{os.WTERMSIG(status)}}" if os.WIFSIGNALED(status) else "exit")

    def machine_code(code):
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write(code)
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()

    def sample(task):
        asked, broken = eval({asked!r}, {{"libc": libc}}), eval({broken!r}, {{"libc": libc}})
        if task == "outside":
            return {{number: in_child(lambda: call(number, *arguments)) for number, arguments in broken.items()}}
        every = [
            in_child(lambda: call(number, *asked.get(number, [-1] * 6)), number) if number in {alone!r} else call(number, *[-1] * 6)
            for number in range({highest})
        ]
        outside = {{number: in_child(lambda: call(number, *arguments)) for number, arguments in broken.items()}}
        return {{
            "every": every,
            "outside": outside,
            "namespaces": [in_child(lambda: call(56, flag | 17, 0, 0, 0, 0)) for flag in {namespaces!r}],
            "upper half": in_child(lambda: call(16, -1, 0x5412 | 1 << 40)),
            "x32": in_child(lambda: call(0x40000000 | 39)),
            "x32 socket": in_child(lambda: call(0x40000000 | 41, 2, 1, 0)),
            "32 bit": in_child(lambda: str(machine_code(b"\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3"))),  # getpid by int 0x80
            "32 bit refused": in_child(lambda: str(machine_code(b"\\xb8\\x29\\0\\0\\0\\xcd\\x80\\xc3"))),
            "past the end": in_child(lambda: call(100_000)),
        }}
"""


def body() -> str:
    numbers = {call.name: call.number for call in seccomp.system_calls()}
    alone = {*numbers.values(), *EXEMPT}  # may end or hold who makes them; what is refused does neither

    def source(given: dict[str, str]) -> str:
        return "{" + ", ".join(f"{numbers[name]}: ({text},)" for name, text in given.items()) + "}"

    return BODY.format(
        asked=source(ASKED), broken=source(BROKEN_RULES), highest=HIGHEST, alone=alone, namespaces=NAMESPACES
    )


@pytest.fixture(scope="module")
def told(engine: Engine, image_id: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one cell answered: the calls of all tests here."""
    root = tmp_path_factory.mktemp("calls")
    sandbox = make_sandbox(root / "home", engine)

    async def run() -> Any:
        return await run_package(sandbox, image_id, snapshot(root / "s", body()), deadline_s=60)

    value = anyio.run(run).value
    assert isinstance(value, dict)
    return value


def test_a_call_that_the_list_does_not_name_is_refused(told: dict[str, Any], runtime: Runtime) -> None:
    allowed = {call.number for call in seccomp.system_calls()}
    last = max(allowed | {seccomp.CLONE3_NUMBER})
    others = set(range(HIGHEST)) - allowed - set(EXEMPT)
    newer = expected(runtime, "newer_calls_answer")
    wanted = {number: "EPERM" if number < last else newer for number in others}
    wanted[seccomp.CLONE3_NUMBER] = "ENOSYS"
    assert {number: told["every"][number] for number in wanted} == wanted
    assert told["past the end"] == newer
    assert all(told["every"][number] in answers for number, answers in EXEMPT.items())


def test_a_call_of_the_list_is_let_through(told: dict[str, Any], runtime: Runtime) -> None:
    to_others = {
        call.name for call in seccomp.system_calls() if call.own_uid
    }  # called with another uid than the worker's
    refused = KERNEL_REFUSES_TOO | to_others | set(str(expected(runtime, "listed_calls_refused")).split())
    answers = {call.name: told["every"][call.number] for call in seccomp.system_calls()}
    assert {name for name, answer in answers.items() if answer == "EPERM"} == refused
    assert "ENOSYS" not in answers.values()


@pytest.mark.parametrize("family", REFUSED)
def test_no_call_of_the_family_is_let_through(told: dict[str, Any], family: str) -> None:
    assert {told["every"][number] for number in REFUSED[family]} <= {"EPERM", "ENOSYS"}
    assert not {call.number for call in seccomp.system_calls()} & set(REFUSED[family])


@pytest.mark.parametrize("name", BROKEN_RULES)
def test_a_call_is_refused_outside_the_arguments_that_the_list_lets_through(told: dict[str, Any], name: str) -> None:
    (number,) = [call.number for call in seccomp.system_calls() if call.name == name]
    assert told["outside"][number] == "EPERM"


@pytest.mark.runc_only("about the list itself, without a cell")
def test_every_rule_but_one_is_tried_from_outside() -> None:
    with_rules = {call.name for call in seccomp.system_calls() if call.rules}
    assert with_rules - set(BROKEN_RULES) == KERNEL_REFUSES_TOO


@pytest.mark.runc_only("a control: it is the host's kernel that would answer")
@pytest.mark.anyio
async def test_without_the_rules_the_kernel_would_answer_those_calls_with_another_error(
    engine: Engine, image_id: str, tmp_path: Path
) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine, runtime="runc")
    profile = json.loads(seccomp.text("runc"))
    for rule in profile["syscalls"]:
        rule.pop("args", None)
    policy = sandbox.policy("run", "runc").with_seccomp(json.dumps(profile))
    story = await run_package(
        sandbox, image_id, snapshot(tmp_path / "s", body()), task="outside", policy=policy, deadline_s=60
    )
    assert "EPERM" not in story.value.values()
    assert len(story.value) == len(BROKEN_RULES)


def test_no_namespace_can_be_made_with_clone(told: dict[str, Any]) -> None:
    assert told["namespaces"] == ["EPERM"] * len(NAMESPACES)


def test_the_upper_half_of_an_argument_does_not_get_past_a_rule(told: dict[str, Any]) -> None:
    assert told["upper half"] == "EPERM"


def test_calls_of_other_architectures_are_refused_or_filtered(told: dict[str, Any], runtime: Runtime) -> None:
    answers = {name: told[name] for name in ("x32", "x32 socket", "32 bit", "32 bit refused")}
    if expected(runtime, "foreign_calls_answer") == "killed":
        assert answers == dict.fromkeys(answers, "signal 31")  # SIGSYS
    else:
        bad_descriptor, not_permitted = str(-errno.EBADF), str(-errno.EPERM)  # of the 64-bit calls writev and socket
        assert answers == dict(zip(answers, ("EPERM", "EPERM", bad_descriptor, not_permitted), strict=True))


@pytest.mark.runc_only("a control on the host, without a cell")
def test_the_32_bit_call_that_is_refused_in_a_cell_works_on_this_machine() -> None:
    """The control of the test before: without it, a kernel without 32-bit calls would pass too."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\0\0\0\xcd\x80\xc3")
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))() != os.getpid())
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.anyio
async def test_the_standard_library_and_pytest_work_under_the_list(
    engine: Engine, image_id: str, tmp_path: Path
) -> None:
    sandbox = make_sandbox(tmp_path / "home", engine)
    story = await run_package(sandbox, image_id, standard_library.package(tmp_path / "s"), deadline_s=100)
    assert story.value == dict.fromkeys(standard_library.STEPS, "ok")
    assert "told" in story.files
