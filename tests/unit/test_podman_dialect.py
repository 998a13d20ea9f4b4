"""What Podman 4.3.1 shows of a cell, as recorded from its socket, translated as far as it is what was asked for and no further."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.sandbox import podman, readback
from engine.sandbox.docker import EngineVersion
from engine.sandbox.engine_errors import RuntimeMissing
from engine.sandbox.policy import CellPolicy
from engine.settings import Settings

RECORDED = Path(__file__).parents[1] / "fixtures" / "podman"
Change = Callable[[dict[str, Any]], Any]


@pytest.fixture
def policy(tmp_path: Path) -> CellPolicy:
    return podman.adapted(CellPolicy.from_settings(Settings(home=tmp_path), "runc", "run").with_user(0, 0))


@pytest.fixture
def profile(tmp_path: Path, policy: CellPolicy) -> Path:
    path = tmp_path / podman.PROFILE
    podman.request(asked_of(policy), path)
    return path


def asked_of(policy: CellPolicy) -> dict[str, Any]:
    return policy.container(
        image_id="sha256:1", inbox=Path("/h/in"), outbox=Path("/h/out"), labels={"io.cloche.home": "h"}
    )


def recorded(name: str, profile: Path) -> dict[str, Any]:
    text = (RECORDED / f"{name}.json").read_text().replace("/h/seccomp.json", str(profile))
    told = json.loads(text)
    assert isinstance(told, dict)
    return told


def found(policy: CellPolicy, shown: dict[str, Any], profile: Path) -> tuple[str, ...]:
    asked = asked_of(policy)
    return readback.differences(asked, podman.as_docker(asked, shown, profile))


def test_a_container_made_as_asked_has_no_difference(policy: CellPolicy, profile: Path) -> None:
    assert found(policy, recorded("4.3.1-root", profile), profile) == ()


def test_untranslated_it_would_have_many(policy: CellPolicy, profile: Path) -> None:
    assert len(readback.differences(asked_of(policy), recorded("4.3.1-root", profile))) > 10


OTHERWISE: dict[str, tuple[str, Change]] = {
    "a capability more": ("CapDrop", lambda h: h["CapDrop"].remove("CHOWN")),
    "a capability added": ("CapAdd", lambda h: h.update(CapAdd=["SYS_ADMIN"])),
    "nothing dropped": ("CapDrop", lambda h: h.update(CapDrop=[])),
    "a mount more": ("Binds", lambda h: h["Binds"].append("/etc:/host:ro,rprivate,bind")),
    "a mount less": ("Binds", lambda h: h["Binds"].pop()),
    "a writable inbox": ("Binds", lambda h: h.update(Binds=[b.replace(":ro,", ":rw,") for b in h["Binds"]])),
    "a shared mount": ("Binds", lambda h: h.update(Binds=[b.replace("rprivate", "rshared") for b in h["Binds"]])),
    "a tmpfs more": ("Tmpfs", lambda h: h["Tmpfs"].update({"/var": "rw,rprivate,nosuid,nodev,tmpcopyup"})),
    "a writable /run": ("Tmpfs", lambda h: h["Tmpfs"].update({"/run": "rw,rprivate,nosuid,nodev,tmpcopyup"})),
    "another size": ("Tmpfs", lambda h: h["Tmpfs"].update({"/tmp": h["Tmpfs"]["/tmp"].replace("67108864", "9")})),
    "executable /tmp": ("Tmpfs", lambda h: h["Tmpfs"].update({"/tmp": h["Tmpfs"]["/tmp"].replace("noexec,", "")})),
    "another bound": ("Ulimits", lambda h: h["Ulimits"][0].update(Hard=99_999)),
    "no bounds": ("Ulimits", lambda h: h.update(Ulimits=[])),
    "another profile": ("SecurityOpt", lambda h: h.update(SecurityOpt=["no-new-privileges", "seccomp=/else"])),
    "no profile": ("SecurityOpt", lambda h: h.update(SecurityOpt=["no-new-privileges"])),
    "new privileges": ("SecurityOpt", lambda h: h["SecurityOpt"].remove("no-new-privileges")),
    "the host's pids": ("PidMode", lambda h: h.update(PidMode="host")),
    "the host's names": ("UTSMode", lambda h: h.update(UTSMode="host")),
    "the host's IPC": ("IpcMode", lambda h: h.update(IpcMode="host")),
    "the host's network": ("NetworkMode", lambda h: h.update(NetworkMode="host")),
    "more CPU": ("CpuQuota", lambda h: h.update(CpuQuota=200_000)),
    "another runtime": ("Runtime", lambda h: h.update(Runtime="krun")),
    "another log": ("LogConfig", lambda h: h.update(LogConfig={"Type": "journald", "Config": None})),
    "privileged": ("Privileged", lambda h: h.update(Privileged=True)),
    "other masks": ("MaskedPaths", lambda h: h.update(MaskedPaths=["/proc/keys"])),
}


@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_shown_otherwise_stays_a_difference(policy: CellPolicy, profile: Path, name: str) -> None:
    field, change = OTHERWISE[name]
    shown = recorded("4.3.1-root", profile)
    change(shown["HostConfig"])
    assert any(one.startswith(f"HostConfig.{field}:") for one in found(policy, shown, profile))


def test_a_profile_that_was_changed_on_its_way_is_a_difference(policy: CellPolicy, profile: Path) -> None:
    profile.write_text(profile.read_text().replace('"execve"', '"execve","ptrace"'))
    assert [one.partition(":")[0] for one in found(policy, recorded("4.3.1-root", profile), profile)] == [
        "HostConfig.SecurityOpt"
    ]


def test_the_limits_that_a_rootless_engine_drops_have_their_own_error(policy: CellPolicy, profile: Path) -> None:
    differences = found(policy, recorded("4.3.1-rootless", profile), profile)
    names = {one.partition(":")[0].removeprefix("HostConfig.") for one in differences}
    assert {"Memory", "MemorySwap", "PidsLimit", "NanoCpus", "Ulimits"} <= names
    assert readback.refusal(differences).code == "limits_ignored"
    assert readback.refusal(("HostConfig.Tmpfs: asked for a, got b",)).code == "policy_mismatch"


def test_the_policy_for_this_socket_leaves_out_two_things_and_states_what_podman_adds(tmp_path: Path) -> None:
    full = CellPolicy.from_settings(Settings(home=tmp_path), "runc", "run")
    fitted = podman.adapted(full)
    assert podman.adapted(fitted) == fitted
    assert {name for name, _ in fitted.environment} - {name for name, _ in full.environment} == {
        *("HOSTNAME", "TERM", "container")
    }
    tmpfs = dict(fitted.tmpfs)
    assert tmpfs["/tmp"] == dict(full.tmpfs)["/tmp"].replace("nr_inodes=16384,", "")
    assert all(tmpfs[path].startswith("ro,size=") for path in ("/run", "/var/tmp", "/dev"))
    assert (full.cgroup_namespace, fitted.cgroup_namespace) == ("private", "")


def test_a_runtime_that_cannot_be_chosen_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeMissing, match="does not let a client choose"):
        podman.adapted(CellPolicy.from_settings(Settings(home=tmp_path), "runsc", "run"))


def test_podman_is_known_by_its_own_word() -> None:
    def version(*components: str) -> EngineVersion:
        return EngineVersion("4.3.1", (1, 41), (1, 24), "linux", "amd64", components=components)

    assert podman.speaks(version("Podman Engine", "Conmon"))
    assert not podman.speaks(version("Engine", "containerd", "runc"))
    assert not podman.speaks(version())
