"""What does not fit: first inside one file, then between files."""

from itertools import combinations

from ..helpers.versions import compatible, equal, satisfies


def within_file(file):
    """Findings of one file; also notes in it whether it is a lock file."""
    requirements = file["requirements"]
    hashed = any(requirement["hashes"] for requirement in requirements)
    file["lock"] = hashed or file["path"].endswith(".lock")
    found = []
    for requirement in requirements:
        place = _place(file, requirement)
        exact = requirement["pin"] or requirement["url"]
        if not exact and (file["lock"] or not requirement["specifiers"]):
            wanted = "no exact version in a lock file" if file["lock"] else "no limit on its version"
            found.append(_finding("unpinned", requirement["name"], wanted, [place]))
        if hashed and not requirement["hashes"]:
            found.append(_finding("unhashed", requirement["name"], "no hash beside hashed requirements", [place]))
    return found + _repeated(file)


def _repeated(file):
    found = []
    for name, group in _by_name([file]).items():
        for (_, first), (_, second) in combinations(group, 2):
            if not _same_machines(first, second):
                continue
            places = [_place(file, first), _place(file, second)]
            if compatible(first["specifiers"] + second["specifiers"]):
                found.append(_finding("duplicate", name, "named twice in one file", places))
            else:
                message = f"{_shown(first)} and {_shown(second)} exclude each other"
                found.append(_finding("conflicting", name, message, places))
    return found


def across_files(files):
    """Findings between files: pins outside of ranges, and pins that differ."""
    found = []
    for name, group in sorted(_by_name(files).items()):
        pinned = [(file, requirement) for file, requirement in group if requirement["pin"]]
        ranged = [(file, requirement) for file, requirement in group if not requirement["pin"]]
        for file, pin in pinned:
            for other, limit in ranged:
                apart = file is not other and _same_machines(pin, limit)
                if apart and not satisfies(pin["pin"], limit["specifiers"]):
                    message = f"{_shown(pin)} does not satisfy {_shown(limit)}"
                    found.append(_finding("conflicting", name, message, [_place(file, pin), _place(other, limit)]))
        found += _differing(name, pinned)
    return found


def _differing(name, pinned):
    unlike = set()
    for (i, (file, first)), (j, (other, second)) in combinations(enumerate(pinned), 2):
        if file is not other and _same_machines(first, second) and not equal(first["pin"], second["pin"]):
            unlike |= {i, j}
    if not unlike:
        return []
    chosen = [pinned[i] for i in sorted(unlike)]
    versions = ", ".join(sorted({requirement["pin"] for _, requirement in chosen}))
    return [_finding("differing", name, f"pinned to {versions}", [_place(*pair) for pair in chosen])]


def _by_name(files):
    groups = {}
    for file in files:
        for requirement in file["requirements"]:
            groups.setdefault(requirement["name"], []).append((file, requirement))
    return groups


def _same_machines(first, second):
    return not first["marker"] or not second["marker"] or first["marker"] == second["marker"]


def _place(file, requirement):
    return {"path": file["path"], "line": requirement["line"]}


def _shown(requirement):
    return ",".join(operator + version for operator, version in requirement["specifiers"]) or "any version"


def _finding(kind, package, message, where):
    return {"kind": kind, "package": package, "message": message, "where": where}
