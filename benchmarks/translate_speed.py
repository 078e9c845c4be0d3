"""Translating a file with a beam of five: Headway against transformers' generate, on one saved model.

    python benchmarks/translate_speed.py RUN FILE [--rounds 3]

RUN is a directory that `headway train` wrote for pairs of texts, FILE has a text on each line.  transformers reads the
same directory and writes in batches of 32, sorted by length, as its documentation advises.  Both work in this process,
in turn; the translations are compared line by line.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import transformers
from machine import facts, spread, write

import headway

BATCH, BEAM = 32, 5


def theirs(model: Any, words: Any, texts: list[str]) -> list[str]:
    """transformers' translations, in order."""
    order = sorted(range(len(texts)), key=lambda i: len(words(texts[i])["input_ids"]))
    found = [""] * len(texts)
    for at in range(0, len(order), BATCH):
        index = order[at : at + BATCH]
        given = words([texts[i] for i in index], return_tensors="pt", padding=True, return_token_type_ids=False)
        with torch.inference_mode():
            ids = model.generate(**given, num_beams=BEAM, length_penalty=1.0)  # as long as the model writes
        for i, text in zip(index, words.batch_decode(ids, skip_special_tokens=True), strict=True):
            found[i] = text
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    texts = [line for line in given.file.read_text(encoding="utf-8").split("\n") if line.strip()]
    pipe = headway.load(given.run)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(given.run).eval()
    words = transformers.AutoTokenizer.from_pretrained(given.run)
    seconds: dict[str, list[float]] = {"headway": [], "transformers": []}
    for _ in range(given.rounds):
        start = time.perf_counter()
        mine = pipe(texts, beam=BEAM)
        seconds["headway"].append(time.perf_counter() - start)
        start = time.perf_counter()
        other = theirs(model, words, texts)
        seconds["transformers"].append(time.perf_counter() - start)
        print({name: round(found[-1], 1) for name, found in seconds.items()}, flush=True)
    equal = sum(one == two for one, two in zip(mine, other, strict=True))
    ratios = [b / a for a, b in zip(seconds["headway"], seconds["transformers"], strict=True)]
    result = {
        "texts": len(texts),
        "equal_translations": equal,
        "different": [[t, a, b] for t, a, b in zip(texts, mine, other, strict=True) if a != b][:20],
        "seconds": {name: spread(found) for name, found in seconds.items()},
        "times_faster": spread(ratios),
    }
    write("translate-speed", {**facts(), **result})
    print(f"{equal} of {len(texts)} equal, {result['times_faster']['median']:.2f} times as fast")
