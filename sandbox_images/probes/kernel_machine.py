"""Load a module or another kernel, or restart the machine."""

import errno
from functools import partial

from _kernel import any_of, call

GROUP = "kernel"
EXPECT = "EPERM"
WHY = "Nothing is left to protect after that."

INIT_MODULE, FINIT_MODULE, DELETE_MODULE = 175, 313, 176
KEXEC_LOAD, KEXEC_FILE_LOAD, REBOOT = 246, 320, 169


def attempt() -> str:
    ways = (
        (
            "init_module",
            partial(call, INIT_MODULE, bytes(64), 64, b"", reached=(errno.ENOEXEC, errno.EFAULT, errno.EINVAL)),
        ),
        ("finit_module", partial(call, FINIT_MODULE, -1, b"", 0, reached=(errno.EBADF,))),
        ("delete_module", partial(call, DELETE_MODULE, b"cloche_nowhere", 0, reached=(errno.ENOENT,))),
        ("kexec_load", partial(call, KEXEC_LOAD, 0, 0, None, -1, reached=(errno.EINVAL,))),
        ("kexec_file_load", partial(call, KEXEC_FILE_LOAD, -1, -1, 0, b"", -1, reached=(errno.EINVAL,))),
        ("reboot", partial(call, REBOOT, 0, 0, 0, None, reached=(errno.EINVAL,))),
    )
    return f"{any_of(ways)} looked at its arguments"
