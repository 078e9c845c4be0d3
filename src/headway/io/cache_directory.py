"""Where caches are kept: tokens, images, and the models of adapters merged into their bases."""

import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """Where caches are kept: $HEADWAY_CACHE, $XDG_CACHE_HOME/headway or ~/.cache/headway; created.

    Where that cannot be written, a folder for temporary files that belongs to this user alone.
    """
    chosen = os.environ.get("HEADWAY_CACHE")
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        path = Path(chosen) if chosen else (Path(base) if base else Path.home() / ".cache") / "headway"
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            return path
    except (OSError, RuntimeError):
        pass
    user = os.getuid() if hasattr(os, "getuid") else "user"
    shared = Path(tempfile.gettempdir()) / f"headway-cache-{user}"
    try:
        shared.mkdir(mode=0o700, exist_ok=True)
        status = shared.lstat()
        if shared.is_dir() and not shared.is_symlink() and status.st_uid == user and not status.st_mode & 0o022:
            return shared
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="headway-cache-"))
