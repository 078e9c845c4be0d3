"""Folders of images by class, and arrays: what is read, what is decided of it, what is refused and how."""

import io
import os
import shutil
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from headway.data.images.batch_source import decoded
from headway.data.images.folder import are_images, images_in
from headway.data.images.image_table import ImageTable
from headway.data.open.read import read
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor
from headway.training.options import TrainOptions
from headway.training.sizing.vit import cut_of
from headway.workflows.input import detect

Image = pytest.importorskip("PIL.Image")
MODES = {"grey": ("L", "png"), "colour": ("RGB", "png"), "palette": ("P", "gif"), "photo": ("RGB", "jpg")}
HOW = ImagePreprocessor(size=(7, 5))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes of 13 images each, of sizes and modes of their own."""
    draw = np.random.default_rng(0)
    for label in ("ants", "bees", "cats"):
        (tmp_path / "animals" / label).mkdir(parents=True)
        for number in range(13):
            mode, ending = MODES[list(MODES)[number % 4]]
            image = draw.integers(0, 256, (11 + number, 17, 3), dtype=np.uint8)
            Image.fromarray(image).convert(mode).save(tmp_path / "animals" / label / f"{number:02}.{ending}")
    return tmp_path / "animals"


def refusal(*inputs: Path, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        source = read(list(inputs), **options)
        detect(source)
        if isinstance(source, ImageTable):
            decoded(source, HOW)
    return str(caught.value)


def test_a_folder_of_every_mode(folder: Path):
    (folder / ".hidden").mkdir()
    (folder / "ants" / ".DS_Store").write_bytes(b"x")
    (folder / "ants" / "Thumbs.db").write_bytes(b"x")
    source = read(folder)
    assert isinstance(source, ImageTable) and len(source) == 39
    found = detect(source)
    assert (found.task, found.text_column, found.label_column) == ("image_classification", None, None)
    assert "39 images in 3 classes, 11 × 17 to 23 × 17 pixels" in found.reasons[0]
    assert source.labels == ["ants"] * 13 + ["bees"] * 13 + ["cats"] * 13
    assert source.median_size == (17, 17) and source.inputs == [str(folder)]
    ready = decoded(source, HOW)
    assert ready.pixels.shape == (39, 7, 5, 3) and ready.pixels[:].dtype == np.uint8 and not ready.warnings
    expected = np.array(Image.open(folder / "bees" / "01.png").resize((5, 7), Image.Resampling.BILINEAR))
    assert np.array_equal(ready.pixels[14], expected)
    assert [path.name for path in images_in(folder)][:2] == ["00.png", "01.png"]


def test_the_fingerprint_is_that_of_names_and_contents(folder: Path, tmp_path: Path):
    before = read(folder).fingerprint
    shutil.copytree(folder, tmp_path / "elsewhere")
    assert read(tmp_path / "elsewhere").fingerprint == before
    (folder / "ants" / "00.png").rename(folder / "bees" / "new.png")
    moved = read(folder).fingerprint
    (folder / "bees" / "new.png").write_bytes((folder / "cats" / "00.png").read_bytes())
    assert len({before, moved, read(folder).fingerprint}) == 3


def test_what_is_odd_is_said(folder: Path):
    (folder / "labels.json").write_text("{}")
    shutil.copy(folder / "ants" / "00.png", folder / "bees" / "same.png")
    Image.open(folder / "ants" / "01.png").save(folder / "ants" / "again.bmp")
    ready = decoded(read(folder), HOW)
    assert ready.warnings == [
        "1 files that are not images are left out, such as labels.json",
        "2 images with the same pixels as another; they stay on one side of the split",
        "1 image in more than one class, the first in 'ants' and 'bees'",
    ]
    assert len(set(ready.hashes.tolist())) == len(ready) - 2


LAID_OUT = {
    "loose": ("5.png", "has images without a class, such as 5.png; expected a folder for each class"),
    "nested": ("ants/deep/5.png", "ants/deep is a folder in a class; classes are the folders directly in"),
    "texts": ("bees/notes.txt", "holds texts (bees/notes.txt) and images (ants/00.png); keep one kind"),
    "other": ("dogs/notes.doc", "there is no image in dogs, only others such as dogs/notes.doc"),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_another_layout_is_refused(name: str, folder: Path):
    place, said = LAID_OUT[name]
    (folder / place).parent.mkdir(exist_ok=True)
    shutil.copy(folder / "ants" / "00.png", folder / place)
    assert said in refusal(folder)


def test_empty_classes_one_class_and_parts(folder: Path, tmp_path: Path):
    (folder / "none").mkdir()
    assert "there is no image in none (" in refusal(folder)
    shutil.rmtree(folder / "none")
    parts = tmp_path / "parts"
    for part in ("train", "test"):
        shutil.copytree(folder, parts / part)
    assert f"train on {parts / 'train'} and name the rest: --validation {parts / 'test'}" in refusal(parts)
    shutil.rmtree(folder / "ants"), shutil.rmtree(folder / "bees")
    assert "holds only one class, 'cats' (13 images)" in refusal(folder)
    assert "has images without a class" in refusal(folder / "cats")
    (tmp_path / "notes").mkdir()
    assert "this folder is empty; expected .txt or .parquet files in it, or a folder of images" in refusal(
        tmp_path / "notes"
    )


def test_links_and_pipes_are_not_followed(folder: Path, tmp_path: Path):
    outside = tmp_path / "outside.png"
    shutil.copy(folder / "ants" / "00.png", outside)
    (folder / "ants" / "inside.png").symlink_to(folder / "ants" / "00.png")
    assert len(read(folder)) == 40
    (folder / "ants" / "link.png").symlink_to(outside)
    assert "expected a link that stays inside" in refusal(folder)
    (folder / "ants" / "link.png").unlink()
    (folder / "dogs").symlink_to(tmp_path)
    assert "expected a link that stays inside" in refusal(folder)
    (folder / "dogs").unlink()
    os.mkfifo(folder / "ants" / "pipe.png")
    assert "found a pipe" in refusal(folder)


def png(width: int, height: int) -> bytes:
    """A small file whose header promises an image of that size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(999))) + chunk(b"IEND", b"")
    )


def sixteen_bits() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((5, 7), 4096, dtype=np.uint16)).save(file, "PNG")
    return file.getvalue()


def whole() -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (31, 37, 3), dtype=np.uint8)).save(file, "PNG")
    return file.getvalue()


BROKEN = {
    "cut short": (lambda: whole()[:900], "cannot be read as an image"),
    "a text": (lambda: b"hello", "cannot be read as an image (it is not one of PNG, JPEG"),
    "empty": (lambda: b"", "cannot be read as an image"),
    "huge": (lambda: png(60_000, 60_000), "too large"),
    "PostScript": (lambda: b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is not one of PNG"),
    "16 bits": (sixteen_bits, "has more than 8 bits per channel (I;16)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_image_is_named_or_left_out(name: str, folder: Path):
    make, said = BROKEN[name]
    path = folder / "bees" / "new.png"
    path.write_bytes(make())
    message = refusal(folder)
    assert message.startswith(str(path)) and said in message and "--on-bad-row skip" in message
    ready = decoded(read(folder, on_bad_row="skip"), HOW)
    assert len(ready) == 39 and ready.labels.count("bees") == 13
    assert "1 image left out, the first: " in ready.warnings[0] and str(path) in ready.warnings[0]


def test_too_many_broken_ones_are_refused(folder: Path):
    for number in range(6):
        (folder / "bees" / f"x{number}.png").write_bytes(b"hello")
    assert "6 of 45 images cannot be read" in refusal(folder, on_bad_row="skip")


def arrays(path: Path, **given: np.ndarray) -> Path:
    np.savez(path, **given)
    return path


def test_arrays_are_read(tmp_path: Path):
    draw = np.random.default_rng(1)
    images, labels = draw.random((23, 5, 7)), np.arange(23) % 2
    source = read(arrays(tmp_path / "a.npz", images=images, labels=labels))
    assert isinstance(source, ImageTable) and source.labels[:3] == ["0", "1", "0"] and source.sizes[0] == (5, 7)
    expected = np.rint(images * 255).astype(np.uint8)
    ready = decoded(source, ImagePreprocessor(size=(5, 7)))
    assert np.array_equal(ready.pixels, np.repeat(expected[..., None], 3, axis=3))
    texts = np.where(labels, "yes", "no")
    same = read(arrays(tmp_path / "b.npz", images=np.stack([expected] * 3, axis=3), labels=texts))
    assert np.array_equal(decoded(same, ImagePreprocessor(size=(5, 7))).pixels, ready.pixels)
    assert set(same.labels) == {"yes", "no"} and same.fingerprint != source.fingerprint
    both = read([tmp_path / "a.npz", tmp_path / "b.npz"])
    assert len(both) == 46 and both.starts == [0, 23]


GOOD = np.zeros((4, 5, 7), dtype=np.uint8)
TWO = np.array([0, 1, 0, 1])
WRONG = {
    "names": ({"x": GOOD, "y": TWO}, "holds x, y; expected images (N, H, W)"),
    "shape": ({"images": GOOD[0], "labels": TWO}, "images has shape [5, 7]"),
    "channels": ({"images": np.zeros((4, 5, 7, 4), np.uint8), "labels": TWO}, "images has shape [4, 5, 7, 4]"),
    "none": ({"images": GOOD[:0], "labels": TWO[:0]}, "images has shape [0, 5, 7]"),
    "range": ({"images": GOOD + 16.0, "labels": TWO}, "float numbers from 16 to 16, expected 0 (black) to 1"),
    "not finite": ({"images": GOOD * np.nan, "labels": TWO}, "that are not finite"),
    "type": ({"images": GOOD.astype(np.int64), "labels": TWO}, "numbers of type int64"),
    "labels": ({"images": GOOD, "labels": TWO[:3]}, "labels has shape [3], expected [4]"),
    "float labels": ({"images": GOOD, "labels": TWO / 2}, "labels are of type float64"),
    "empty label": ({"images": GOOD, "labels": np.array(["a", "", "a", "b"])}, "labels[1] is empty"),
    "one class": ({"images": GOOD, "labels": TWO * 0}, "holds only one class, '0'"),
    "objects": ({"images": GOOD, "labels": np.array([0, 1, None, 1], dtype=object)}, "which could run code"),
}


@pytest.mark.parametrize("name", WRONG)
def test_arrays_of_another_kind_are_refused(name: str, tmp_path: Path):
    given, said = WRONG[name]
    assert said in refusal(arrays(tmp_path / "wrong.npz", **given))


def test_a_damaged_archive_is_refused(tmp_path: Path):
    path = arrays(tmp_path / "good.npz", images=GOOD, labels=TWO)
    content = path.read_bytes()
    (tmp_path / "cut.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "text.npz").write_bytes(b"hello")
    for name in ("cut.npz", "text.npz"):
        assert "is not an .npz file, or is damaged" in refusal(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "lies.npz", "w") as archive:
        archive.writestr("labels.npy", b"")
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 40, 9, 9)})
        archive.writestr("images.npy", header.getvalue())
    assert "cannot be read as arrays of NumPy" in refusal(tmp_path / "lies.npz")
    assert "no such file; expected a .npz file" in refusal(tmp_path / "missing.npz")


def test_tasks_and_columns_that_do_not_fit(folder: Path, tmp_path: Path):
    source = read(folder)
    with pytest.raises(
        InputError, match="holds images, which are data for image_classification, not for classification"
    ):
        detect(source, task="classification")
    with pytest.raises(InputError, match="holds images, which have no columns to name"):
        detect(source, label_column="label")
    (tmp_path / "rows.csv").write_text("text,label\na b,x\nc d,y\n")
    with pytest.raises(InputError, match="holds no images; image_classification needs a folder"):
        detect(read(tmp_path / "rows.csv"), task="image_classification")
    assert "give inputs of one kind" in refusal(folder, tmp_path / "rows.csv")
    assert are_images([folder]) and not are_images([tmp_path / "rows.csv"])


@pytest.mark.parametrize(
    ("size", "options", "image", "patch"),
    [
        ((8, 8), {}, (8, 8), 2),
        ((28, 28), {}, (28, 28), 4),
        ((32, 32), {}, (32, 32), 4),
        ((480, 640), {}, (64, 64), 8),
        ((31, 45), {}, (30, 45), 5),
        ((480, 640), {"image_size": 96}, (96, 96), 12),
        ((480, 640), {"image_size": 100}, (100, 100), 20),
        ((480, 640), {"image_size": 97}, (97, 97), 13),
        ((480, 640), {"image_size": 32, "patch_size": 8}, (32, 32), 8),
        ((9, 3), {"patch_size": 3}, (9, 3), 3),
    ],
)
def test_how_images_are_cut(size: tuple, options: dict, image: tuple, patch: int, tmp_path: Path):
    source = read(arrays(tmp_path / "a.npz", images=np.zeros((4, *size), np.uint8), labels=TWO))
    found = cut_of(source, TrainOptions(**options))
    assert (found.image_size, found.patch_size) == (image, (patch, patch))
    again = read(arrays(tmp_path / "b.npz", images=np.zeros((4, *image), np.uint8), labels=TWO))
    assert cut_of(again, TrainOptions(**{**options, "patch_size": patch})) == found, "what verify replays is cut alike"


def test_patches_that_do_not_fit(tmp_path: Path):
    source = read(arrays(tmp_path / "a.npz", images=GOOD, labels=TWO))
    with pytest.raises(InputError, match="--patch-size is 6, more than a side of the images, which are 5 × 7"):
        cut_of(source, TrainOptions(patch_size=6))
    with pytest.raises(InputError, match="tokens each, more than 16,384"):
        cut_of(source, TrainOptions(image_size=999, patch_size=1))


def test_many_images_are_in_a_file_and_read_as_those_in_memory(folder: Path, monkeypatch: pytest.MonkeyPatch):
    held = decoded(read(folder), HOW)
    monkeypatch.setattr("headway.data.images.batch_source.IN_MEMORY", 200)
    monkeypatch.setattr("headway.data.images.batch_source.AT_ONCE", 4)
    found = decoded(read(folder), HOW)
    assert held.pixels.held == 39 * 7 * 5 * 3 and found.pixels.held == 0
    assert (found.labels, [*found.hashes], found.warnings) == (held.labels, [*held.hashes], held.warnings)
    rows = np.array([38, 3, 3, 17])
    parts = zip(found.split(5), held.split(5), strict=True)
    for one, other in ((found, held), (found.part(rows), held.part(rows)), *parts):
        assert one.pixels.shape == other.pixels.shape and np.array_equal(one.pixels, other.pixels)
        assert one.numbered(["ants", "bees", "cats"]).tolist() == other.numbered(["ants", "bees", "cats"]).tolist()
    whole = np.array(held.pixels)
    assert np.array_equal(found.pixels[2:5], whole[2:5]) and np.array_equal(found.pixels[rows], whole[rows])
    assert all(np.array_equal(one, other) for one, other in zip(found.pixels, whole, strict=True))


def test_parts_of_the_data_are_no_classes(folder: Path):
    for old, new in (("ants", "train"), ("bees", "test")):
        (folder / old).rename(folder / new)
    shutil.rmtree(folder / "cats")
    assert f"test and train look like parts of the data; train on {folder / 'train'}" in refusal(folder)
