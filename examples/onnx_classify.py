"""Classify texts by a model that `headway export RUN --to onnx --out DIR` wrote, without Headway and without torch.

python examples/onnx_classify.py DIR "Great battery, poor screen." "It works."
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, texts = Path(sys.argv[1]), sys.argv[2:]
labels = json.loads((folder / "config.json").read_text(encoding="utf-8"))["id2label"]
length = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.encode_special_tokens = True  # a special token that a text spells is text
tokenizer.enable_truncation(length)
tokenizer.enable_padding()
session = onnxruntime.InferenceSession(folder / "model.onnx")

encoded = tokenizer.encode_batch(texts)
inputs = {"input_ids": np.array([one.ids for one in encoded])}  # (B, T)
inputs["attention_mask"] = np.array([one.attention_mask for one in encoded])
if any(one.name == "token_type_ids" for one in session.get_inputs()):
    inputs["token_type_ids"] = np.zeros_like(inputs["input_ids"])
(logits,) = session.run(["logits"], inputs)  # (B, C)
scores = np.exp(logits - logits.max(axis=1, keepdims=True))
scores /= scores.sum(axis=1, keepdims=True)
for text, row in zip(texts, scores.tolist(), strict=True):
    best = row.index(max(row))
    print(json.dumps({"text": text, "label": labels[str(best)], "score": row[best]}, ensure_ascii=False))
