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
length = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
ends = np.ravel(rules["eos_token_id"]).tolist()
start = [rules[key] for key in ("decoder_start_token_id", "forced_bos_token_id") if rules.get(key) is not None]
never = [word[0] for word in rules.get("bad_words_ids") or [] if len(word) == 1]
most = min(length, rules.get("max_length") or length) - len(start)
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.encode_special_tokens = True  # a special token that a text spells is text
tokenizer.enable_truncation(length)
encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
caches = {one.name: one.shape for one in decoder.get_inputs() if ".decoder." in one.name}
sources = [one.name for one in decoder.get_inputs() if ".encoder." in one.name]

for text in texts:
    source = np.array([tokenizer.encode(text).ids])  # (1, S)
    seen = np.ones_like(source)
    _, *keys = encoder.run(None, {"input_ids": source, "attention_mask": seen})
    fixed = dict(zip(sources, keys, strict=True))
    past = {name: np.zeros((1, shape[1], 0, shape[3]), np.float32) for name, shape in caches.items()}
    new, written = start, []
    while new and len(written) < most:
        given = {"input_ids": np.array([new]), "encoder_attention_mask": seen, **fixed, **past}
        logits, *present = decoder.run(None, given)  # (1, T, V)
        past = dict(zip(caches, present, strict=True))
        logits[0, -1, never] = -np.inf
        token = int(logits[0, -1].argmax())  # greedy
        new = [] if token in ends else [token]
        written += new
    print(json.dumps({"source": text, "text": tokenizer.decode(written)}, ensure_ascii=False))
