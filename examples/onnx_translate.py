"""Translate texts by a model that `headway export RUN --to onnx --out DIR` wrote, without Headway and without torch.

python examples/onnx_translate.py DIR "A man rides a bicycle."
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, texts = Path(sys.argv[1]), sys.argv[2:]
rules = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
ends = np.ravel(rules["eos_token_id"]).tolist()
length = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
most = min(length, rules.get("max_length", length)) - 1  # new tokens after the first, which starts a target
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
outputs = [one.name for one in encoder.get_outputs()]
caches = {one.name: one.shape for one in decoder.get_inputs() if ".decoder." in one.name}

for text in texts:
    source = np.array([tokenizer.encode(text).ids])  # (1, S)
    seen = np.ones_like(source)
    found = dict(zip(outputs, encoder.run(None, {"input_ids": source, "attention_mask": seen}), strict=True))
    fixed = {f"past_key_values.{name[8:]}": keys for name, keys in found.items() if name.startswith("present.")}
    past = {name: np.zeros((1, shape[1], 0, shape[3]), np.float32) for name, shape in caches.items()}
    token, written = rules["decoder_start_token_id"], []
    while len(written) < most:
        inputs = {"input_ids": np.array([[token]]), "encoder_attention_mask": seen, **fixed, **past}
        logits, *present = decoder.run(None, inputs)
        past = dict(zip(caches, present, strict=True))
        token = int(logits[0, -1].argmax())  # (1, 1, V): greedy
        if token in ends:
            break
        written.append(token)
    print(json.dumps({"source": text, "text": tokenizer.decode(written)}, ensure_ascii=False))
