"""ViT: our answers are those of transformers for images, in both directions."""

import json

import pytest
import torch
import transformers
from kit import BOUND, B, C, edit_config, theirs
from safetensors.torch import load_file, save_file

from headway.errors import InputError
from headway.hub.directory import load_model, save_model

SIZES = {
    "hidden_size": 42, "intermediate_size": 17, "num_hidden_layers": 3, "num_attention_heads": 3,
    "image_size": [15, 14], "patch_size": [5, 7], "num_channels": 2, "num_labels": C,
}  # fmt: skip
SQUARE = {"image_size": 21, "patch_size": 7, "num_channels": 3}
CASES = {
    "vectors": ("ViTModel", {}),
    "pooler with ReLU": ("ViTModel", {"pooler_act": "relu"}),
    "vectors, square, ReLU": ("ViTModel", {**SQUARE, "hidden_act": "relu"}),
    "classes": ("ViTForImageClassification", {}),
    "classes, square, no biases": ("ViTForImageClassification", {**SQUARE, "qkv_bias": False, "layer_norm_eps": 1e-2}),
    "a rest that is not read": ("ViTForImageClassification", {"image_size": [17, 20]}),
}
MUTATIONS = {
    "ε": {"layer_norm_eps": 1e-2},
    "activation": {"hidden_act": "gelu_new"},
}


def model(name):
    kind, changes = CASES[name]
    return theirs(kind, {**SIZES, **changes}, std=0.5 if kind == "ViTModel" else 0.3)


def images(other, size=None):
    config = other.config
    height, width = size or (config.image_size if isinstance(config.image_size, list) else [config.image_size] * 2)
    return torch.randn(B, config.num_channels, height, width, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def difference(ours, other, size=None):
    """The largest difference between the answers, which must spread enough to show one."""
    pixels = images(other, size).to(next(other.parameters()).dtype)
    found, answer = ours(pixels), other(pixel_values=pixels, interpolate_pos_encoding=size is not None)
    expected = answer.logits if "logits" in answer else answer.last_hidden_state
    assert found.shape == expected.shape
    assert expected.std() >= 1, f"the answers spread by {expected.std():.2f} only"
    if "logits" not in answer and other.pooler is not None and ours.pooler is not None:
        assert (ours.pooled(pixels) - answer.pooler_output).abs().max() <= BOUND
    return float((found - expected).abs().max())


def loaded(other, directory):
    other.save_pretrained(directory)
    ours = load_model(directory)
    assert not ours.training
    assert difference(ours, other) <= BOUND
    return ours


@pytest.mark.parametrize("name", CASES)
def test_their_model_here_and_ours_there(name, tmp_path):
    other = model(name)
    ours = loaded(other, tmp_path / "theirs")
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    save_model(ours, tmp_path / "ours")
    back, report = type(other).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[problem] for problem in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    assert difference(ours, back.eval()) <= BOUND
    again = load_model(tmp_path / "ours")
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), again.parameters(), strict=True))


def test_vectors_without_a_pooler(tmp_path):
    other = model("vectors")
    other.pooler = None
    ours = loaded(other, tmp_path)
    assert ours.pooler is None
    with pytest.raises(ValueError, match="no pooler"):
        ours.pooled(images(other))


@pytest.mark.parametrize("name", ["classes", "vectors, square, ReLU"])
@pytest.mark.parametrize("size", [[28, 35], [42, 21], [7, 14], [23, 30]])
def test_other_sizes_of_images_are_interpolated_on_request_and_refused_otherwise(name, size, tmp_path):
    other = theirs(CASES[name][0], {**SIZES, **SQUARE}, std=0.5 if "vectors" in name else 0.3)
    ours = loaded(other, tmp_path)
    with pytest.raises(ValueError, match=f"images are {size[0]} × {size[1]}, but this model was trained on 21 × 21"):
        ours(images(other, size))
    ours.stack.embedding.interpolate = True
    assert difference(ours.double(), other.double(), size) <= 1e-9  # in float32, what rounds off differs by processor


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_wrong_number_in_the_configuration_shows(mutation, tmp_path):
    other = model("classes")
    loaded(other, tmp_path)
    edit_config(tmp_path, **MUTATIONS[mutation])
    assert difference(load_model(tmp_path), other) > BOUND


def patch_axes_swapped(ours):
    """The columns of the matrix as (C, Q, P)."""
    weight = ours.stack.embedding.projection.weight
    weight.data = weight.data.unflatten(1, (2, 5, 7)).transpose(2, 3).flatten(1)


def channels_last(ours):
    weight = ours.stack.embedding.projection.weight
    weight.data = weight.data.unflatten(1, (2, 35)).transpose(1, 2).flatten(1)


def next_positions(ours):
    ours.stack.embedding.learned.table.weight.data = ours.stack.embedding.learned.table.weight.data.roll(-1, 0)


def no_class_token(ours):
    ours.stack.embedding.tokens.weight.data.zero_()


def post_norm(ours):
    for block in ours.stack.blocks:
        block.attention.pre = block.feedforward.pre = False


def no_last_norm(ours):
    ours.stack.norm = torch.nn.Identity()


def mean_pooling(ours):
    ours.head.pooling = "mean"


WRONG = [patch_axes_swapped, channels_last, next_positions, no_class_token, post_norm, no_last_norm, mean_pooling]


@pytest.mark.parametrize("mutate", WRONG)
def test_a_wrong_wiring_shows(mutate, tmp_path):
    other = model("classes")
    ours = loaded(other, tmp_path)
    mutate(ours)
    assert difference(ours, other) > BOUND


def test_an_old_file_with_a_pooler_and_a_mask_token_beside_the_classifier(tmp_path):
    other = model("classes")
    other.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    extra = {"vit.embeddings.mask_token": torch.ones(1, 1, 42), "vit.pooler.dense.weight": torch.ones(42, 42)}
    save_file({**load_file(path), **extra}, path)
    ours = load_model(tmp_path)
    assert ours.pooler is None and difference(ours, other) <= BOUND


SPOILED = {
    "patches of another shape": ({"patch_size": [7, 5]}, "expected"),
    "a number for three": ({"patch_size": [5, 7, 3]}, "patch_size is .* height and width"),
    "a word": ({"image_size": "large"}, "image_size is"),
    "patches larger than the image": ({"patch_size": 16}, "must not exceed image_size"),
    "a pooler of another width": ({"pooler_output_size": 7}, "pooler_output_size 7 is not supported, only 42"),
}


@pytest.mark.parametrize("problem", SPOILED)
def test_a_configuration_that_does_not_fit_is_refused(problem, tmp_path):
    wrong, said = SPOILED[problem]
    model("classes").save_pretrained(tmp_path)
    edit_config(tmp_path, **wrong)
    with pytest.raises(InputError, match=said):
        load_model(tmp_path)


def test_numbers_are_written_for_squares_and_lists_for_other_sizes(tmp_path):
    for name, image, patch in (("classes", [15, 14], [5, 7]), ("classes, square, no biases", 21, 7)):
        model(name).save_pretrained(tmp_path)
        save_model(load_model(tmp_path), tmp_path / "ours")
        written = json.loads((tmp_path / "ours" / "config.json").read_text())
        assert (written["image_size"], written["patch_size"]) == (image, patch)
        config = transformers.ViTConfig.from_pretrained(tmp_path / "ours")
        assert (config.image_size, config.patch_size) == (image, patch)
