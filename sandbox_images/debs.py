"""Debian packages as files: fetched by the machine's own apt, checked, kept.

Owns the cache of `.deb` files and every call to apt and dpkg. apt checks the mirror's signatures; the lock's SHA-256
is checked here in addition, for cached files too. Refuses to install anything: nothing on the host changes but apt's
own package lists, and those only after a first download has failed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.errors import SandboxUnavailable
from engine.files import lock, make_directory, remove_tree, sha256_hex, storage
from engine.proc import ProcessFailed, run
from sandbox_images.lockfile import Lock, LockedPackage

TOOLS = ("apt-get", "apt-cache", "dpkg", "dpkg-deb")
DEBIAN_ENV: Mapping[str, str] = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
"""apt and dpkg live in fixed places; a proxy belongs into apt's own configuration."""

DOWNLOAD_TIMEOUT_S = 600.0
ASIDE = ".fetch-"


class BuilderUnavailable(SandboxUnavailable):
    """This machine cannot build the image: it is no Debian, or of another architecture than the lock."""

    code = "image_builder_unavailable"


class LockedVersionGone(SandboxUnavailable):
    """The mirror no longer has a locked version. `packages` are the ones missing."""

    code = "image_locked_version_gone"

    def __init__(self, packages: Sequence[LockedPackage]) -> None:
        named = ", ".join(f"{package.name} {package.version}" for package in packages)
        super().__init__(
            f"the Debian mirror no longer has {named}, which the image lock names.",
            fix="Run `cloche image lock --update`, which shows what changes, then build again.",
        )
        self.packages = tuple(packages)


class DownloadFailed(SandboxUnavailable):
    """apt could not download: no network, no mirror, or no such package at all."""

    code = "image_download_failed"


class DebAltered(SandboxUnavailable):
    """A downloaded package has other bytes than the lock says. It was discarded."""

    code = "image_deb_altered"


@dataclass(frozen=True)
class Debian:
    """apt and dpkg of this machine, and the directory in which downloaded packages are kept (created, 0700)."""

    cache: Path
    architecture: str
    env: Mapping[str, str]

    def fetch_locked(self, wanted: Lock) -> tuple[Path, ...]:
        """The files of the locked packages, in the lock's order, each with the locked SHA-256.

        Raises:
            BuilderUnavailable: the lock is for another architecture.
            LockedVersionGone: the mirror has no such version any more; names every one.
            DownloadFailed: apt failed otherwise.
            DebAltered: what was downloaded is not what was locked.
        """
        if wanted.architecture != self.architecture:
            raise BuilderUnavailable(
                f"the image lock is for {wanted.architecture} and this machine is {self.architecture}.",
                fix="Run `cloche image lock --update` here, or give an image with Python and pytest by `--base IMAGE`.",
            )
        missing = [package for package in wanted.package if not self._has(package)]
        if missing:
            self._download_locked(missing)
        return tuple(self.cache / package.file_name for package in wanted.package)

    def fetch_current(self, names: Sequence[str], *, refresh: bool = False) -> tuple[LockedPackage, ...]:
        """The mirror's current version of each package, downloaded into the cache, ordered by name.

        `refresh` updates apt's lists first; otherwise only when a download fails.

        Raises:
            DownloadFailed: apt failed, also after an update of its lists.
        """
        if refresh:
            self._refresh()
        with self._aside() as aside:
            failed = self._apt_download(names, aside)
            if failed is not None and not refresh:
                self._refresh()
                failed = self._apt_download(names, aside)
            if failed is not None:
                raise download_failed(failed)
            found = [(self._identify(file), file) for file in aside.glob("*.deb")]
            for package, file in found:
                file.replace(self.cache / package.file_name)
        return tuple(sorted((package for package, _ in found), key=lambda package: package.name))

    def unpack(self, deb: Path) -> bytes:
        """The tar of the files inside a package."""
        return run(["dpkg-deb", "--fsys-tarfile", str(deb)], env=self.env).stdout

    def _has(self, package: LockedPackage) -> bool:
        """Whether the cache holds these very bytes; a file of that name with other bytes is removed."""
        file = self.cache / package.file_name
        if not file.is_file():
            return False
        if sha256_hex(file.read_bytes()) == package.sha256:
            return True
        file.unlink()
        return False

    def _download_locked(self, missing: Sequence[LockedPackage]) -> None:
        wanted = [f"{package.name}={package.version}" for package in missing]
        with self._aside() as aside:
            failed = self._apt_download(wanted, aside)
            if failed is not None:
                self._refresh()
                failed = self._apt_download(wanted, aside)
            if failed is not None:
                gone = [package for package in missing if not self._on_mirror(package)]
                raise LockedVersionGone(gone) if gone else download_failed(failed)
            for package in missing:
                file = aside / package.file_name
                if not file.is_file() or sha256_hex(file.read_bytes()) != package.sha256:
                    raise DebAltered(
                        f"the downloaded {package.name} {package.version} has other bytes than the image lock says.",
                        fix="Do not use this mirror before you know why; `cloche image lock --update` trusts it anew.",
                    )
                file.replace(self.cache / package.file_name)

    def _apt_download(self, wanted: Sequence[str], into: Path) -> ProcessFailed | None:
        argv = ["apt-get", "--quiet", "-o", "APT::Get::AllowUnauthenticated=false", "download", *wanted]
        try:
            run(argv, env=self.env, cwd=into, timeout_s=DOWNLOAD_TIMEOUT_S)
        except ProcessFailed as error:
            return error
        return None

    def _refresh(self) -> None:
        """Update apt's lists. A failure here shows in the download that follows, with apt's own words."""
        run(["apt-get", "--quiet", "update"], env=self.env, timeout_s=DOWNLOAD_TIMEOUT_S, check=False)

    def _on_mirror(self, package: LockedPackage) -> bool:
        """Whether apt's lists offer the version. An installed version without a download has no SHA256 field."""
        shown = run(["apt-cache", "show", f"{package.name}={package.version}"], env=self.env, check=False)
        return b"\nSHA256: " in shown.stdout

    def _identify(self, deb: Path) -> LockedPackage:
        argv = ["dpkg-deb", "--show", "--showformat=${Package}\n${Version}\n${Architecture}\n", str(deb)]
        name, version, architecture = run(argv, env=self.env).stdout.decode().split()
        digest = sha256_hex(deb.read_bytes())
        return LockedPackage(name=name, version=version, architecture=architecture, sha256=digest)

    @contextmanager
    def _aside(self) -> Iterator[Path]:
        """A directory to download into, one process at a time; what a killed one left behind goes first."""
        with lock(self.cache / ".lock", what="the package cache"), storage(self.cache):
            for leftover in self.cache.glob(f"{ASIDE}*"):
                remove_tree(leftover)
            with tempfile.TemporaryDirectory(prefix=ASIDE, dir=self.cache) as name:
                yield Path(name)


def open_debian(cache: Path, *, env: Mapping[str, str] = DEBIAN_ENV) -> Debian:
    """apt and dpkg of this machine with `cache` as the place for packages.

    Raises:
        BuilderUnavailable: a tool is missing; names it.
    """
    for tool in TOOLS:
        if shutil.which(tool, path=env.get("PATH", "")) is None:
            raise BuilderUnavailable(
                f"the cell image is built from Debian packages and this machine has no {tool}.",
                fix="Export the image on a Debian machine and `cloche image import` it here, "
                "or give an image with Python 3.11 and pytest by `cloche image build --base IMAGE`.",
            )
    architecture = run(["dpkg", "--print-architecture"], env=env).stdout.decode().strip()
    return Debian(cache=make_directory(cache), architecture=architecture, env=env)


def download_failed(error: ProcessFailed) -> DownloadFailed:
    """apt's last words as an error of ours."""
    words = error.done.stderr.decode("utf-8", "backslashreplace").strip().splitlines()
    told = next((line for line in words if line.startswith("E: ")), words[-1] if words else error.message)
    return DownloadFailed(
        f"apt could not download the packages of the cell image: {told}",
        fix="Check the network and apt's sources, then build again; what is here is kept. The packages are those of "
        "Debian 12: on another system `cloche image import` an exported image.",
    )
