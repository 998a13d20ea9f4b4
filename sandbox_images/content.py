"""What of Debian's packages goes into the cell image, and the few files of our own around it.

Owns the choice. In: CPython, its standard library, pytest, the libraries they load, time zones, and each package's
copyright file (the image is passed on). Out: every program but Python, hence no shell and no package tools, and what
only serves building, documenting, debugging or other languages' character sets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from sandbox_images.guest_files import PYTEST_LINK, PYTHON_LINK
from sandbox_images.layer import Entry, Kind, Tree, directory, file, link, resolve, with_parents

PYTHON = "/usr/bin/python3.11"
PYTEST_DIRECTORY = "/usr/lib/python3/dist-packages"

KEEP = re.compile(r"usr/(bin/python3\.11$|lib(64)?/|share/zoneinfo/|share/doc/[^/]+/copyright$)")

DROP = re.compile(
    r"""
      usr/lib/[^/]+/(gconv|audit|engines-3|ossl-modules)(/|$)   # iconv tables, linker auditing, OpenSSL plug-ins
    | usr/lib/[^/]+/lib(c_malloc_debug|memusage|pcprofile|thread_db|nss_hesiod|mvec|BrokenLocale)\.so
    | usr/lib/python3\.11/(test|idlelib|ensurepip|lib2to3|turtledemo|venv|distutils|__phello__|config-[^/]*)(/|$)
    | usr/lib/python3\.11/(turtle|__hello__|sitecustomize)\.py$
    | usr/lib/python3\.11/lib-dynload/(_test|_xx|xx|ossaudiodev|_ctypes_test|nis|_crypt|_dbm|_gdbm)[^/]*$
    | usr/lib/python3\.11/(crypt|nis)\.py$                      # their C libraries are not in the image
    | usr/lib/(valgrind|locale|mime|pkgconfig|[^/]+/pkgconfig)(/|$)
    | usr/share/zoneinfo/(right|posix)(/|$)                     # the same zones again, counted differently
    """,
    re.VERBOSE,
)

ELF = b"\x7fELF"

PASSWD = b"root:x:0:0:root:/:/nonexistent\nnobody:x:65534:65534:nobody:/nonexistent:/nonexistent\n"
GROUP = b"root:x:0:\nnogroup:x:65534:\n"


def choose(tree: Mapping[str, Entry]) -> Tree:
    """The part of an unpacked system that the image keeps; links that would lead nowhere are left out.

    Only ELF files stay executable: some modules of the standard library are scripts too.
    """
    kept = {
        path: replace(entry, executable=entry.executable and entry.data.startswith(ELF))
        for path, entry in tree.items()
        if entry.kind is not Kind.DIRECTORY and KEEP.match(path) and not DROP.match(path)
    }
    kept |= {name: link(f"usr/{name}") for name in ("lib", "lib64")}
    whole = with_parents(kept)
    return {path: entry for path, entry in kept.items() if entry.kind is not Kind.LINK or resolve(whole, path)}


def skeleton() -> Tree:
    """Accounts, the mount points of a cell, `python3`, and where a cell finds Python and pytest.

    `/tmp` alone is open to all: runc gives a mounted tmpfs the mode of the directory that it covers.
    """
    return {
        "etc/passwd": file(PASSWD),
        "etc/group": file(GROUP),
        "usr/bin/python3": link("python3.11"),
        PYTHON_LINK: link(PYTHON),
        PYTEST_LINK: link(PYTEST_DIRECTORY),
        "cloche/in": directory(),
        "cloche/out": directory(),
        "dev": directory(),
        "proc": directory(),
        "sys": directory(),
        "tmp": directory(0o1777),
    }
