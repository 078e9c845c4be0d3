"""Opens directories as other programs' users do, in a process of its own in which headway is not imported.

    python door_reader.py JOBS.json ANSWERS.json

A job is {"directory", "door", "inputs"}; its answer {"answers", "loaded"}, or {"error"}.  "loaded" is what was reported
of weights: by ``from_pretrained`` of the class that the door chose, and by every warning of the loading.
"""

import json
import logging
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"

import torch
import transformers
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoModelForTextEncoding, AutoTokenizer, pipeline

NEW = 8
GREEDY = {"do_sample": False, "num_beams": 1, "max_new_tokens": NEW, "max_length": None}
REPORTED = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")


class Kept(logging.Handler):
    """Keeps what is said of weights."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.said = []

    def emit(self, record):
        text = record.getMessage()
        if any(word in text for word in ("MISSING", "UNEXPECTED", "MISMATCH", "newly initialized", "not initialized")):
            self.said.append(text)


@torch.no_grad()
def ask(job):
    """(what the door answers to the inputs, the model inside)."""
    directory, door, inputs = job["directory"], job["door"], job["inputs"]
    if door == "SentenceTransformer":
        from sentence_transformers import SentenceTransformer

        opened = SentenceTransformer(directory, device="cpu")
        return opened.encode(inputs, show_progress_bar=False).tolist(), opened[0].auto_model
    if door == "AutoModelForSeq2SeqLM":
        model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(directory), AutoTokenizer.from_pretrained(directory)
        words = {**GREEDY, "forced_eos_token_id": None}
        made = [model.generate(tokenizer(text, return_tensors="pt")["input_ids"], **words)[0] for text in inputs]
        return [ids.tolist() for ids in made], model
    if door in ("AutoModel", "AutoModelForTextEncoding"):
        cls = {"AutoModel": AutoModel, "AutoModelForTextEncoding": AutoModelForTextEncoding}[door]
        model = cls.from_pretrained(directory)
        named = [{name: torch.tensor(values) for name, values in each.items()} for each in inputs]
        return [model(**each).last_hidden_state[0].tolist() for each in named], model
    opened = pipeline(door, directory, device="cpu")
    if door == "text-classification":
        found = [{one["label"]: one["score"] for one in each} for each in opened(inputs, top_k=None)]
    elif door == "image-classification":
        from PIL import Image

        images = [Image.frombytes("RGB", (width, height), bytes.fromhex(data)) for width, height, data in inputs]
        found = [{one["label"]: one["score"] for one in each} for each in opened(images, top_k=100)]
    elif door == "fill-mask":
        mask = opened.tokenizer.mask_token
        found = [[[one["token"], one["score"]] for one in opened(f"{text} {mask}", top_k=5)] for text in inputs]
    elif door == "text-generation":
        found = [opened(text, return_full_text=False, **GREEDY)[0]["generated_text"] for text in inputs]
    else:
        found = [opened(text)[0] for text in inputs]
    return found, opened.model


def answer(job):
    """The answer to one job."""
    kept = Kept()
    for name in ("transformers", "sentence_transformers"):
        logging.getLogger(name).addHandler(kept)
    try:
        found, model = ask(job)
        _, report = type(model).from_pretrained(job["directory"], output_loading_info=True)
        loaded = [f"{kind}: {sorted(map(str, report[kind]))}" for kind in REPORTED if report.get(kind)]
        return {"answers": found, "loaded": [*loaded, *kept.said], "class": type(model).__name__}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:400]}
    finally:
        for name in ("transformers", "sentence_transformers"):
            logging.getLogger(name).removeHandler(kept)


if __name__ == "__main__":
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    answers = [answer(job) for job in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    assert not any(name.partition(".")[0] == "headway" for name in sys.modules)
    Path(sys.argv[2]).write_text(json.dumps(answers), encoding="utf-8")
