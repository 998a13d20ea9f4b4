"""The cell image, really built: the same bytes each time, nothing in it that has no business there, and it works."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import docker
import pytest
from docker.client import DockerClient

from sandbox_images.archive import BuiltImage
from sandbox_images.build import build_archive
from sandbox_images.debs import LockedVersionGone
from sandbox_images.extend import extend_archive
from sandbox_images.lockfile import CELL_LOCK, Lock, read_lock, versions, write_lock
from sandbox_images.store import current, ensure_built
from sandbox_images.verify import open_archive, verify_archive
from tests.helpers.fake_mirror import fake_mirror

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.runc_only("the image is the same; every test under gVisor runs it"),
]

DEBS = Path(__file__).parents[2] / ".cache" / "debs"
"""Kept between runs, so that the mirror is asked once."""

PYTHON = ["/usr/bin/python3.11", "-s", "-P", "-S", "-B", "-X", "utf8"]
PYTEST = "import sys; sys.path.append('/usr/lib/python3/dist-packages'); import pytest; "
NOT_IN_THE_IMAGE = {
    # No display, no packaging, no C library for them, or not of this system.
    *("tkinter", "_tkinter", "turtle", "turtledemo", "idlelib", "venv", "ensurepip", "distutils", "lib2to3"),
    *("crypt", "_crypt", "nis", "_dbm", "_gdbm", "ossaudiodev"),
    *("msilib", "_msi", "msvcrt", "winreg", "_winapi", "winsound", "nt", "_overlapped", "_scproxy"),
}


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A guest of two lines that nobody edits meanwhile."""
    root = tmp_path_factory.mktemp("guest")
    for package in ("cloche", "cloche_guest"):
        (root / package / "__pycache__").mkdir(parents=True)
        (root / package / "__init__.py").write_text('WORD = "hello"\n')
        (root / package / "__pycache__" / "stale.py").write_text("")
    (root / "cloche" / "live.py").write_text("raise SystemExit\n")
    return root


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, guest: Path) -> BuiltImage:
    return build_archive(tmp_path_factory.mktemp("first"), cache=DEBS, guest=guest)


@pytest.fixture(scope="module")
def members(image: BuiltImage) -> dict[str, tarfile.TarInfo]:
    with open_archive(image.path) as archive:
        ((_, _, stream),) = archive.layers()
        with tarfile.open(fileobj=stream) as layer:
            return {member.name: member for member in layer}


@pytest.fixture(scope="module")
def engine(image: BuiltImage) -> Iterator[DockerClient]:
    """The engine with the image loaded; the image goes away again unless it was there before."""
    client = docker.from_env(timeout=60)
    before = {found.id for found in client.images.list(all=True)}
    with image.path.open("rb") as archive:
        client.images.load(archive)
    yield client
    if image.image_id not in before:
        client.images.remove(image.image_id, force=True)
    client.close()


def in_cell(engine: DockerClient, image: BuiltImage, code: str) -> str:
    """What Python code prints in a container without network, rights or writable root; fails unless it exits with 0."""
    output: bytes = engine.containers.run(
        image.image_id,
        [*PYTHON, "-c", code],
        remove=True,
        network_mode="none",
        read_only=True,
        user="65532:65532",
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        tmpfs={"/tmp": "size=16m,noexec,nosuid,nodev"},
    )
    return output.decode()


def test_two_builds_in_different_places_are_equal_bit_for_bit(image: BuiltImage, guest: Path, tmp_path: Path) -> None:
    copied = tmp_path / "elsewhere" / "guest"
    shutil.copytree(guest, copied)
    (tmp_path / "second-and-longer").mkdir()
    again = build_archive(tmp_path / "second-and-longer", cache=DEBS, guest=copied)
    assert again.path.read_bytes() == image.path.read_bytes()
    assert [path.name for path in again.path.parent.iterdir()] == [again.path.name]


def test_the_engine_computes_the_id_that_we_computed(engine: DockerClient, image: BuiltImage) -> None:
    loaded = engine.images.get(image.image_id)
    assert loaded.id == image.image_id
    assert tuple(loaded.attrs["RootFS"]["Layers"]) == image.diff_ids
    assert loaded.labels["io.cloche.locked"] == "true"
    assert loaded.attrs["Config"]["Env"] == ["PATH=/usr/bin"]
    assert not loaded.attrs["Config"]["Entrypoint"]
    assert not loaded.attrs["Config"]["Cmd"]


def test_python_is_the_only_program(members: dict[str, tarfile.TarInfo]) -> None:
    programs = {name for name in members if re.search(r"(^|/)s?bin/", name)}
    assert programs == {"usr/bin/python3", "usr/bin/python3.11"}
    executable = {name for name, member in members.items() if member.isfile() and member.mode & 0o111}
    assert {name for name in executable if ".so" not in name} == {"usr/bin/python3.11"}


def test_nothing_is_setuid_or_writable_but_the_place_for_tmp(members: dict[str, tarfile.TarInfo]) -> None:
    loose = {name for name, member in members.items() if not member.issym() and member.mode & 0o7022}
    assert loose == {"tmp"}
    assert {(member.uid, member.gid, member.uname, member.gname) for member in members.values()} == {(0, 0, "", "")}


def test_only_files_directories_and_links_that_lead_somewhere(members: dict[str, tarfile.TarInfo]) -> None:
    assert {
        name for name, member in members.items() if not (member.isfile() or member.isdir() or member.issym())
    } == set()
    assert not [name for name in members if re.search(r"dpkg|/apt|/man/|changelog|/locale/|\.build-|root-", name)]


def test_the_guest_is_inside_and_what_is_the_hosts_is_not(members: dict[str, tarfile.TarInfo]) -> None:
    assert {name for name in members if name.startswith("opt/cloche/") and name.endswith(".py")} == {
        "opt/cloche/cloche/__init__.py",
        "opt/cloche/cloche_guest/__init__.py",
    }


def test_bytecode_is_bound_to_its_source_by_a_checked_hash_and_knows_no_build_path(
    engine: DockerClient, image: BuiltImage, members: dict[str, tarfile.TarInfo]
) -> None:
    sources = {name for name in members if name.endswith(".py") and members[name].isfile()}
    compiled = {name for name in members if name.endswith(".cpython-311.pyc")}
    assert {re.sub(r"__pycache__/(.+)\.cpython-311\.pyc", r"\1.py", name) for name in compiled} >= sources
    code = """
import marshal, json, pathlib
flags, names = set(), set()
for top in ('/usr/lib/python3.11', '/usr/lib/python3', '/opt'):
    for path in pathlib.Path(top).rglob('*.pyc'):
        data = path.read_bytes()
        flags.add(int.from_bytes(data[4:8], 'little'))
        names.add(marshal.loads(data[16:]).co_filename == str(path.parent.parent / (path.name.split('.')[0] + '.py')))
print(json.dumps([sorted(flags), sorted(names)]))
"""
    assert json.loads(in_cell(engine, image, code)) == [[3], [True]]


def test_the_whole_standard_library_imports(engine: DockerClient, image: BuiltImage) -> None:
    code = f"""
import sys, importlib, os
failed = []
sys.stdout = open(os.devnull, 'w')
for name in sorted(sys.stdlib_module_names - {{'this', 'antigravity'}} - set({sorted(NOT_IN_THE_IMAGE)!r})):
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f'{{name}}: {{error!r}}')
sys.stdout = sys.__stdout__
print(failed)
"""
    assert in_cell(engine, image, code).strip() == "[]"


def test_what_libraries_outside_python_provide_works(engine: DockerClient, image: BuiltImage) -> None:
    code = """
import asyncio, bz2, ctypes, datetime, hashlib, lzma, sqlite3, ssl, uuid, xml.etree.ElementTree, zlib, zoneinfo
assert lzma.decompress(lzma.compress(b'x')) == bz2.decompress(bz2.compress(b'x')) == zlib.decompress(zlib.compress(b'x'))
assert sqlite3.connect(':memory:').execute('select json_extract(?, ?)', ('{"a": 1}', '$.a')).fetchone() == (1,)
assert ssl.create_default_context().check_hostname and hashlib.sha3_256(b'').digest()
assert datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Paris')).utcoffset().seconds == 7200
assert ctypes.CDLL(None).getpid() == __import__('os').getpid()
assert xml.etree.ElementTree.fromstring('<a/>').tag == 'a' and uuid.uuid4()
assert asyncio.run(asyncio.sleep(0, 'done')) == 'done'
print('fine')
"""
    assert in_cell(engine, image, code) == "fine\n"


def test_pytest_runs_as_an_unprivileged_user_on_a_read_only_root(engine: DockerClient, image: BuiltImage) -> None:
    tests = (
        "import os\ndef test_a(tmp_path): (tmp_path / 'f').write_text('x')\ndef test_b(): assert os.getuid() == 65532\n"
    )
    code = (
        f"{PYTEST}import os; os.chdir('/tmp'); open('test_it.py', 'w').write({tests!r}); sys.exit(pytest.main(['-q']))"
    )
    assert "2 passed" in in_cell(engine, image, code)


def test_no_shell_starts(engine: DockerClient, image: BuiltImage) -> None:
    code = "import subprocess\ntry: subprocess.run('true', shell=True)\nexcept FileNotFoundError as error: print(error.filename)"
    assert in_cell(engine, image, code) == "/bin/sh\n"


def test_an_image_saved_by_the_engine_serves_as_a_base(engine: DockerClient, image: BuiltImage, tmp_path: Path) -> None:
    saved = tmp_path / "saved.tar"
    with saved.open("wb") as out:
        out.writelines(engine.images.get(image.image_id).save())
    made = extend_archive(saved, tmp_path, guest=tmp_path)
    with made.path.open("rb") as archive:
        (loaded,) = engine.images.load(archive)
    try:
        assert (loaded.id, made.info.base) == (made.image_id, image.image_id)
        assert in_cell(engine, made, "print('ran')") == "ran\n"
    finally:
        engine.images.remove(made.image_id, force=True)


def with_bogus_version(path: Path) -> Lock:
    lock = read_lock(CELL_LOCK)
    bogus = [
        package.model_copy(update={"version": "1970a-0"}) if package.name == "tzdata" else package
        for package in lock.package
    ]
    write_lock(path, Lock(architecture=lock.architecture, package=tuple(bogus)))
    return lock


def test_a_locked_version_that_the_real_mirror_lacks_is_named(image: BuiltImage, tmp_path: Path) -> None:
    with_bogus_version(tmp_path / "lock.toml")
    with pytest.raises(LockedVersionGone, match=r"no longer has tzdata 1970a-0,") as caught:
        build_archive(tmp_path, cache=DEBS, lock_path=tmp_path / "lock.toml")
    assert "cloche image lock --update" in caught.value.fix
    assert [path.name for path in tmp_path.iterdir()] == ["lock.toml"]


def test_current_versions_stand_in_on_request_once_for_two_builders_and_the_image_says_so(
    image: BuiltImage, guest: Path, tmp_path: Path
) -> None:
    lock = with_bogus_version(tmp_path / "lock.toml")
    mirror = fake_mirror(tmp_path / "debian")
    for package in lock.package:
        shutil.copy(DEBS / package.file_name, mirror.root / "mirror")
    ensure = partial(
        ensure_built, tmp_path / "home", lock_path=tmp_path / "lock.toml", guest=guest, fall_back=True, env=mirror.env
    )
    with ThreadPoolExecutor(2) as pool:
        made, same = (future.result() for future in [pool.submit(ensure), pool.submit(ensure)])
    assert made == same == current(tmp_path / "home")
    assert [call.split(" ")[0] for call in mirror.calls()] == ["download", "update", "download", "download"]
    assert not made.locked
    assert made.packages == versions(lock.package)
    assert verify_archive(made.path, expect=made.image_id) == made
    assert made.image_id != image.image_id
