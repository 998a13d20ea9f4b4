"""How a container engine fails, and the translation of what the SDK, its HTTP client and the engine say into that.

Every failure of a call is one of these, or `EngineTimeout`; the engine's own words are clipped and never parsed further than
here. It calls nothing: `engine.sandbox.docker` does. The SDK's names are loaded when there is something to translate, because a
command that finds a waiting cell needs no SDK.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.errors import EngineTimeout, SandboxError, SandboxUnavailable

if TYPE_CHECKING:
    import docker.errors


class EngineUnreachable(SandboxUnavailable):
    """Nothing answers at the engine's address, or it may not be used."""

    code = "engine_unreachable"


class EngineTooOld(SandboxUnavailable):
    """The engine speaks an older API than the one whose answers we can compare."""

    code = "engine_too_old"


class EngineConnectionLost(SandboxError):
    """The engine broke the connection during a call: it stopped or restarts."""

    code = "engine_connection_lost"


class EngineRefused(SandboxError):
    """The engine answered with an error of its own."""

    code = "engine_refused"


class ImageMissing(SandboxUnavailable):
    """The engine does not have the image that a cell was to be made of."""

    code = "image_missing"


class RuntimeMissing(SandboxUnavailable):
    """The engine does not have the runtime that was asked for."""

    code = "runtime_missing"


class ContainerGone(SandboxError):
    """The engine knows no such container."""

    code = "container_gone"


class NotOurs(SandboxError):
    """A container without Cloche's labels was about to be killed or removed. It was left alone."""

    code = "not_ours"


@contextmanager
def translated(what: str, *, host: str, timeout_s: float, image: bool = False) -> Iterator[None]:
    """Around one call to the engine at `host`: its failure in our words, most specific first; what is no failure of it as it is.

    `what` names the call for the user. `timeout_s` is the deadline that the call was made with. `image`: it is about an image, so
    that the engine's "not found" means that.

    Raises:
        ImageMissing, ContainerGone, RuntimeMissing, EngineRefused: the engine answered so.
        EngineTimeout, EngineConnectionLost, EngineUnreachable: it did not answer.
    """
    try:
        yield
    except Exception as error:
        told = _Call(what, host, timeout_s, image).told(error)
        if told is None:
            raise
        raise told from error


@dataclass(frozen=True)
class _Call:
    what: str
    host: str
    timeout_s: float
    image: bool

    def told(self, error: Exception) -> SandboxError | None:
        """The error in our words; None for what is none of the engine's."""
        import docker.errors
        import requests.exceptions
        import urllib3.exceptions

        match error:
            case docker.errors.ImageNotFound():
                return _image_missing(error)
            case docker.errors.NotFound():
                if self.image or "No such image" in str(error):
                    return _image_missing(error)
                return ContainerGone(f"the engine has no such container ({self.what}).")
            case docker.errors.APIError():
                return self._refused(error)
            case requests.exceptions.Timeout() | urllib3.exceptions.TimeoutError() | TimeoutError():
                return self._timeout()
            case requests.exceptions.ConnectionError() | urllib3.exceptions.ProtocolError() | ConnectionError():
                return self._connection(error)
            case docker.errors.DockerException() | requests.exceptions.RequestException() | ValueError():
                return EngineUnreachable(
                    f"no container engine at {self.host}: {_clipped(error)}.", fix="Check the address in DOCKER_HOST."
                )
            case FileNotFoundError() | PermissionError():
                return self._unreachable(error)
        return None

    def _refused(self, error: docker.errors.APIError) -> SandboxError:
        said = str(error.explanation or error)
        if "nknown runtime" in said:
            return RuntimeMissing(f"the engine cannot {self.what}: {said[:300]}.", fix="Set CLOCHE_RUNTIME to runc.")
        return EngineRefused(f"the engine refused to {self.what}: {said[:300]}.")

    def _timeout(self) -> EngineTimeout:
        return EngineTimeout(
            f"the engine at {self.host} gave no answer to `{self.what}` within {self.timeout_s:g} s.",
            fix="Check that the engine is healthy, then run it again.",
        )

    def _connection(self, error: Exception) -> SandboxError:
        import urllib3.exceptions

        causes = list(_chain(error))
        if any(isinstance(cause, (TimeoutError, urllib3.exceptions.TimeoutError)) for cause in causes):
            return self._timeout()
        if any(isinstance(cause, (FileNotFoundError, PermissionError, ConnectionRefusedError)) for cause in causes):
            return self._unreachable(error)
        if any(isinstance(cause, (ConnectionError, urllib3.exceptions.ProtocolError)) for cause in causes):
            return EngineConnectionLost(
                f"the engine at {self.host} broke the connection during `{self.what}`.",
                fix="It stopped or restarts: wait until it answers, then run it again.",
            )
        return self._unreachable(error)

    def _unreachable(self, error: Exception) -> EngineUnreachable:
        if any(isinstance(cause, PermissionError) for cause in _chain(error)):
            return EngineUnreachable(
                f"the container engine at {self.host} may not be used by this user.",
                fix="Add the user to the group that owns the socket, or run as root.",
            )
        return EngineUnreachable(
            f"no container engine answers at {self.host}.", fix="Start Docker, or set DOCKER_HOST to where it listens."
        )


def _image_missing(error: Exception) -> ImageMissing:
    return ImageMissing(f"the engine does not have the image: {_clipped(error)}.", fix="Run `cloche image build`.")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error, what it was raised from, and what it carries as arguments (urllib3 wraps that way)."""
    seen: set[int] = set()
    open_ = [error]
    while open_:
        one = open_.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        carried = [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
        open_.extend(item for item in carried if isinstance(item, BaseException))


def _clipped(error: Exception) -> str:
    return str(error).replace("\n", " ")[:300].rstrip(".")
