"""Debian packages that an engine needs, installed when missing. Standard library only."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from places import EngineTrouble


def install(package: str, *, instead: str) -> None:
    """One package from Debian, without its recommendations; `instead` says what to do where that cannot be done.

    Raises:
        EngineTrouble: not Debian, not root, or apt-get could not.
    """
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise EngineTrouble(instead)
    print(f"cloche: installing {package}", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    if not under_systemd():
        environment["RUNLEVEL"] = "1"  # keeps the package from starting an engine with a bridge and firewall rules
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:  # the package lists are absent or too old
        subprocess.run(["apt-get", "update", "-qq"], env=environment, stdin=subprocess.DEVNULL, capture_output=True)
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise EngineTrouble(f"apt-get could not install {package}: {done.stderr.strip()[-500:]}")


def under_systemd() -> bool:
    return Path("/run/systemd/system").is_dir()
