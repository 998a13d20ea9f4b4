"""`cloche image`: the image that cells run in."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import output
from cli.app import Json, application, awaited

if TYPE_CHECKING:
    from sandbox_images.archive import BuiltImage

group = typer.Typer(help="The image that cells run in.", no_args_is_help=True, rich_markup_mode=None)


def described(image: BuiltImage, *, loaded: bool | None = None) -> dict[str, Any]:
    """The JSON form of an image."""
    told = {
        "ok": True,
        "image_id": image.image_id,
        "diff_ids": list(image.diff_ids),
        "locked": image.locked,
        "packages": dict(image.packages),
        "guest": image.guest,
        "archive": str(image.path),
    }
    return told if loaded is None else {**told, "loaded": loaded}


def show_image(image: BuiltImage, *, loaded: bool | None = None) -> None:
    """Print an image in the form of this command."""
    if output.mode.json:
        output.data(described(image, loaded=loaded))
        return
    output.line(f"image     {image.image_id}")
    output.line(f"archive   {image.path} ({image.path.stat().st_size // 1024 // 1024} MiB)")
    locked = (
        "locked versions" if image.locked else "UNLOCKED: current versions of the mirror, not those of the lock file"
    )
    output.line(f"packages  {len(image.packages)} ({locked})")
    if loaded is not None:
        output.line(f"engine    {'loaded' if loaded else 'not loaded yet; the next cell loads it'}")


@group.command()
def build(
    base: Annotated[
        str, typer.Option("--base", metavar="IMAGE", help="Add the guest to this image of the engine instead.")
    ] = "",
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Take the mirror's current versions when a locked one is gone.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Build the image from locked Debian packages, check it and load it into the engine."""
    with application(as_json=as_json) as app:
        show_image(awaited(partial(app.images.build, base=base, fall_back=fallback)), loaded=True)


@group.command()
def show(as_json: Json = False) -> None:
    """Show the current image."""
    with application(as_json=as_json) as app:
        image = app.images.current()
        show_image(image, loaded=awaited(partial(app.images.is_loaded, image)))


@group.command()
def export(file: Annotated[Path, typer.Argument(help="Archive to write.")], as_json: Json = False) -> None:
    """Write the current image to a file that `image import` of another machine takes."""
    with application(as_json=as_json) as app:
        image = app.images.export(file)
        if output.mode.json:
            output.data(described(image))
        else:
            output.note(f"wrote {file}")


@group.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="Archive made by `image export`.")], as_json: Json = False
) -> None:
    """Check an exported image, every layer of it, and make it the current one."""
    with application(as_json=as_json) as app:
        show_image(awaited(partial(app.images.adopt, file)), loaded=True)


@group.command("lock")
def lock_(
    update: Annotated[bool, typer.Option("--update", help="Take the mirror's current versions.")] = False,
    as_json: Json = False,
) -> None:
    """Show the locked versions, or move them to what the mirror has now and show what changed."""
    with application(as_json=as_json) as app:
        changed = app.images.update_lock() if update else ()
        locked = app.images.locked_versions()
        if output.mode.json:
            changes = [{"name": change.name, "old": change.old, "new": change.new} for change in changed]
            output.data({"ok": True, "packages": locked, "changed": changes})
            return
        output.table(["package", "version"], [[name, version] for name, version in locked.items()])
        for change in changed:
            output.note(f"{change.name}: {change.old or '(new)'} → {change.new or '(gone)'}")
        if update and not changed:
            output.note("Nothing changed.")
