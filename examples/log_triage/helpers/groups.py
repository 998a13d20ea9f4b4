"""Errors grouped by level, component and shape, in bounded memory."""

from .shapes import shape_of

SHAPES = 5_000
SAMPLE = 300


class Group:
    """Errors that look alike. `first` and `last` are by time, whatever the order of files and lines."""

    __slots__ = ("component", "count", "files", "first", "last", "level", "sample", "shape")

    def __init__(self, level, component, shape, moment, sample):
        self.level = level
        self.component = component
        self.shape = shape
        self.count = 0
        self.first = moment
        self.last = moment
        self.files = set()
        self.sample = sample


class Groups:
    """All groups, and what was counted on the way. Past `SHAPES` groups, errors of new shapes only count as `other`."""

    def __init__(self):
        self.lines = 0
        self.bytes = 0
        self.errors = 0
        self.other = 0
        self.unparsed = 0
        self._groups = {}

    def __len__(self):
        return len(self._groups)

    def __iter__(self):
        return iter(self._groups.values())

    def add(self, path, line, moment, level, component, message):
        """Count one error."""
        self.errors += 1
        shape = shape_of(message)
        group = self._groups.get((level, component, shape))
        if group is None:
            if len(self._groups) >= SHAPES:
                self.other += 1
                return
            group = self._groups[level, component, shape] = Group(level, component, shape, moment, line[:SAMPLE])
        group.count += 1
        group.first = min(group.first, moment)
        group.last = max(group.last, moment)
        group.files.add(path)
