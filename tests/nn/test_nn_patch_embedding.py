"""Images as tokens, by hand, and against a convolution."""

import pytest
import torch
import torch.nn.functional as F

from headway.models.config import Patches, Positions, TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Encoder, patch_embedding
from headway.nn.patch_embedding import PatchEmbedding

B, C, D = 3, 2, 11
SIZE, PATCH = (15, 14), (5, 7)  # 3 rows, 2 columns


def embedding(**changes):
    torch.manual_seed(0)
    return PatchEmbedding(D, SIZE, PATCH, C, **changes)


def test_each_patch_is_a_token_in_the_order_of_reading():
    """A matrix that gives a patch's first number shows which patch stands where."""
    part = embedding()
    with torch.no_grad():
        part.projection.weight.zero_()[0, 0] = 1
        part.projection.bias.zero_()
        part.learned.table.weight.zero_()
        part.tokens.weight.fill_(-1)
    images = torch.arange(B * C * 15 * 14).float().view(B, C, 15, 14)
    found = part(images)
    assert found.shape == (B, 7, D)
    corners = [images[1, 0, row, column].item() for row in (0, 5, 10) for column in (0, 7)]
    assert found[1, :, 0].tolist() == [-1.0, *corners]


def test_it_is_a_convolution_with_steps_of_a_patch():
    part, images = embedding(), torch.randn(B, C, *SIZE)
    kernel = part.projection.weight.unflatten(1, (C, *PATCH))
    expected = F.conv2d(images, kernel, part.projection.bias, stride=PATCH).flatten(2).transpose(1, 2)
    torch.testing.assert_close(part(images)[:, 1:], expected + part.learned.table.weight[1:])
    torch.testing.assert_close(part(images)[:, 0], (part.tokens.weight + part.learned.table.weight[:1]).expand(B, -1))


def test_what_is_left_over_is_not_read():
    part = PatchEmbedding(D, (17, 20), PATCH, C)
    images = torch.randn(B, C, 17, 20)
    other = images.clone()
    other[:, :, 15:], other[:, :, :, 14:] = 7.0, 7.0
    assert part(images).shape == (B, 7, D) and torch.equal(part(images), part(other))


def test_images_that_do_not_fit_are_refused():
    part = embedding()
    for shape in ((B, C, 14, 15), (B, C, 20, 14)):
        with pytest.raises(ValueError, match="but this model was trained on 15 × 14: resize them"):
            part(torch.zeros(shape))
    for shape in ((B, 3, 15, 14), (C, 15, 14), (B, 7)):
        with pytest.raises(ValueError, match=r"expected \[B, 2, H, W\]"):
            part(torch.zeros(shape))
    part.interpolate = True
    with pytest.raises(ValueError, match="less than one patch"):
        part(torch.zeros(B, C, 4, 7))


def test_interpolated_positions():
    """Those of the same grid are the learned ones; equal ones stay equal; the class token keeps its own."""
    part = embedding()
    part.interpolate = True
    part.projection.weight.data.zero_(), part.projection.bias.data.zero_(), part.tokens.weight.data.zero_()
    table = part.learned.table.weight
    assert torch.equal(part(torch.zeros(1, C, 18, 20))[0], table)
    assert torch.equal(part(torch.zeros(1, C, 10, 35))[0, 0], table[0])
    table.data[1:] = 3.0
    assert part(torch.zeros(1, C, 25, 21)).shape == (1, 16, D)
    torch.testing.assert_close(part(torch.zeros(1, C, 25, 21))[0, 1:], torch.full((15, D), 3.0))


def test_dropout_in_training_alone():
    part, images = embedding(dropout=0.5), torch.randn(B, C, *SIZE)
    assert torch.equal(part.eval()(images), part(images))
    assert (part.train()(images) == 0).any()


PATCHES = Patches(SIZE, PATCH, C)
CONFIG = TransformerConfig(0, d_model=14, n_heads=2, n_layers=2, max_length=7, positions="learned")


def test_an_encoder_of_images():
    head = ClassificationHead(CONFIG, 5, pooling="first", dense=False)
    model, images = Encoder(CONFIG, head, patches=PATCHES), torch.randn(B, C, *SIZE)
    assert model.patches == PATCHES and PATCHES.tokens == 7 and PATCHES.pixels == 70
    assert model(images).shape == (B, 5)
    assert Encoder(CONFIG, patches=PATCHES)(images).shape == (B, 7, 14)
    torch.testing.assert_close(model.eval()(images)[1:2], model(images[1:2]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"vocab_size": 31}, "vocab_size is 31, but must be 0"),
        ({"max_length": 6}, "max_length is 6, but must be 7"),
        ({"segments": 2}, "segments is 2"),
        ({"embedding_norm": True}, "embedding_norm is True"),
        ({"positions": "sinusoidal"}, "positions is 'sinusoidal'"),
        ({"positions": Positions("learned", start=2)}, "positions is 'learned', but must be learned, from 0"),
    ],
)
def test_a_configuration_that_does_not_fit_the_patches_is_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        patch_embedding(CONFIG.but(**changes), PATCHES)


def test_a_model_of_tokens_needs_tokens():
    with pytest.raises(ValueError, match="vocab_size is 0"):
        Encoder(CONFIG)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"image_size": 15}, "image_size is 15"),
        ({"image_size": (15, 0)}, "height and width"),
        ({"patch_size": (5, 7, 1)}, "patch_size"),
        ({"patch_size": (5, 2.0)}, "patch_size"),
        ({"patch_size": (5, 15)}, "must not exceed image_size"),
        ({"channels": 0}, "channels is 0"),
    ],
)
def test_a_geometry_that_cannot_be_is_refused(wrong, said):
    with pytest.raises(ValueError, match=said):
        Patches(**{"image_size": SIZE, "patch_size": PATCH, **wrong})
