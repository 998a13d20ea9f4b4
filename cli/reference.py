"""The reference pages that are rendered from the code, so that they cannot go stale.

    python -m cli.reference --write     writes them below docs/reference
    python -m cli.reference --check     exits 1 and names the pages that differ

Needs a checkout; reads the code and runs no verb.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

import engine
import sandbox_images
from cli import output
from cli.app import tree
from cli.reference_authoring import authoring_page
from cli.reference_json import json_page, type_name
from cli.reference_rules import rules_page
from cli.reference_runtimes import runtimes_page
from cli.reference_seccomp import seccomp_page
from engine.errors import ClocheError
from engine.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTICE = "<!-- Rendered from the code by `make docs`; change it there. -->\n"

EXIT_CODES = {
    0: "Done. A run completed.",
    1: "Invalid candidate, tests that did not pass, or a run that ended otherwise (`status` and `reason` tell how).",
    2: "Wrong usage: arguments, settings, files that were named.",
    3: "The sandbox is not available or failed; nothing is known of the program.",
    4: "Conflict: base moved, owner elsewhere, name taken, nothing changed.",
    5: "Not found.",
    6: "Cancelled.",
    7: "Cloche's own side failed: storage, a damaged record, a bug.",
    130: "Ctrl-C or SIGTERM. A run that was executing is `interrupted` and can be resumed. More signals do not cut its end off,"
    " until 15 s have passed, or with the fourth one after 3 s: then its cell is left to `cells reap`.",
}


def pages() -> dict[str, str]:
    """File name → content of every rendered page."""
    return {
        "cli.md": NOTICE + "\n".join(_cli()),
        "settings.md": NOTICE + "\n".join(_settings()),
        "exit-codes.md": NOTICE + "\n".join(_exit_codes()),
        "json.md": NOTICE + json_page(),
        "rules.md": NOTICE + rules_page(),
        "runtimes.md": NOTICE + runtimes_page(),
        "authoring.md": NOTICE + authoring_page(),
        "seccomp.md": NOTICE + seccomp_page(),
    }


def stale(folder: Path = FOLDER) -> list[str]:
    """Names of the pages that are not what the code says."""
    found = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    return [name for name, text in pages().items() if found.get(name) != text]


def commands() -> Iterator[tuple[str, Any]]:
    """Every verb in the order of `--help`: its words without `cloche`, and its command."""

    def below(command: Any, words: str) -> Iterator[tuple[str, Any]]:
        for name, child in getattr(command, "commands", {}).items():
            yield from below(child, f"{words} {name}".strip())
        if not hasattr(command, "commands"):
            yield words, command

    yield from below(typer.main.get_command(tree()), "")


# Commands


def _cli() -> Iterator[str]:
    yield "# Command line\n"
    yield "Data goes to stdout, everything else to stderr; progress is shown on a terminal only, colour not with `NO_COLOR`."
    yield "Every verb takes `--json` and then prints [one object](json.md); [exit codes](exit-codes.md) are the same for all."
    yield "`cloche --version` prints the version; `--help` works everywhere. What starts with `-` and is no option goes behind `--`."
    for words, command in commands():
        yield f"\n## {words}\n\n```\n{_usage(words, command)}\n```\n"
        yield inspect.cleandoc(command.help or "")
        rows = [_parameter(parameter) for parameter in command.params if parameter.name != "as_json"]
        if rows:
            yield "\n| | | default |\n|---|---|---|"
            yield from rows
    yield ""


def _usage(words: str, command: Any) -> str:
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    shown = [_argument(one) if one.required else f"[{_argument(one).strip('[]')}]" for one in arguments]
    return " ".join(["cloche", words, "[OPTIONS]", *shown])


def _argument(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{_argument(parameter)}`"
        default = "required" if parameter.required else ""
    else:
        value = "" if parameter.is_flag else f" {_value(parameter)}"
        names = ", ".join(f"`{name}{value}`" for name in reversed(parameter.opts))
        default = "" if parameter.is_flag or parameter.default in (None, "", 0) else f"`{parameter.default}`"
    return _row(names, parameter.help or "", default)


def _value(parameter: Any) -> str:
    if parameter.metavar:
        return str(parameter.metavar)
    annotation = parameter.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "|".join(str(member.value) for member in annotation)
    return {int: "N", float: "N", Path: "PATH"}.get(annotation, "TEXT")


# Settings


def _settings() -> Iterator[str]:
    yield "# Settings\n"
    yield "Read once when a command starts: from the environment, else from `settings.toml` in `$CLOCHE_HOME`, else the default."
    yield "An unknown key, a wrong type or a value out of range ends the command with exit code 2. A package can change none of them.\n"
    yield "| environment | settings.toml | type | default | range | what |\n|---|---|---|---|---|---|"
    for name, field in Settings.model_fields.items():
        key = "(environment only)" if name == "home" else f"`{name}`"
        cells = [f"`{PREFIX}{name.upper()}`", key, type_name(field.annotation), _default(field), _range(field)]
        yield _row(*cells, field.description or "")
    yield "\n`DOCKER_HOST` is used where `docker_host` is not set. `NO_COLOR` turns colour off."
    yield "Sizes are in bytes, times in seconds.\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "see there"
    value = field.default
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1024 * 1024:
        return f"{value} ({value // 1024 // 1024} MiB)"
    return "" if value == "" else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _range(field: FieldInfo) -> str:
    told = []
    for limit in field.metadata:
        match limit:
            case Gt(gt=bound):
                told.append(f"> {bound}")
            case Ge(ge=bound):
                told.append(f"≥ {bound}")
            case Lt(lt=bound):
                told.append(f"< {bound}")
            case Le(le=bound):
                told.append(f"≤ {bound}")
    return ", ".join(told)


# Exit codes


def errors() -> list[type[ClocheError]]:
    """Every error class of the product, by exit code, code and name."""
    for package in (engine, sandbox_images):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "probes." not in module.name.removeprefix("engine.") and not module.name.endswith("__main__"):
                importlib.import_module(module.name)

    def below(kind: type[ClocheError]) -> Iterator[type[ClocheError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    ours = {kind for kind in below(ClocheError) if kind.__module__.split(".")[0] in ("engine", "sandbox_images")}
    return sorted(ours - {ClocheError}, key=lambda kind: (kind.exit_code, kind.code, kind.__name__))


def _exit_codes() -> Iterator[str]:
    yield "# Exit codes and errors\n"
    yield "| exit | meaning |\n|---|---|"
    yield from (_row(str(code), meaning) for code, meaning in EXIT_CODES.items())
    yield "\n`doctor`, `sandbox probe` and `cells reap` exit with 3 when something is missing, got through or could not be ended."
    yield "`workflows run`, `runs resume` and `runs watch` exit as the run ended: 0 `completed`, 6 `cancelled`, 3 and 7 `failed`"
    yield "with reason `sandbox` and `engine`, 1 everything else.\n"
    yield "## Errors\n"
    yield "An error has a stable `code`, printed with `--json`. From Python it is the class; several classes may share a code.\n"
    yield "| exit | code | class | means |\n|---|---|---|---|"
    for kind in errors():
        name = f"`{kind.__module__}.{kind.__name__}`"
        yield _row(str(kind.exit_code), f"`{kind.code}`", name, _first_line(kind))
    yield ""


def _first_line(kind: type[ClocheError]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(arguments: list[str]) -> int:
    """`--write` or `--check`; returns the exit code."""
    if arguments not in (["--write"], ["--check"]):
        output.told("python -m cli.reference takes --write or --check.")
        return 2
    different = stale()
    if arguments == ["--write"]:
        for name in different:
            (FOLDER / name).write_text(pages()[name], encoding="utf-8")
            output.note(f"wrote docs/reference/{name}")
        return 0
    for name in different:
        output.told(f"docs/reference/{name} is not what the code says.", fix="Run `make docs`.")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
