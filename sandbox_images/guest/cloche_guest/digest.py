"""SHA-256 without OpenSSL for what is small: loading it takes 2.6 ms and most of a mebibyte in every cell that starts or waits."""

from __future__ import annotations

from typing import Any

try:
    import _sha256 as library  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # another interpreter than the image's own
    import hashlib as library

sha256: Any = library.sha256

_LARGE_BYTES = 1024 * 1024


def sha256_hex(data: bytes) -> str:
    """64 hex digits. Large data is worth the library, which is several times as fast."""
    if len(data) >= _LARGE_BYTES:
        import hashlib

        return hashlib.sha256(data).hexdigest()
    return str(sha256(data).hexdigest())
