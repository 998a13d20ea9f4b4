"""An ISO week and the days in it."""

import re
from dataclasses import dataclass
from datetime import date, timedelta


@dataclass(frozen=True)
class Week:
    """Monday to Sunday of one ISO week."""

    name: str
    monday: date
    sunday: date

    @classmethod
    def parse(cls, text):
        """The week of a text such as `2026-W48`; raises ValueError for anything else."""
        found = re.fullmatch(r"(\d{4})-W(\d\d)", text.strip()) if isinstance(text, str) else None
        if found is None:
            raise ValueError(f"task is an ISO week such as 2026-W48, not {text!r}")
        monday = date.fromisocalendar(int(found.group(1)), int(found.group(2)), 1)
        return cls(found.group(), monday, monday + timedelta(days=6))

    def holds(self, day):
        """Whether the day lies in the week."""
        return self.monday <= day <= self.sunday
