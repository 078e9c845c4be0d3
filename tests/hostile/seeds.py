"""Valid model directories, small enough to copy for every case, and the means to spoil them."""

import json
import shutil
from pathlib import Path

import torch
from safetensors.torch import save_file

CONFIG = {
    **{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 31, "hidden_size": 26},
    **{"num_hidden_layers": 2, "num_attention_heads": 13, "num_key_value_heads": 13, "intermediate_size": 34},
    **{"max_position_embeddings": 37, "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False},
    **{"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "dtype": "float32"},
}
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"


def make_seed(directory: Path) -> Path:
    """A small Llama as its files are published, without a tokenizer: loading a model asks for none."""
    draw = torch.Generator().manual_seed(3)
    shapes = {"model.embed_tokens": [31, 26], "model.norm": [26], "lm_head": [31, 26]}
    for layer in range(2):
        for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"):
            shapes[f"model.layers.{layer}.{part}"] = [26, 26]
        for part, shape in (("gate_proj", [34, 26]), ("up_proj", [34, 26]), ("down_proj", [26, 34])):
            shapes[f"model.layers.{layer}.mlp.{part}"] = shape
        for part in ("input_layernorm", "post_attention_layernorm"):
            shapes[f"model.layers.{layer}.{part}"] = [26]
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(CONFIG))
    weights = {f"{name}.weight": torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    return directory


def copy(seed: Path, directory: Path) -> Path:
    """A copy of a seed, to be spoiled."""
    return Path(shutil.copytree(seed, directory))


def split(content: bytes) -> tuple[dict, bytes]:
    """The header of a safetensors file, and its data."""
    length = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def joined(header: object, data: bytes = b"") -> bytes:
    """A safetensors file of any header: an object, a text or bytes."""
    text = header if isinstance(header, str | bytes) else json.dumps(header)
    raw = text.encode() if isinstance(text, str) else text
    return len(raw).to_bytes(8, "little") + raw + data


def replace(path: Path, content: bytes) -> None:
    """Write a file anew; what stood in its place, a link too, is left alone."""
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def shard(directory: Path) -> dict[str, str]:
    """Turn ``model.safetensors`` into two shards with an index; the weight map."""
    header, data = split((directory / WEIGHTS).read_bytes())
    header.pop("__metadata__", None)
    names = sorted(header)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        entries, content = {}, b""
        for name in part:
            start, end = header[name]["data_offsets"]
            entries[name] = {**header[name], "data_offsets": [len(content), len(content) + end - start]}
            content += data[start:end]
            weight_map[name] = f"model-{number}-of-2.safetensors"
        (directory / f"model-{number}-of-2.safetensors").write_bytes(joined(entries, content))
    (directory / WEIGHTS).unlink()
    write_index(directory, weight_map)
    return weight_map


def write_index(directory: Path, weight_map: object) -> None:
    """Write an index with that ``weight_map``."""
    (directory / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
