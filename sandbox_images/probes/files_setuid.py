"""Find a program that gives other rights when started."""

import os
import stat

from _kernel import NothingFound

GROUP = "files"
EXPECT = "NothingFound"
WHY = "A setuid file or a file capability turns a bug into root."


def control() -> None:
    with open("/opt/planted", "w") as file:
        os.chmod(file.name, 0o4755)


def attempt() -> str:
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = sorted(set(folders) - {"proc", "sys", "dev", "host", "cloche"})
        for name in names:
            if _gives_rights(os.path.join(folder, name)):
                return f"found {os.path.join(folder, name)}"
    raise NothingFound("no setuid or setgid file, no file capability")


def _gives_rights(path: str) -> bool:
    try:
        mode = os.lstat(path).st_mode
        return bool(mode & (stat.S_ISUID | stat.S_ISGID)) or "security.capability" in os.listxattr(
            path, follow_symlinks=False
        )
    except OSError:
        return False
