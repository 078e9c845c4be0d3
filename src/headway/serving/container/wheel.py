"""An installed package as a wheel, made from its files as they are here.

A wheel is a zip of the modules and of a folder that says what they are (PEP 427).  Writing one needs neither the
sources of the package nor setuptools nor a network, so it also works for an editable installation.
"""

import base64
import csv
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution
from importlib.util import find_spec
from pathlib import Path

from headway.errors import InputError
from headway.io.regular_file import open_regular

COMPILED = (".so", ".pyd", ".dylib", ".dll")
CACHES = "__pycache__"
ABOUT = ("METADATA", "entry_points.txt", "top_level.txt")
"""What is kept of the folder that describes a package; the rest says how it was installed here."""
IN_EGG_INFO = {"METADATA": "PKG-INFO"}
"""What the older form of that folder, next to an editable package's sources, calls some of them."""
LICENSES = "licenses"
WHEEL = "Wheel-Version: 1.0\nGenerator: headway\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
SECONDS = (1980, 1, 1, 0, 0, 0)
"""The date of every file: the same content gives the same wheel, so that an image is not built again without need."""


def write_wheel(package: Distribution, modules: set[str], folder: Path) -> Path:
    """Write the wheel of an installed package into ``folder``, and return its path.

    ``modules`` are top-level modules that it must hold; those that the package names itself are added.  Raises
    InputError for a package with compiled modules, which run on this system alone, and OSError.
    """
    name = re.sub(r"[-_.]+", "_", package.metadata["Name"]).lower()
    about = f"{name}-{package.version}.dist-info"
    files = dict(_files(package, modules | {*(package.read_text("top_level.txt") or "").split()}))
    files |= {f"{about}/{file}": content for file, content in _about(package)}
    files[f"{about}/WHEEL"] = WHEEL.encode()
    record = f"{about}/RECORD"
    place = folder / f"{name}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(place, "w", zipfile.ZIP_DEFLATED) as wheel:
        for file, content in [*sorted(files.items()), (record, _record(files, record))]:
            entry = zipfile.ZipInfo(file, SECONDS)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            wheel.writestr(entry, content)
    return place


def _files(package: Distribution, modules: set[str]) -> Iterator[tuple[str, bytes]]:
    """The files of the modules, by their names in the wheel."""
    for module in sorted(modules):
        found = find_spec(module)
        origin = Path(found.origin) if found is not None and found.origin is not None else None
        if origin is None or not origin.is_file():
            raise InputError(
                f"{package.metadata['Name']}: its module {module!r} is not in a file, so it is not copied."
            )
        if origin.name != "__init__.py":
            yield _checked(package, origin).name, _content(origin)
            continue
        for path in sorted(origin.parent.rglob("*")):
            if path.is_file() and CACHES not in path.parts:
                name = path.relative_to(origin.parent).as_posix()
                yield f"{module}/{name}", _content(_checked(package, path))


def _checked(package: Distribution, path: Path) -> Path:
    if path.suffix in COMPILED:
        raise InputError(f"{path}: is a compiled part of {package.metadata['Name']}, which a container cannot use.")
    return path


def _about(package: Distribution) -> Iterator[tuple[str, bytes]]:
    for name in ABOUT:
        text = package.read_text(name)
        if text is None and name in IN_EGG_INFO:
            text = package.read_text(IN_EGG_INFO[name])
        if text is not None:
            yield name, text.encode()
    for file in package.files or ():
        if len(file.parts) > 2 and file.parts[0].endswith(".dist-info") and file.parts[1] == LICENSES:
            yield "/".join(file.parts[1:]), _content(Path(str(file.locate())))


def _content(path: Path) -> bytes:
    with open_regular(path) as file:
        return file.read()


def _record(files: dict[str, bytes], record: str) -> bytes:
    """The list of the files with their SHA-256 and sizes, which pip checks; its own line has neither."""
    lines = io.StringIO()
    rows = csv.writer(lines, lineterminator="\n")
    for name, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
        rows.writerow((name, f"sha256={digest}", len(content)))
    rows.writerow((record, "", ""))
    return lines.getvalue().encode()
