"""PID 1 of a cell. Handshake and attestation before any untrusted code exists, then one job, then the last word.

Our code, read-only, uid 0 with the rights to change identity and to kill and nothing else. It ignores signals, reaps, keeps the
deadline, and is the only one that speaks to the host (docs/reference/protocol.md). Started as a script; it puts the guest on
the path itself, since the interpreter runs with -P and -S.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from cloche_guest import attest
from cloche_guest.children import CHANNEL, Child, Rights, run_to_end, spawn
from cloche_guest.control import Control, Ended, HostGone, Paths
from cloche_guest.link import HostBroke, Received

if TYPE_CHECKING:
    from cloche_guest.gate import Cases

HELLO_S = 30.0
ACKNOWLEDGED_S = 5.0
DONE, FAILED, BROKEN, ALONE = 0, 70, 71, 75

_LIMITS = {
    "processes",
    "open_files",
    "file_bytes",
    "output_bytes",
    "output_files",
    "output_files_bytes",
    "message_bytes",
    "messages",
    "value_bytes",
}


def serve(paths: Paths, *, hello_s: float = HELLO_S) -> int:
    """One cell from hello to the acknowledged end; gives the exit code (docs/reference/protocol.md)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    control = Control(paths)
    try:
        hello = _wait_for(control, "hello", hello_s)
        if hello is None:
            return ALONE
        limits = _limits(hello)
        rights = Rights(
            hello["uid"] if paths.drop else None, limits["processes"], limits["open_files"], limits["file_bytes"]
        )
        _greet(control, hello.pop("nonce"), rights)
        _job(control, hello, limits, rights)
        control.await_acknowledgement(ACKNOWLEDGED_S)
    except HostBroke as error:
        print(f"the host broke the exchange: {error}", file=sys.stderr)
        return BROKEN
    except HostGone as error:
        print(error, file=sys.stderr)
        return ALONE
    except Exception:
        sys.excepthook(*sys.exc_info())
        return FAILED
    return DONE


def _limits(hello: dict[str, Any]) -> dict[str, int]:
    limits = hello["limits"]
    if set(limits) != _LIMITS or not all(type(value) is int and value >= 0 for value in limits.values()):
        raise HostBroke("frame.bad_field: hello.limits")
    return limits  # type: ignore[no-any-return]


def _wait_for(
    control: Control, kind: str, timeout_s: float, parts: dict[int, Received] | None = None
) -> Received | None:
    """The next frame of the host, which must be of this kind; announced values before it go to `parts`."""
    until = time.monotonic() + timeout_s
    quick_until = time.monotonic() + 1.0
    while time.monotonic() < until:
        due = not control.is_rung and time.monotonic() < quick_until
        frames = control.turn({}, due=due, jobless=True)
        for number, frame in enumerate(frames, 1):
            if frame["t"] == "part" and parts is not None:
                parts[frame["id"]] = frame
            elif frame["t"] == kind:
                control.keep(frames[number:])
                return frame
            else:
                raise HostBroke(f"frame.out_of_order: {frame['t']} where {kind} was due")
    return None


def _greet(control: Control, nonce: str, rights: Rights) -> None:
    """Answer the hello. The nonce lives no longer than this: the worker is forked from this process."""
    paths = control.paths

    def look() -> int:
        attest.send_worker_view(CHANNEL, paths.incoming, paths.outgoing)
        return 0

    code, seen = run_to_end(look, rights=rights, limit_bytes=64 * 1024, timeout_s=10)
    if code:
        raise RuntimeError(f"the child that looks at the worker's rights ended with {code}")
    control.writer.generation = control.reader.generation or 0
    attestation = attest.attestation(json.loads(seen), guest_root=paths.guest)
    control.send("hello", nonce=nonce, attestation=attestation)


def _job(control: Control, hello: dict[str, Any], limits: dict[str, int], rights: Rights) -> None:
    """Wait for the job and do it, up to and including `end`."""
    from cloche_guest.running import Run

    waiting = _preload(hello["kind"], control, limits, rights)
    parts: dict[int, Received] = {}
    cases: Cases | None = None
    try:
        frame = _wait_for(control, "job", hello["wait_s"], parts)
        if frame is None:
            _end(control, rights, cases, "deadline", "no_job")
            return
        control.writer.generation = control.reader.generation or 0
        control.reaper.collect()
        if (
            control.reaper.status is not None
        ):  # killed while it waited: nothing is known of the program, which never began
            raise RuntimeError("the worker ended before it had a job")
        job = frame["job"]
        control.deadline = time.monotonic() + _number(job, "deadline_s")
        control.acknowledge()
        if waiting is not None and job.get("kind") != "run":
            control.reaper.end_all()
            waiting.close()
        match job.get("kind"):
            case "run":
                run = Run(control, limits=limits, rights=rights, parts=parts)
                run.run(waiting or _worker(control, limits, rights), frame)
            case "gate":
                import cloche_guest.cases

                cases = _cases(control, job, rights)
                cloche_guest.cases.preload(control.paths)
                cases.run([partial(cloche_guest.cases.run_case, job, case, control.paths) for case in job["cases"]])
            case "probe":
                import cloche_guest.attempt
                import cloche_guest.cases

                cases = _cases(control, job, rights)
                cloche_guest.attempt.preload()
                cases.run([partial(cloche_guest.cases.run_probe, name, control.paths) for name in job["attempts"]])
            case kind:
                raise HostBroke(f"frame.bad_field: job.kind {str(kind)[:40]}")
    except Ended as ended:
        _end(control, rights, cases, ended.cause, ended.detail)
    except (KeyError, TypeError) as error:
        raise HostBroke(f"frame.bad_field: job: {error!r}") from error


def _end(control: Control, rights: Rights, cases: Cases | None, cause: str, detail: str) -> None:
    """The last word of a cell that has no run, or none any more."""
    from cloche_guest.gate import Cases

    cases = cases or Cases(control, rights=rights, case_timeout_s=0, output_bytes=0)
    cases.end(cause, detail, 128 + signal.SIGKILL)


def _preload(kind: str, control: Control, limits: dict[str, int], rights: Rights) -> Child | None:
    """Load what a job of this kind needs, all of it ours, while the host looks at the attestation or before it has a job at all.

    For a run that includes the worker, forked and without rights, up to the point where it needs the job.
    """
    import cloche_guest.running
    import cloche_guest.worker
    import cloche_guest.world

    if kind == "gate":
        import cloche_guest.cases

        cloche_guest.cases.preload(control.paths)
    cloche_guest.world.look_around()
    gc.collect()
    gc.freeze()
    return _worker(control, limits, rights) if kind == "run" else None


def _worker(control: Control, limits: dict[str, int], rights: Rights) -> Child:
    from cloche_guest import worker

    child = spawn(partial(worker.run, control.paths, value_bytes=limits["value_bytes"]), rights=rights)
    control.reaper.watch(child.pid)
    return child


def _cases(control: Control, job: dict[str, Any], rights: Rights) -> Cases:
    from cloche_guest.gate import Cases

    return Cases(
        control,
        rights=rights,
        case_timeout_s=_number(job, "case_timeout_s"),
        output_bytes=int(_number(job, "output_bytes")),
    )


def _number(job: dict[str, Any], name: str) -> float:
    value = job[name]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
        raise HostBroke(f"frame.bad_field: job.{name}")
    return float(value)


if __name__ == "__main__":
    code = serve(Paths())
    sys.stderr.flush()
    os._exit(code)  # the host waits for this process to be gone, and there is nothing to take apart
