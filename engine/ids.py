"""Identifiers: the only place on the host where randomness is drawn."""

from __future__ import annotations

import re
import secrets
from datetime import datetime

RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{8}")
"""UTC timestamp + random suffix, sortable by start."""

CELL_ID = re.compile(r"c[0-9a-f]{16}")
WORKFLOW_ID = re.compile(r"[a-z][a-z0-9_]{0,79}")
REVISION = re.compile(r"[0-9a-f]{40}")
SESSION_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


def new_run_id(now: datetime) -> str:
    """A fresh run id, e.g. `20261130T132807Z-1f2e3d4c`."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"


def new_cell_id() -> str:
    """A fresh cell id, unique on the machine for all practical purposes."""
    return f"c{secrets.token_hex(8)}"


def new_nonce() -> str:
    """128 random bits, hex: proves that a hello answers this start and no other."""
    return secrets.token_hex(16)


def new_home_id() -> str:
    """Names a home in the labels of its containers, 32 hex digits."""
    return secrets.token_hex(16)


def new_seed() -> bytes:
    """16 random bytes for recorded draws."""
    return secrets.token_bytes(16)
