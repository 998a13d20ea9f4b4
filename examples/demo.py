"""The main job, shown: validate, test, publish, run, interrupt, resume, refuse. Run by `make demo`.

Drives the command line as a person would, in the home that `cloche` uses, and checks what each command answered. Ends with a
summary, and exit 1 if anything was not as expected. Inputs are made once, below `.cache/demo`.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent
ROOT = EXAMPLES.parent
CLOCHE = Path(sys.executable).parent / "cloche"
INPUTS = ROOT / ".cache" / "demo"
REFUSED = ("invalid_package", "failing_test", "reaches_out")
SHOWN = 11
"""Lines shown of each end of a long output."""

WIDTH = 120

PACKAGES = ("requirements_parse", "dependency_review", "log_triage", "weekly_report")


@dataclass
class Answer:
    """What a command left: exit code and both streams."""

    code: int
    stdout: str
    stderr: str

    @property
    def data(self) -> dict:
        return json.loads(self.stdout)


@dataclass
class Story:
    """Says what happens and keeps what was found."""

    findings: list[tuple[bool, str]] = field(default_factory=list)

    def chapter(self, title: str) -> None:
        print(f"\n── {title} " + "─" * max(4, 96 - len(title)), flush=True)

    def found(self, good: bool, what: str) -> None:
        self.findings.append((good, what))
        print(f"   {'✓' if good else '✗'} {what}", flush=True)


def call(*words: str, show: bool = True) -> Answer:
    """Run one `cloche` command; `show` prints it and what it prints."""
    if show:
        print(f"\n$ cloche {' '.join(shorter(word) for word in words)}", flush=True)
    done = subprocess.run(
        [CLOCHE, *words], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, cwd=ROOT
    )
    if show:
        for text in (done.stdout, done.stderr):
            print("".join(f"  {line}\n" for line in clipped(text)), end="", flush=True)
    return Answer(done.returncode, done.stdout, done.stderr)


def clipped(text: str) -> list[str]:
    """The lines of a long output with its middle left out, as a transcript shows them."""
    lines = [shorter(line) for line in text.splitlines()]
    lines = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines]
    if len(lines) <= 2 * SHOWN:
        return lines
    return [*lines[:SHOWN], f"… {len(lines) - 2 * SHOWN} more lines …", *lines[-SHOWN:]]


def shorter(text: str) -> str:
    """Paths of this checkout relative, so that the transcript reads the same everywhere."""
    return text.replace(f"{ROOT}/", "")


def publish(story: Story) -> None:
    """Validate, test and publish the examples; what is published already, unchanged, is left alone."""
    story.chapter("Publish the examples: validated, tested in a cell, committed")
    valid = call("workflows", "validate", str(EXAMPLES / PACKAGES[0]))
    story.found(valid.code == 0, f"{PACKAGES[0]} keeps the contract; no test was run for that")
    for name in PACKAGES:
        directory = str(EXAMPLES / name)
        done = call("workflows", "publish", directory, "--replace")
        unchanged = done.code == 4 and "unchanged" in done.stderr
        story.found(
            done.code == 0 or unchanged,
            f"{name} {'is published already, with these bytes and pins' if unchanged else 'passed its gate and is published'}",
        )


def triage(story: Story, logs: Path) -> None:
    """Run log_triage on 50 MB, interrupt a second run half-way and resume it."""
    story.chapter("Run log_triage on 50 MB of logs")
    first = call("workflows", "run", "log_triage", "--workspace", str(logs), "--json", show=False).data
    call("runs", "show", first["run_id"])
    story.found(
        first["status"] == "completed",
        f"log_triage completed: {first['counts']['executed']} calls executed and recorded",
    )

    story.chapter("Interrupt a run half-way, and resume it")
    run_id = interrupted(logs)
    before = call("runs", "show", run_id, "--json", show=False).data
    story.found(
        before["status"] == "interrupted",
        f"{run_id} was interrupted after {before['counts']['completed']} completed calls",
    )
    print(f"\n$ cloche runs resume {run_id}")
    after = call("runs", "resume", run_id, "--json", show=False).data
    replayed, executed = after["counts"]["replayed"], after["counts"]["executed"]
    print(f"  {after['status']}: {replayed} calls replayed, {executed} executed in this generation")
    story.found(
        after["status"] == "completed" and replayed >= before["counts"]["completed"] > 0,
        f"it was resumed: {replayed} calls replayed, {executed} executed",
    )
    story.found(after["value"] == first["value"], "its result equals that of the run that was never interrupted")


def interrupted(logs: Path) -> str:
    """Start a run, press Ctrl-C when some calls are recorded, return its id."""
    print("\n$ cloche workflows run log_triage --workspace …   (Ctrl-C after 40 calls)", flush=True)
    known = {run["run_id"] for run in call("runs", "list", "--json", show=False).data["runs"]}
    process = subprocess.Popen(
        [CLOCHE, "workflows", "run", "log_triage", "--workspace", str(logs)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, cwd=ROOT,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    pressed = False
    while process.poll() is None and time.monotonic() < deadline and not pressed:
        time.sleep(0.2)
        for run in call("runs", "list", "--json", show=False).data["runs"]:
            if run["run_id"] not in known and run["counts"]["completed"] >= 40:
                process.send_signal(signal.SIGINT)
                pressed = True
    _, told = process.communicate(timeout=60)
    print("".join(f"  {shorter(line)}\n" for line in told.splitlines()), end="")
    listed = call("runs", "list", "--json", show=False).data["runs"]
    return next(run["run_id"] for run in listed if run["run_id"] not in known)


def review(story: Story, requirements: Path) -> None:
    """Run dependency_review, which calls another published workflow, on Cloche's own files and on defective variants."""
    story.chapter("Review dependencies, with a pinned workflow as a dependency")
    done = call("workflows", "run", "dependency_review", "--workspace", str(requirements), "--json", show=False)
    call("runs", "show", done.data["run_id"])
    story.found(
        done.data["status"] == "completed",
        "dependency_review completed, calling requirements_parse at its pinned revision",
    )


def report(story: Story, facts: Path) -> None:
    """Run weekly_report with a scripted model."""
    story.chapter("Write a weekly report with a scripted model")
    model = f"scripted:{EXAMPLES / 'weekly_model.toml'}"
    done = call(
        "workflows",
        "run",
        "weekly_report",
        "2026-W48",
        "--workspace",
        str(facts),
        "--model",
        model,
        "--json",
        show=False,
    )
    call("runs", "show", done.data["run_id"])
    story.found(
        done.data["status"] == "completed", "weekly_report completed; its prose came from a script, and the run says so"
    )


def refusals(story: Story) -> None:
    """Three packages that Cloche must not publish."""
    story.chapter("Refuse what must be refused")
    for name, words, told in (
        ("invalid_package", "breaks the contract", "is no valid package"),
        ("failing_test", "has a test that fails", "1 of 2 cases did not pass"),
        ("reaches_out", "tries to reach out of its cell", "attempts were blocked"),
    ):
        done = call("workflows", "publish", str(EXAMPLES / "refused" / name))
        refused = done.code == 1 and told in done.stdout + done.stderr
        story.found(refused, f"{name} {words}: refused")
    listed = {entry["workflow_id"] for entry in call("workflows", "list", "--json", show=False).data["workflows"]}
    story.found(
        listed >= set(PACKAGES) and not listed & set(REFUSED),
        "the catalog holds the four packages and none of the refused",
    )


def main() -> int:
    """Tell the whole story; 0 when everything was as expected."""
    started = time.monotonic()
    sys.path.insert(0, str(ROOT))
    from engine.settings import load
    from examples import inputs

    story = Story()
    story.chapter("Is everything there?")
    story.found(call("doctor").code == 0, "the engine answers, the image is there, a trial cell passed its attestation")
    made = inputs.ensure(INPUTS)
    publish(story)
    triage(story, made.logs)
    review(story, made.requirements)
    report(story, made.weekly)
    refusals(story)
    story.chapter("What happened")
    for good, what in story.findings:
        print(f"   {'✓' if good else '✗'} {what}")
    wrong = sum(not good for good, _ in story.findings)
    print(f"\n{len(story.findings)} findings, {wrong} not as expected, {time.monotonic() - started:.0f} s.")
    print(f"Records are in {load().home}: `cloche runs list`.")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
