"""A configuration refuses what cannot be built, and says what it would take."""

import math
from dataclasses import FrozenInstanceError, asdict, fields

import pytest

from headway.models.config import Positions, RopeScaling, TransformerConfig


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("vocab_size", -1, "≥ 0"),
        ("vocab_size", 3.5, "whole"),
        ("d_model", -3, "≥ 1"),
        ("d_model", True, "whole"),
        ("n_layers", 0, "≥ 1"),
        ("n_heads", 0, "≥ 1"),
        ("n_heads", 7, "divisor of d_model = 128"),
        ("n_kv_heads", 3, "divisor of n_heads = 4"),
        ("n_kv_heads", 0, "≥ 1"),
        ("d_head", 0, "≥ 1"),
        ("d_ff", 0, "≥ 1"),
        ("max_length", "long", "whole"),
        ("positions", "circular", "rotary, learned, sinusoidal, alibi, relative, none"),
        ("positions", 3, "one of"),
        ("norm", "batchnorm", "layernorm, rmsnorm"),
        ("norm_order", "middle", "pre, post"),
        ("norm_eps", 0.0, "above 0"),
        ("norm_parameters", "bias", "both, weight, none"),
        ("activation", "swish", "relu, gelu"),
        ("gated", 1, "True or False"),
        ("bias", ("qkv", "norm"), "qkv, out, ff, head"),
        ("bias", "qkv", "tuple"),
        ("tied", None, "True or False"),
        ("embedding_norm", "yes", "True or False"),
        ("first_norm", 0, "True or False"),
        ("embedding_scale", 2.0, "True or False"),
        ("segments", -1, "≥ 0"),
        ("window", 0, "≥ 1"),
        ("window", (3, None), "each of 4 layers"),
        ("window", (3, None, 2, -1), "each of 4 layers"),
        ("qk_norm", 1.0, "True or False"),
        ("logit_softcap", 0.0, "above 0"),
        ("dropout", 1.0, "below 1"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_what_is_allowed(field, value, allowed):
    with pytest.raises(ValueError) as caught:
        TransformerConfig(**{"vocab_size": 31, **{field: value}})
    message = str(caught.value)
    assert message.startswith(field)
    assert repr(value) in message
    assert allowed in message


def test_every_field_is_tried_above():
    (parametrize,) = test_a_bad_field_is_named_with_its_value_and_what_is_allowed.pytestmark
    assert {name for name, _, _ in parametrize.args[1]} == {field.name for field in fields(TransformerConfig)}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("base", 1.0), ("window_base", 0), ("fraction", 0.0), ("fraction", 1.5), ("buckets", 7)),
        *(("max_distance", 16), ("scaling", 3.0)),
    ],
)
def test_numbers_of_positions(field, value):
    with pytest.raises(ValueError, match=f"{field} is {value}, but must be"):
        Positions(**{field: value})


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("kind", "longrope", "linear, dynamic, yarn, llama3"),
        ("factor", 0, "above 0"),
        ("factor", math.inf, "above 0"),
        ("original_length", 0, "≥ 1"),
        ("original_length", 7.5, "whole"),
        ("slow", -1.0, "above 0"),
        ("fast", 1.0, "above slow = 1.0"),
        ("whole", None, "True or False"),
        ("size", 0.0, "above 0"),
    ],
)
def test_numbers_of_a_scaling(field, value, allowed):
    with pytest.raises(ValueError, match=f"{field} is {value!r}, but must be .*{allowed}"):
        RopeScaling(**{"kind": "yarn", "factor": 2.0, field: value})


def test_the_turned_width_must_be_even():
    with pytest.raises(ValueError, match="d_model is 21 with n_heads = 3: rotary positions rotate 7 entries"):
        TransformerConfig(31, d_model=21, n_heads=3)
    with pytest.raises(ValueError, match="more than 2 entries rotate"):
        TransformerConfig(31, d_head=2, positions=Positions(scaling=RopeScaling("dynamic", 2.0)))


def test_a_first_norm_can_be_left_out_with_pre_norm_alone():
    with pytest.raises(ValueError, match="first_norm is False"):
        TransformerConfig(31, norm_order="post", first_norm=False)


def test_unknown_keys_are_refused():
    with pytest.raises(ValueError, match="unknown keys of the configuration: heads; known are activation"):
        TransformerConfig.from_dict({"vocab_size": 31, "heads": 3})
    with pytest.raises(ValueError, match="unknown keys of positions: bass"):
        TransformerConfig.from_dict({"vocab_size": 31, "positions": {"bass": 3}})
    with pytest.raises(ValueError, match="unknown keys of scaling: speed"):
        TransformerConfig.from_dict({"vocab_size": 31, "positions": {"scaling": {"kind": "linear", "speed": 3}}})
    with pytest.raises(TypeError):
        TransformerConfig(31).but(heads=3)


def test_frozen_and_small():
    with pytest.raises(FrozenInstanceError):
        TransformerConfig(31).d_model = 3
    assert len(fields(TransformerConfig)) == 25


@pytest.mark.parametrize(
    "config",
    [
        TransformerConfig(31),
        TransformerConfig(31, n_layers=2, window=(3, None), bias=("qkv", "ff"), logit_softcap=15.0),
        TransformerConfig(31, positions=Positions("rotary", base=500.0, fraction=0.5, window_base=100.0)),
        TransformerConfig(31, positions=Positions(scaling=RopeScaling("yarn", 4.0, 17, size=1.1))),
    ],
)
def test_round_trip_through_plain_values(config):
    assert TransformerConfig.from_dict(asdict(config)) == config


def test_defaults_are_filled_in():
    gated, plain = TransformerConfig(31), TransformerConfig(31, gated=False, n_kv_heads=2, d_head=10, window=3)
    assert (gated.hidden, gated.head_width, gated.kv_heads, gated.rotated) == (344, 32, 4, 32)  # 8/3 128 = 341.3
    assert (plain.hidden, plain.head_width, plain.kv_heads, plain.layer_window(1)) == (512, 10, 2, 3)
    assert plain.but(d_model=64).d_model == 64
