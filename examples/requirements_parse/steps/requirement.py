"""One logical line to one requirement, or to the reason why it is none."""

import re

from ..helpers.names import normalise

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
EXTRAS = re.compile(r"\s*\[([^\]]*)\]")
SPECIFIER = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,;()]+)\s*")
OPTION = re.compile(r"\s+--(\S+)")


def parse_requirement(line):
    """A pair: the requirement and "", or None and the reason."""
    content, _, options = _split_options(line)
    specification, marker = _split_marker(content)
    named = NAME.match(specification)
    if named is None or "://" in specification.partition("@")[0] or specification[named.end() : named.end() + 1] == "/":
        return None, "does not start with a package name"
    rest = specification[named.end() :]
    extras, rest = _extras(rest)
    url, specifiers, reason = _versions(rest.strip())
    if reason:
        return None, reason
    return {
        "name": normalise(named.group()),
        "extras": extras,
        "specifiers": specifiers,
        "pin": _pin(specifiers),
        "url": url,
        "marker": marker,
        "hashes": sum(option.startswith("hash=") or option == "hash" for option in options),
    }, ""


def _split_options(line):
    first = OPTION.search(line)
    if first is None:
        return line, "", []
    return line[: first.start()], " ", OPTION.findall(line[first.start() :])


def _split_marker(content):
    # In a direct address a semicolon belongs to the address unless a blank stands before it.
    separator = " ;" if "@" in content and "://" in content else ";"
    specification, _, marker = content.partition(separator)
    return specification.strip(), " ".join(marker.split())


def _extras(rest):
    found = EXTRAS.match(rest)
    if found is None:
        return [], rest
    names = sorted({normalise(name.strip()) for name in found.group(1).split(",") if name.strip()})
    return names, rest[found.end() :]


def _versions(rest):
    if rest.startswith("@"):
        url = rest[1:].strip()
        return url, [], "" if url else "has no address behind @"
    if rest.startswith("(") and rest.endswith(")"):
        rest = rest[1:-1]
    specifiers = []
    at = 0
    while at < len(rest):
        found = SPECIFIER.match(rest, at)
        if found is None:
            return "", [], f"cannot be read from {rest[at : at + 20]!r} on"
        specifiers.append([found.group(1), found.group(2)])
        at = found.end()
        if at < len(rest) and rest[at] != ",":
            return "", [], f"cannot be read from {rest[at : at + 20]!r} on"
        at += 1
    return "", sorted(specifiers), ""


def _pin(specifiers):
    exact = [version for operator, version in specifiers if operator in ("==", "===") and not version.endswith(".*")]
    return exact[0] if len(exact) == 1 else ""
