"""Vectors of texts by a model that `headway export RUN --to onnx --out DIR` wrote, without Headway and without torch.

python examples/onnx_embed.py DIR "A man rides a bicycle." "Someone is cycling."
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, texts = Path(sys.argv[1]), sys.argv[2:]
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
(vectors,) = session.run(["sentence_embedding"], inputs)  # (B, D), pooled and of length 1
for text, vector in zip(texts, vectors, strict=True):
    cosine = float(vector @ vectors[0])  # with the first text
    print(json.dumps({"text": text, "cosine": cosine, "vector": vector.tolist()}, ensure_ascii=False))
