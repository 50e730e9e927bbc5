"""Files that appear whole or not at all, whoever else writes the same path meanwhile.

Owns the name beside the place and the move into it. Invariant: a path holds what one writer wrote, from its first byte
to its last, and a writer that fails leaves nothing behind.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A name may have 255 bytes; what was left by a killed process should still tell where it belongs.
_SHOWN = 40


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield the path of a new, empty file, which takes the place of `path` when the block ends.

    Args:
        path: The file. One that is there is replaced; its folder must be there.

    Raises:
        OSError: If it cannot be written.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name[:_SHOWN]}.{secrets.token_hex(8)}.part")
    with beside.open("xb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    try:
        yield beside
        beside.chmod(mode)  # that of any new file, also where the block put a private one in its place
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
