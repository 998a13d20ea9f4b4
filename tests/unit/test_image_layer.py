"""The layer: the same content always gives the same bytes, and only what belongs in an image gets in."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable

import pytest

from sandbox_images.content import choose
from sandbox_images.layer import Kind, LayerRefused, directory, file, link, read_tar, resolve, write_tar


def tar_of(members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for info, data in members:
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def info(
    name: str, *, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, target: str = "", uid: int = 0
) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.mode, made.linkname, made.uid, made.mtime = kind, mode, target, uid, uid * 1000
    return made


def members(layer: bytes) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        return {member.name: member for member in archive}


def test_owner_time_order_and_spelling_of_the_source_leave_no_trace() -> None:
    one = tar_of([(info("./usr/b"), b"2"), (info("./usr/a", mode=0o600, uid=7), b"1")])
    other = tar_of([(info("usr/a", mode=0o664), b"1"), (info("/usr/b", uid=9), b"2")])
    assert write_tar(read_tar(one)) == write_tar(read_tar(other))


def test_setuid_and_group_write_do_not_survive() -> None:
    layer = write_tar(read_tar(tar_of([(info("usr/bin/su", mode=0o6777), b"x"), (info("etc/open", mode=0o666), b"y")])))
    modes = {name: member.mode for name, member in members(layer).items()}
    assert modes == {"etc": 0o755, "etc/open": 0o644, "usr": 0o755, "usr/bin": 0o755, "usr/bin/su": 0o755}


def test_files_outside_usr_move_below_it() -> None:
    assert set(read_tar(tar_of([(info("./lib/x.so"), b""), (info("./lib64/ld.so"), b"")]))) == {
        "usr/lib/x.so",
        "usr/lib64/ld.so",
    }


def test_a_hard_link_becomes_a_file_of_its_own() -> None:
    tree = read_tar(tar_of([(info("a"), b"same"), (info("b", kind=tarfile.LNKTYPE, target="a"), b"")]))
    assert tree["b"].kind is Kind.FILE
    assert tree["b"].data == b"same"


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_and_pipes_are_refused(kind: bytes) -> None:
    with pytest.raises(LayerRefused, match="dev/thing"):
        read_tar(tar_of([(info("dev/thing", kind=kind), b"")]))


def test_a_path_that_leaves_the_tree_is_refused() -> None:
    with pytest.raises(LayerRefused, match="leaves the tree"):
        read_tar(tar_of([(info("usr/../../etc/shadow"), b"")]))


def test_links_resolve_through_directories_and_loops_end() -> None:
    tree = {
        "lib": link("usr/lib"),
        "usr": directory(),
        "usr/lib": directory(),
        "usr/lib/a": link("/lib/b"),
        "usr/lib/b": file(b"end"),
        "loop": link("loop"),
    }
    assert resolve(tree, "lib/a") == "usr/lib/b"
    assert resolve(tree, "loop") == ""
    assert resolve(tree, "usr/lib/absent") == ""


def test_programs_documents_and_links_to_nowhere_stay_out_and_licences_stay_in() -> None:
    packed = {
        "usr/bin/python3.11": file(b"", executable=True),
        "usr/bin/dash": file(b"", executable=True),
        "usr/bin/apt-get": file(b"", executable=True),
        "usr/sbin/init": file(b"", executable=True),
        "usr/lib/python3.11/json/__init__.py": file(b""),
        "usr/lib/python3.11/test/support.py": file(b""),
        "usr/lib/python3.11/sitecustomize.py": link("/etc/python3.11/sitecustomize.py"),
        "usr/lib/python3.11/away.py": link("/etc/gone.py"),
        "usr/share/doc/libc6/copyright": file(b""),
        "usr/share/doc/libc6/changelog.gz": file(b""),
        "usr/share/man/man1/python.1": file(b""),
        "etc/python3.11/sitecustomize.py": file(b""),
        "var/lib/dpkg/status": file(b""),
    }
    assert set(choose(packed)) == {
        "lib",
        "usr/bin/python3.11",
        "usr/lib/python3.11/json/__init__.py",
        "usr/share/doc/libc6/copyright",
    }
