"""``preprocessor_config.json``: what is read, what is refused; the numbers are checked in tests/data."""

import json

import pytest

from headway.errors import InputError
from headway.hub.preprocessor import FILE, ImagePreprocessor, load_preprocessor, save_preprocessor


def write(directory, **entries):
    (directory / FILE).write_text(json.dumps(entries))
    return directory


def test_the_older_form(tmp_path):
    older = {"feature_extractor_type": "ViTFeatureExtractor", "size": 31, "image_std": 0.7, "resample": 3}
    more = {"image_mean": [0.1, 0.2, 0.3], "do_flip_channel_order": True}
    found = load_preprocessor(write(tmp_path, **older, **more))
    expected = {"size": (31, 31), "mean": (0.1, 0.2, 0.3), "std": (0.7,) * 3, "resample": "bicubic"}
    assert found == ImagePreprocessor(**expected, channel_order="bgr")
    with pytest.raises(ValueError, match="only rgb"):
        save_preprocessor(found, tmp_path / "new")
    assert not (tmp_path / "new").exists()


REFUSED = {
    "a side": ({"size": {"shortest_edge": 224}}, "size has shortest_edge, expected height and width"),
    "no size": ({"size": {"height": 0, "width": 7}}, r"size is \(0, 7\)"),
    "a word for a size": ({"size": "large"}, "size is"),
    "a filter": ({"resample": 9}, "resample is 9, expected a number from 0 to 5"),
    "two means": ({"image_mean": [0.5, 0.5]}, "mean is .* three numbers"),
    "a division by zero": ({"image_std": [0.5, 0, 0.5]}, "std is .* above 0"),
    "a word for a flag": ({"do_resize": "yes"}, "do_resize is 'yes'"),
    "a negative factor": ({"rescale_factor": -1}, "rescale_factor is -1"),
    "cropping": ({"do_center_crop": True}, "do_center_crop is true, which is not supported"),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_what_cannot_be_done_is_refused(problem, tmp_path):
    wrong, said = REFUSED[problem]
    with pytest.raises(InputError, match=rf"preprocessor_config\.json: {said}"):
        load_preprocessor(write(tmp_path, **wrong))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(InputError, match=FILE):
        load_preprocessor(tmp_path)
    assert load_preprocessor(write(tmp_path)) == ImagePreprocessor(), "what is left out is ViT's default"
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InputError, match=FILE):
        load_preprocessor(tmp_path)
