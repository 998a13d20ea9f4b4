"""Every target by its name."""

from __future__ import annotations

from tests.fuzz import channel, exchange, journal, link, metadata, package, readback, script, segments, values
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET
    for module in (exchange, channel, link, segments, values, journal, package, metadata, readback, script)
}
