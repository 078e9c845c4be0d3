"""A dropout that is set later is the one that the model would have been built with."""

import pytest
import torch

from headway.models.adapt.freeze import set_dropout
from headway.models.config import TransformerConfig
from headway.models.heads import ClassificationHead
from headway.models.transformer import Decoder, Encoder, EncoderDecoder
from headway.nn.attention import Attention
from headway.nn.dropout import Dropout

CONFIG = TransformerConfig(31, d_model=20, n_heads=2, n_layers=2)


def rates(model):
    """Every probability in the model, by the name of the layer that has it."""
    found = {name: module.p for name, module in model.named_modules() if isinstance(module, Dropout)}
    return found | {name: module.dropout for name, module in model.named_modules() if isinstance(module, Attention)}


@pytest.mark.parametrize("make", [Encoder, Decoder, EncoderDecoder])
@pytest.mark.parametrize(("before", "after"), [(0.0, 0.3), (0.3, 0.1), (0.3, 0.0)])
def test_it_equals_building_with_it(make, before, after):
    changed, built = set_dropout(make(CONFIG.but(dropout=before)), after), make(CONFIG.but(dropout=after))
    assert rates(changed) == rates(built)
    assert changed.config == built.config
    stacks = [changed.encoder, changed.decoder] if make is EncoderDecoder else [changed.stack]
    assert {stack.config.dropout for stack in stacks} == {after}


def test_the_head_and_a_second_configuration_follow():
    model = set_dropout(Encoder(CONFIG, ClassificationHead(CONFIG, 3)), 0.2)
    assert model.head.dropout.p == 0.2
    model = set_dropout(EncoderDecoder(CONFIG, CONFIG.but(d_ff=17)), 0.2)
    assert (model.config.dropout, model.encoder_config.dropout, model.encoder_config.d_ff) == (0.2, 0.2, 17)


def test_only_training_notices():
    model, ids = Encoder(CONFIG), torch.randint(31, (3, 7))
    before = model.eval()(ids)
    assert torch.equal(set_dropout(model, 0.5)(ids), before)
    assert not torch.equal(model.train()(ids), before)


@pytest.mark.parametrize("wrong", [-0.1, 1.0, float("nan")])
def test_a_rate_that_is_none_is_refused_and_changes_nothing(wrong):
    model = Encoder(CONFIG.but(dropout=0.1))
    before = rates(model)
    with pytest.raises(ValueError, match="dropout is"):
        set_dropout(model, wrong)
    assert rates(model) == before
