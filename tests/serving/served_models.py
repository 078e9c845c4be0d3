"""Tiny models of random weights for the server's tests, and a server in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import doors_kit
import httpx
import torch

from headway.hub.directory import save_model
from headway.models.config import TransformerConfig
from headway.models.transformer import Decoder
from headway.text.chat import with_chat
from headway.text.train import train_tokenizer

ROOT = Path(__file__).parent.parent.parent
CONTEXT = 512
TEXTS = ["the cat sat on a mat while old dogs ran past red doors 🙂 日本 ภาษาไทย é 👩‍👩‍👧 " * 3] * 9
OTHERS = {
    **{"labels": ("BertForSequenceClassification", "text-classification"), "fill": ("BertForMaskedLM", "fill-mask")},
    **{"vectors": ("BertModel", "SentenceTransformer"), "marian": ("MarianMTModel", "AutoModelForSeq2SeqLM")},
    "pictures": ("ViTForImageClassification", "image-classification"),
}


def write_models(folder: Path) -> dict[str, Path]:
    """A language model of bytes, the same with a chat template, and a model of each of some other tasks."""
    words = train_tokenizer(TEXTS, "bpe", 320)
    for name, tokenizer in (("text", words), ("chat", with_chat(words))):
        torch.manual_seed(5)
        config = TransformerConfig(tokenizer.vocab_size, d_model=32, n_layers=2, n_heads=2, max_length=CONTEXT)
        model = Decoder(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(0.3 * torch.randn(parameter.shape))
        save_model(model, folder / name, eos_token_id=tokenizer.end_of_text)
        tokenizer.save(folder / name)
    for name, (kind, door) in OTHERS.items():
        doors_kit.made(kind, door, folder / name)
    return {path.name: path for path in folder.iterdir()}


class Server:
    """``headway serve`` in a process of its own."""

    def __init__(self, *words: object, env: dict[str, str] | None = None, script: str = ""):
        code = f"{script}\nfrom headway.cli.main import main\nmain()"
        command = [sys.executable, "-c", code, "serve", *map(str, words), "--port", "0", "--threads", "1"]
        places = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": places, **(env or {})}
        )
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r"open (http://\S+) in a browser", line):
                self.address = found[1]
                break
        else:
            raise AssertionError("".join(self.lines))
        self.port = int(re.search(r":(\d+)", self.address)[1])

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(self.address + path, timeout=60, **more)

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return httpx.post(self.address + path, json=body, timeout=60, **more)

    def metric(self, name: str, **labels: str) -> float:
        """A number of ``/metrics``; 0 where it is not there yet."""
        for line in self.get("/metrics").text.splitlines():
            if line.startswith(name) and all(f'{key}="{value}"' in line for key, value in labels.items()):
                return float(line.rsplit(" ", 1)[1])
        return 0.0

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.stop() == 0

    def stop(self, number: int = signal.SIGTERM, seconds: float = 60) -> int:
        """Send a signal and return the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(seconds)


def until(condition: Any, seconds: float = 30) -> float:
    """Wait until something is true; returns the seconds that it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < seconds, "it did not happen in time"
        time.sleep(0.01)
    return time.monotonic() - began
