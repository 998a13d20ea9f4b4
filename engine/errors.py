"""Every failure a user can meet, as one tree.

    ClocheError                      exit
    ├── UsageError                   2     wrong arguments or settings
    ├── InvalidPackage               1     the candidate breaks the contract
    ├── GateRefused                  1     its behaviour tests did not pass
    ├── RunEnded                     1     a run ended otherwise than completed (status and reason tell)
    │   └── RunCancelled             6
    ├── SandboxError                 3     nothing is known of the program
    │   ├── SandboxUnavailable             no engine, image or runtime to run in
    │   ├── EngineTimeout                  an engine call passed its deadline
    │   ├── PolicyMismatch                 the readback differs from the policy
    │   ├── AttestationFailed              the cell, seen from inside, differs from the policy
    │   ├── CellLost                       the cell ended without a word of its supervisor
    │   └── ExchangeError                  what came out of a cell broke the protocol (one class per way)
    ├── Conflict                     4     somebody else moved, owns or named it
    ├── NotFound                     5
    └── EngineFailure                7     Cloche's own side: storage, journal, a bug

A leaf adds a stable `code`. The message says what happened and to which thing; `fix` says what to do next.
Program failed, sandbox failed and engine failed are different branches and never share a class.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ClocheError(Exception):
    """Base of the tree; `str(error)` is one clear sentence."""

    code: ClassVar[str] = "cloche"
    exit_code: ClassVar[int] = 7

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def details(self) -> dict[str, Any]:
        """What belongs to the failure beside its sentence, as fields of the public JSON form (docs/reference/json.md)."""
        return {}


class UsageError(ClocheError):
    """An argument, setting or file given by the user is not usable."""

    code = "usage"
    exit_code = 2


class InvalidPackage(ClocheError):
    """A candidate breaks the package contract. The diagnostics travel in the subclass of the package layer."""

    code = "invalid_candidate"
    exit_code = 1


class GateRefused(ClocheError):
    """The behaviour tests ran in the sandbox and did not pass; nothing was published."""

    code = "tests_failed"
    exit_code = 1


class RunEnded(ClocheError):
    """A run ended otherwise than completed."""

    code = "run_ended"
    exit_code = 1


class RunCancelled(RunEnded):
    """A run or command was cancelled on request; final."""

    code = "cancelled"
    exit_code = 6


class SandboxError(ClocheError):
    """The sandbox failed: nothing is known of the program."""

    code = "sandbox_failed"
    exit_code = 3


class SandboxUnavailable(SandboxError):
    """There is no engine, image or runtime to run a cell in."""

    code = "sandbox_unavailable"


class EngineTimeout(SandboxError):
    """A call to the container engine passed its deadline; the engine hangs or restarts."""

    code = "engine_timeout"


class PolicyMismatch(SandboxError):
    """The created container differs from the policy; no code was delivered."""

    code = "policy_mismatch"


class AttestationFailed(SandboxError):
    """The started cell, seen from inside or in the cgroup files, differs from the policy; no code was delivered."""

    code = "attestation_failed"


class CellLost(SandboxError):
    """The cell ended, or stopped answering, without a final word of its supervisor."""

    code = "cell_lost"


class ExchangeError(SandboxError):
    """What a cell sent breaks the protocol. Leaves, one per way, are in `engine.sandbox.violations`."""

    code = "exchange"


class Conflict(ClocheError):
    """The base moved, the owner is elsewhere, the name is taken or nothing changed."""

    code = "conflict"
    exit_code = 4


class NotFound(ClocheError):
    """A workflow, revision, run or file that was named does not exist."""

    code = "not_found"
    exit_code = 5


class EngineFailure(ClocheError):
    """Cloche's own side failed: storage, a damaged record, a bug."""

    code = "engine_failed"
    exit_code = 7


class StorageFull(EngineFailure):
    """A durable write failed because the disk is full; nothing was half-written."""

    code = "storage_full"
