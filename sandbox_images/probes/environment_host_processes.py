"""See a process of the host in any /proc there is."""

from pathlib import Path

from _kernel import NothingFound, parameter

GROUP = "environment"
EXPECT = "NothingFound"
WHY = "What runs on the host, and its environment, is the host's."


def attempt() -> str:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith("proc "):
            place = Path(before.split(" ")[4])
            if _is_host(place):
                return f"saw the orchestrator in {place}"
    raise NothingFound("no process of the host")


def _is_host(place: Path) -> bool:
    """The orchestrator is the process that has the canary's name in its command line or keeps its number and is no child of ours."""
    try:
        text = (place / str(parameter("host_pid")) / "status").read_text()
    except OSError:
        return False
    return "NSpid" in text and text.partition("NSpid:")[2].split("\n")[0].split() == [str(parameter("host_pid"))]
