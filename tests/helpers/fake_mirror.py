"""A Debian mirror in a directory: an `apt-get` and an `apt-cache` that serve files, beside the machine's own dpkg."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.proc import run
from sandbox_images.debs import DEBIAN_ENV

APT_GET = """#!/bin/sh
# apt-get [options] download NAME[=VERSION]... | update
mirror={root}/mirror
echo "$@" >>{root}/calls
for word; do
    case "$word" in
    update) cp {root}/news/* "$mirror"/ 2>/dev/null; exit 0 ;;
    --*|-o|APT::*|download) continue ;;
    *=*) file="${{word%%=*}}_$(echo "${{word#*=}}" | sed s/:/%3a/g)_*.deb" ;;
    *) file="${{word}}_*.deb" ;;
    esac
    cp "$mirror"/$file . 2>/dev/null || {{ echo "E: Version of '$word' was not found" >&2; exit 100; }}
done
"""
APT_CACHE = """#!/bin/sh
# apt-cache show NAME=VERSION
file="${{2%%=*}}_$(echo "${{2#*=}}" | sed s/:/%3a/g)_*.deb"
set -- {root}/mirror/$file
if [ -e "$1" ]; then printf 'Package: x\\nSHA256: 0\\n'; fi
"""


@dataclass(frozen=True)
class FakeMirror:
    """`mirror/` is what is offered, `news/` what an update adds to it, `calls` what was asked of apt-get."""

    root: Path

    @property
    def env(self) -> Mapping[str, str]:
        return {**DEBIAN_ENV, "PATH": f"{self.root}/bin:{DEBIAN_ENV['PATH']}"}

    def calls(self) -> list[str]:
        """The verb and the packages of each call of apt-get, in order."""
        file = self.root / "calls"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.partition("false ")[2] or line.rpartition(" ")[2] for line in lines]

    def offer(self, name: str, version: str, *, where: str = "mirror", content: str = "") -> Path:
        """Put a package with one file into the mirror and return its place."""
        tree = self.root / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        (tree / "DEBIAN").mkdir(parents=True)
        fields = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: none\nDescription: test\n"
        (tree / "DEBIAN" / "control").write_text(fields)
        (tree / "usr").mkdir()
        (tree / "usr" / name).write_text(content or version)
        place = self.root / where / f"{name}_{version.replace(':', '%3a')}_all.deb"
        run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", str(tree), str(place)], env=DEBIAN_ENV)
        return place


def fake_mirror(root: Path) -> FakeMirror:
    """An empty mirror in the directory `root`."""
    for name in ("bin", "mirror", "news"):
        (root / name).mkdir(parents=True)
    for name, script in (("apt-get", APT_GET), ("apt-cache", APT_CACHE)):
        place = root / "bin" / name
        place.write_text(script.format(root=root))
        place.chmod(0o755)
    return FakeMirror(root)
