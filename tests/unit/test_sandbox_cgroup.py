"""cgroup files of both versions, as they were read on real machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.sandbox.cgroup import Cgroup, Counters, LimitsInForce

ID = "a" * 64

V1 = {
    "memory/docker/ID/memory.limit_in_bytes": "536870912",
    "memory/docker/ID/memory.memsw.limit_in_bytes": "536870912",
    "memory/docker/ID/memory.max_usage_in_bytes": "14356480",
    "memory/docker/ID/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3",
    "pids/docker/ID/pids.max": "160",
    "pids/docker/ID/pids.current": "2",
    "pids/docker/ID/pids.events": "max 5",
    "cpu/docker/ID/cpu.cfs_quota_us": "100000",
    "cpu/docker/ID/cpu.cfs_period_us": "100000",
    "cpu/docker/ID/cpu.stat": "nr_periods 17\nnr_throttled 15\nthrottled_time 1500000000",
    "cpuacct/docker/ID/cpuacct.usage": "250000000",
}
V1_PROC = "\n".join(
    f"{n}:{name}:/docker/ID" for n, name in enumerate(("pids", "memory", "cpu,cpuacct", "name=systemd"))
)

V2 = {
    "system.slice/docker-ID.scope/memory.max": "536870912",
    "system.slice/docker-ID.scope/memory.swap.max": "0",
    "system.slice/docker-ID.scope/memory.peak": "14356480",
    "system.slice/docker-ID.scope/memory.events": "low 0\nhigh 0\nmax 9\noom 3\noom_kill 3",
    "system.slice/docker-ID.scope/pids.max": "160",
    "system.slice/docker-ID.scope/pids.peak": "2",
    "system.slice/docker-ID.scope/pids.events": "max 5",
    "system.slice/docker-ID.scope/cpu.max": "100000 100000",
    "system.slice/docker-ID.scope/cpu.stat": "usage_usec 250000\nnr_throttled 15\nthrottled_usec 1500000",
}
V2_PROC = "0::/system.slice/docker-ID.scope"


def lay_out(root: Path, files: dict[str, str], proc: str) -> tuple[Path, Path]:
    for name, text in files.items():
        path = root / "cgroup" / name.replace("ID", ID)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    (root / "proc" / "42").mkdir(parents=True)
    (root / "proc" / "42" / "cgroup").write_text(proc.replace("ID", ID) + "\n")
    return root / "cgroup", root / "proc"


@pytest.mark.parametrize(("files", "proc"), [(V1, V1_PROC), (V2, V2_PROC)], ids=["v1", "v2"])
def test_limits_and_counters_are_read_from_either_version(tmp_path: Path, files: dict[str, str], proc: str) -> None:
    root, processes = lay_out(tmp_path, files, proc)
    found = Cgroup.find(42, ID, root=root, proc=processes)
    assert found is not None
    assert found.limits() == LimitsInForce(536870912, 536870912, 160, 1.0)
    assert found.sample() == Counters(3, 5, 14356480, 2, 0.25, 1.5)
    found.close()


def test_no_limit_is_none(tmp_path: Path) -> None:
    files = {
        **V1,
        "memory/docker/ID/memory.limit_in_bytes": "9223372036854771712",
        "memory/docker/ID/memory.memsw.limit_in_bytes": "9223372036854771712",
        "pids/docker/ID/pids.max": "max",
        "cpu/docker/ID/cpu.cfs_quota_us": "-1",
    }
    root, processes = lay_out(tmp_path, files, V1_PROC)
    found = Cgroup.find(42, ID, root=root, proc=processes)
    assert found is not None
    assert found.limits() == LimitsInForce(None, None, None, None)
    found.close()


def test_a_process_that_is_not_the_containers_is_not_believed(tmp_path: Path) -> None:
    root, processes = lay_out(tmp_path, V1, V1_PROC)
    assert Cgroup.find(42, "b" * 64, root=root, proc=processes) is None
    assert Cgroup.find(43, ID, root=root, proc=processes) is None


def test_a_cgroup_that_went_away_gives_no_counters(tmp_path: Path) -> None:
    root, processes = lay_out(tmp_path, V1, V1_PROC)
    found = Cgroup.find(42, ID, root=root, proc=processes)
    (root / "pids" / "docker" / ID / "pids.events").unlink()
    assert found is not None
    assert found.sample() is None
    found.close()


def test_merging_loses_no_high_mark() -> None:
    early, late = Counters(1, 0, 100, 9, 0.5, None), Counters(0, 2, 50, 3, 0.7, 0.1)
    assert early.merged(late) == late.merged(early) == Counters(1, 2, 100, 9, 0.7, 0.1)
