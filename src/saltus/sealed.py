"""Files that tell whether they are whole: written at once or not at all, with a SHA-256 of what they hold.

A checksum tells damage; it is no signature, since whoever can write a file can write its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

_MARK = b"\nsaltus\n"  # between contents and checksum
_SIZE = hashlib.sha256().digest_size


def put(path: Path, content: bytes) -> Path:
    """Write a file; half of one never takes the place of a whole one, whichever thread or process is cut off."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def seal(content: bytes) -> bytes:
    """Contents with their checksum behind them, where readers of most binary formats do not look."""
    return content + _MARK + hashlib.sha256(content).digest()


def unseal(whole: bytes) -> bytes | None:
    """Contents of what `seal` gave; None if they are not those that were sealed."""
    content = whole[: -len(_MARK) - _SIZE]
    return content if content and seal(content) == whole else None


def checksum(data: Any) -> str:
    """SHA-256 of what JSON can hold, whatever the order of its names."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
