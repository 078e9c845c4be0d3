"""Continue texts by a model that `headway export RUN --to onnx --out DIR` wrote, without Headway and without torch.

python examples/onnx_generate.py DIR 20 "ROMEO:" "JULIET:"
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

folder, most, prompts = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
rules = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
length = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))["model_max_length"]
most = min(most, length - 1)
ends = np.ravel(rules["eos_token_id"]).tolist()
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.encode_special_tokens = True  # a special token that a text spells is text
added = tokenizer.get_added_tokens_decoder()
never = [number for number, token in added.items() if token.special and number not in ends]
session = onnxruntime.InferenceSession(folder / "model.onnx")
caches = {one.name: one.shape for one in session.get_inputs() if one.name.startswith("past_key_values.")}

for prompt in prompts:
    ids = tokenizer.encode(prompt, add_special_tokens=False).ids[most - length :] or ends[:1]
    past = {name: np.zeros((1, shape[1], 0, shape[3]), np.float32) for name, shape in caches.items()}
    new, written = ids, []  # at first the whole prompt is new, then each token in turn
    while new and len(written) < most:
        seen = np.ones((1, len(ids) + len(written)), np.int64)  # the mask: past and new tokens
        logits, *present = session.run(None, {"input_ids": np.array([new]), "attention_mask": seen, **past})
        past = dict(zip(caches, present, strict=True))
        logits[0, -1, never] = -np.inf
        token = int(logits[0, -1].argmax())  # (1, T, V): greedy
        new = [] if token in ends else [token]
        written += new
    print(json.dumps({"prompt": prompt, "text": tokenizer.decode(written)}, ensure_ascii=False))
