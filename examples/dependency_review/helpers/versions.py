"""Versions of Python packages (PEP 440): their order, and what a set of specifiers allows.

Local parts (`+build`) are ignored, and pre-releases count as ordinary versions: the question here is whether requirements can
hold together, not what an installer would choose.
"""

import re
from functools import lru_cache
from itertools import pairwise

VERSION = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)"
    r"(?:[-_.]?(a|b|c|rc|alpha|beta|pre|preview)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?"
    r"(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+[a-z0-9]+(?:[-_.][a-z0-9]+)*)?",
    re.IGNORECASE,
)
PHASES = {"a": 0, "alpha": 0, "b": 1, "beta": 1, "c": 2, "rc": 2, "pre": 2, "preview": 2}
FIRST, LAST = -1, 3
LENGTH = 12


class NoVersion(ValueError):
    """Text that is no version."""


@lru_cache(maxsize=4096)
def key(text):
    """A tuple that orders as the versions do. Raises NoVersion."""
    found = VERSION.fullmatch(text.strip())
    if found is None:
        raise NoVersion(text)
    epoch, release, pre, pre_n, post_short, post, post_n, dev, dev_n = found.groups()
    numbers = tuple(int(part) for part in release.split("."))
    has_post = post is not None or post_short is not None
    if pre is not None:
        phase = (PHASES[pre.lower()], int(pre_n or 0))
    elif dev is not None and not has_post:
        phase = (FIRST, 0)
    else:
        phase = (LAST, 0)
    after = int(post_short or post_n or 0) if has_post else -1
    unfinished = (0, int(dev_n or 0)) if dev is not None else (1, 0)
    padded = numbers + (0,) * (LENGTH - len(numbers))
    return int(epoch or 0), padded, phase, after, unfinished


def equal(first, second):
    """Whether two versions are the same (`1.0` and `1`); text that is no version equals only itself."""
    try:
        return key(first) == key(second)
    except NoVersion:
        return first == second


def satisfies(version, specifiers):
    """Whether the version satisfies all `[operator, version]` pairs; what cannot be read is taken as satisfied."""
    try:
        return all(_allows(operator, limit, version) for operator, limit in specifiers)
    except NoVersion:
        return True


def compatible(specifiers):
    """Whether some version could satisfy all pairs; what cannot be read is taken as compatible.

    Only a finite number of versions decides it: every named one, its neighbours, and one between each two of them.
    """
    try:
        return any(
            all(_allows(operator, limit, candidate) for operator, limit in specifiers)
            for candidate in _candidates(specifiers)
        )
    except NoVersion:
        return True


def _allows(operator, limit, version):
    if operator == "===":
        return version == limit
    if limit.endswith(".*"):
        inside = _starts_with(version, limit[:-2])
        return inside if operator == "==" else not inside
    here, there = key(version), key(limit)
    match operator:
        case "==":
            return here == there
        case "!=":
            return here != there
        case "<=":
            return here <= there
        case ">=":
            return here >= there
        case "~=":
            return here >= there and _starts_with(version, _release(limit).rpartition(".")[0])
        case "<":
            return here < there and not (_is_early(here) and not _is_early(there) and here[:2] == there[:2])
        case ">":
            return here > there and not (here[3] >= 0 and there[3] < 0 and here[:2] == there[:2])
    raise NoVersion(operator)


def _is_early(parsed):
    return parsed[2][0] < LAST or parsed[4][0] == 0


def _release(text):
    key(text)
    return VERSION.fullmatch(text.strip()).group(2)


def _starts_with(version, prefix):
    parts = [int(part) for part in _release(prefix).split(".")]
    return key(version)[0] == key(prefix)[0] and list(key(version)[1][: len(parts)]) == parts


def _candidates(specifiers):
    named = sorted({limit.removesuffix(".*") for _, limit in specifiers} | {"0"}, key=key)
    for limit in named:
        release = _release(limit)
        yield limit
        yield f"{release}.0.1"
        yield f"{limit}.post1" if "post" not in limit else limit
        yield f"{release}.dev0"
        head, _, tail = release.rpartition(".")
        yield f"{head}{'.' if head else ''}{int(tail) + 1}"
    for low, high in pairwise(named):
        yield f"{_release(low)}.0.0.1" if key(low) < key(high) else low
    yield f"{max(int(_release(limit).split('.')[0]) for limit in named) + 1}"
