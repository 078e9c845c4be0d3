"""Images: the numbers are those of transformers, and what is no image is refused."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest
import torch

from headway.data.images.preprocessing import preprocess, read_image
from headway.errors import InputError
from headway.hub.preprocessor import ImagePreprocessor, load_preprocessor, save_preprocessor

Image = pytest.importorskip("PIL.Image")
RANDOM = np.random.default_rng(0)
COLOUR = RANDOM.integers(0, 256, (53, 37, 3), dtype=np.uint8)
GREY = RANDOM.integers(0, 256, (29, 41), dtype=np.uint8)
CASES = {
    "default": ImagePreprocessor(),
    "smaller": ImagePreprocessor(size=(23, 31), resample="bicubic"),
    "the ImageNet mean": ImagePreprocessor(size=(41, 29), mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
    "nearest": ImagePreprocessor(size=(19, 17), resample="nearest"),
    "lanczos": ImagePreprocessor(size=(19, 61), resample="lanczos", rescale_factor=1 / 127),
    "bytes": ImagePreprocessor(size=(19, 17), do_rescale=False, do_normalize=False),
    "no mean": ImagePreprocessor(size=(19, 17), do_normalize=False),
}


@pytest.fixture(scope="module")
def theirs():
    from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

    return ViTImageProcessorPil


@pytest.mark.parametrize("name", CASES)
def test_as_transformers_does(name, theirs, tmp_path):
    """Through the file, in both directions, for images in colour and grey."""
    save_preprocessor(CASES[name], tmp_path)
    processor = theirs.from_pretrained(tmp_path)
    for image in (COLOUR, GREY):
        expected = processor(Image.fromarray(image), return_tensors="pt")["pixel_values"]
        found = preprocess([image], CASES[name])
        assert found.dtype == torch.float32 and found.shape == (1, 3, *CASES[name].size)
        torch.testing.assert_close(found, expected.float(), rtol=0, atol=1e-5)
    processor.save_pretrained(tmp_path / "again")
    assert load_preprocessor(tmp_path / "again") == CASES[name] == load_preprocessor(tmp_path)


@pytest.mark.parametrize(
    "wrong",
    [{"resample": "bicubic"}, {"mean": (0.5, 0.4, 0.5)}, {"std": (0.5, 0.5, 0.4)}, {"rescale_factor": 1 / 256}],
)
def test_a_wrong_number_shows(wrong):
    right = preprocess([COLOUR], ImagePreprocessor(size=(19, 17)))
    assert (preprocess([COLOUR], ImagePreprocessor(size=(19, 17), **wrong)) - right).abs().max() > 1e-3


def test_a_batch_is_its_images_one_by_one():
    how = ImagePreprocessor(size=(19, 17))
    batch = preprocess([COLOUR, GREY, GREY[:, :, None]], how)
    assert torch.equal(batch, torch.cat([preprocess([image], how) for image in (COLOUR, GREY, GREY)]))


def test_by_hand_without_pillow(monkeypatch):
    """An image of the right size needs no resizing; red comes first, or last."""
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    image = np.zeros((2, 3, 3), dtype=np.uint8)
    image[0, 1] = (255, 51, 0)
    how = ImagePreprocessor(size=(2, 3), mean=(0.5, 0.0, 0.0), std=(0.25, 1.0, 1.0))
    found = preprocess([image], how)
    assert found[0, :, 0, 1].tolist() == pytest.approx([2.0, 0.2, 0.0])
    assert found[0, :, 1, 1].tolist() == [-2.0, 0.0, 0.0]
    plain = {"size": (2, 3), "do_normalize": False}
    blue_first = preprocess([image], ImagePreprocessor(**plain, channel_order="bgr"))
    assert torch.equal(blue_first, preprocess([image], ImagePreprocessor(**plain)).flip(1))
    with pytest.raises(InputError, match="needs Pillow"):
        preprocess([image], ImagePreprocessor(size=(5, 7)))


@pytest.mark.parametrize(
    "image",
    [
        COLOUR.astype(np.float32),
        RANDOM.integers(0, 256, (5, 7, 4), dtype=np.uint8),
        np.zeros((3,), dtype=np.uint8),
        np.zeros((0, 7, 3), dtype=np.uint8),
        [[1, 2]],
    ],
)
def test_an_array_of_another_kind_is_refused(image):
    with pytest.raises(ValueError, match=r"expected uint8 \[H, W, 3\]"):
        preprocess([image], ImagePreprocessor())


def test_images_that_are_not_resized_must_agree_in_size():
    with pytest.raises(ValueError, match="29 × 41, 53 × 37"):
        preprocess([COLOUR, GREY], ImagePreprocessor(do_resize=False))
    with pytest.raises(ValueError, match="no images"):
        preprocess([], ImagePreprocessor())


def test_files_of_every_mode_are_read(tmp_path):
    Image.fromarray(COLOUR).save(tmp_path / "colour.png")
    assert np.array_equal(read_image(tmp_path / "colour.png"), COLOUR)
    Image.fromarray(GREY).save(tmp_path / "grey.png")
    assert np.array_equal(read_image(tmp_path / "grey.png"), np.stack([GREY] * 3, axis=2))
    for mode, ending in (("RGBA", "png"), ("P", "gif"), ("1", "png"), ("CMYK", "jpeg"), ("LA", "png")):
        Image.fromarray(COLOUR).convert(mode).save(tmp_path / f"{mode}.{ending}")
        found = read_image(tmp_path / f"{mode}.{ending}")
        assert found.shape == (53, 37, 3) and found.dtype == np.uint8


def test_an_image_is_turned_as_the_camera_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    Image.fromarray(COLOUR).save(tmp_path / "turned.png", exif=exif)
    assert np.array_equal(read_image(tmp_path / "turned.png"), np.rot90(COLOUR, -1))


def test_a_file_that_is_no_image_is_refused(tmp_path):
    Image.fromarray(COLOUR).save(tmp_path / "whole.png")
    whole = (tmp_path / "whole.png").read_bytes()
    for name, content in (("cut.png", whole[: len(whole) // 2]), ("text.png", b"hello"), ("empty.png", b"")):
        (tmp_path / name).write_bytes(content)
    for name in ("cut.png", "text.png", "empty.png", "missing.png", "."):
        with pytest.raises(InputError, match=r"no such file|cannot be read as an image|found a folder"):
            read_image(tmp_path / name)


def test_an_image_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    Image.fromarray(COLOUR).save(tmp_path / "large.png")
    with pytest.raises(InputError, match="too large"):
        read_image(tmp_path / "large.png")
