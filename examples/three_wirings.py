"""One configuration, three models: an encoder, a decoder and an encoder-decoder.

python examples/three_wirings.py
"""

import torch

from headway import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headway.models.size import parameters

config = TransformerConfig(vocab_size=500, d_model=64, n_layers=2, n_heads=4, max_length=32)
source = torch.randint(500, (3, 11))  # 3 sequences of 11 tokens
target = torch.randint(500, (3, 7))

vectors = Encoder(config)(source)  # every token sees every token
logits = Decoder(config)(target)  # every token sees itself and earlier tokens
conditional = EncoderDecoder(config)(source, target)  # and the whole source

for name, wiring, output in (
    ("Encoder", "encoder", vectors),
    ("Decoder", "decoder", logits),
    ("EncoderDecoder", "encoder-decoder", conditional),
):
    count = parameters(config, wiring=wiring)["total"]
    print(f"{name:>14}: {tuple(output.shape)}, {count:,} parameters")
