"""Settings, frozen, read once from the environment and `$CLOCHE_HOME/settings.toml` (environment wins).

The only module that reads the environment. Every field is listed in docs/reference/settings.md.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine.errors import UsageError

MIB = 1024 * 1024
PREFIX = "CLOCHE_"


class Settings(BaseModel):
    """What the operator may change. A candidate never can."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    home: Path = Field(description="Where state lives; 0700. Default: the platform's user data directory.")
    docker_host: str = Field("", description="Engine address, as in DOCKER_HOST. Empty: the local socket.")
    runtime: Literal["auto", "runc", "runsc"] = Field("auto", description="OCI runtime of cells; auto prefers gVisor.")
    model: str = Field("", description="Model of agent() and llm(): scripted:FILE.")
    engine_timeout_s: float = Field(60.0, gt=0, le=600, description="Deadline of one call to the engine.")
    gate_timeout_s: float = Field(120.0, gt=0, le=3600, description="Bound of one gate, all cases together.")
    run_active_s: float = Field(3600.0, gt=0, description="Active time of a run over all generations.")
    run_total_s: float = Field(86400.0, gt=0, description="Time of a run from its creation, waiting included.")
    memory_bytes: int = Field(512 * MIB, ge=64 * MIB, description="Memory of a cell; no swap.")
    cpus: float = Field(1.0, gt=0, description="CPU of a cell, in cores.")
    processes: int = Field(128, ge=8, description="Processes of untrusted code in a cell.")
    tmp_bytes: int = Field(64 * MIB, ge=MIB, description="/tmp of a cell.")
    open_files: int = Field(256, ge=32, description="Open files of a process in a cell.")
    file_bytes: int = Field(32 * MIB, ge=MIB, description="Size of one file written in a cell.")
    output_bytes: int = Field(8 * MIB, ge=1024, description="stdout and stderr kept, head and tail together.")
    output_files_bytes: int = Field(64 * MIB, description="All files of /tmp/output together.")
    output_files: int = Field(1000, description="Number of files collected from /tmp/output.")
    value_bytes: int = Field(64 * MIB, description="Largest encoded argument or result.")
    record_bytes: int = Field(256 * MIB, ge=MIB, description="Journal and blobs of a run, all generations together.")
    cap: int = Field(40, ge=1, description="Executions of capped calls per run.")
    suspend_after_s: float = Field(120.0, gt=0, description="A run whose calls all take longer waits without a cell.")
    warm_cells: int = Field(1, ge=0, le=16, description="Runs, and gates, for which cells wait started; 0: none.")
    warm_idle_s: float = Field(600.0, ge=30, le=86400, description="A cell that waits ends by itself after this.")
    require_evidence: bool = Field(False, description="Refuse packages whose tests do not exercise the entry.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("warning", description="Level of log events.")


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Settings from environment over file over defaults.

    Raises:
        UsageError: a value is of the wrong type or out of range, a `settings.toml` key is unknown, or the home is not its user's.
    """
    env = dict(os.environ) if environ is None else dict(environ)
    home = Path(env.get("CLOCHE_HOME") or platformdirs.user_data_dir("cloche", appauthor=False)).expanduser()
    _refuse_shared(home)
    values: dict[str, Any] = {}
    file = home / "settings.toml"
    if file.is_file():
        try:
            values.update(tomllib.loads(file.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(
                f"settings.toml in {home} cannot be read: {error.strerror}.", fix="Correct its rights, or remove it."
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(
                f"settings.toml in {home} is not TOML: {error}", fix="Correct or remove the file."
            ) from error
    if "home" in values:
        raise UsageError("settings.toml cannot move the home it lies in.", fix="Set CLOCHE_HOME instead.")
    for field in Settings.model_fields:
        name = PREFIX + field.upper()
        if field != "home" and env.get(name):
            values[field] = env[name]
    if env.get("DOCKER_HOST") and "docker_host" not in values:
        values["docker_host"] = env["DOCKER_HOST"]
    try:
        return Settings(home=home.absolute(), **values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(
            f"setting {name}: {first['msg']}.", fix=f"Change {PREFIX}{name.upper()} or settings.toml in {home}."
        ) from error


def _refuse_shared(home: Path) -> None:
    """Whoever may write the home chooses the engine, the packages and the cells: nothing of it is read before this is known."""
    try:
        found = home.stat()
    except (
        OSError
    ):  # absent, and made 0700 when something is written; or of no use, which the first command that needs it says
        return
    if problem := shared(found.st_mode, owner=found.st_uid, user=os.geteuid()):
        raise UsageError(
            f"the home {home} {problem}.", fix=f"Use a directory of your own: chmod 700 {home}, or CLOCHE_HOME."
        )


def shared(mode: int, *, owner: int, user: int) -> str:
    """Why a directory of this mode and owner is no home for `user`; "" when it is one.

    A group may write: in many systems each user has one.
    """
    if owner not in (user, 0):
        return f"belongs to another user ({owner})"
    return "can be written by everybody" if mode & stat.S_IWOTH else ""


def inherited_environment() -> dict[str, str]:
    """All of our own environment, for a process of Cloche's own that is to see the same settings."""
    return dict(os.environ)


def tool_environment() -> dict[str, str]:
    """The environment for host tools (git): built from nothing but PATH, so that no personal setting has an effect."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


@contextmanager
def planted_variable(name: str, value: str) -> Iterator[None]:
    """One more variable of this process while the block lasts: the probe's, which must not be found in a cell."""
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name, None)


def colour_wanted() -> bool:
    """False when NO_COLOR is set (https://no-color.org)."""
    return not os.environ.get("NO_COLOR")
