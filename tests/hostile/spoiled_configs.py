"""Directories whose ``config.json`` asks for what is not there: (how to spoil a valid one, what the message says)."""

import json
import os

CONFIG = "config.json"
RAW = {"NaN": "NaN", "infinity": "Infinity", "1e400": "1e400", "5000 digits": "9" * 5000}
"""What JSON has no value for: the text itself."""
NUMBERS = {
    "10^9": 10**9, "10^30": 10**30, "2^63": 2**63, "-1": -1, "0": 0, "2.5": 2.5, "2.0": 2.0, "1e9": 1e9,
    "a text": "two", "empty": "", "true": True, "a list": [2], "an object": {"a": 2},
}  # fmt: skip
SIZES = (
    *("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"),
    "vocab_size",
)


def text(content):
    """Another text, or bytes, in the place of the file."""

    def spoil(directory):
        (directory / CONFIG).write_bytes(content.encode() if isinstance(content, str) else content)

    return spoil


def with_(**changes):
    """Some entries changed; None takes an entry out."""

    def spoil(directory):
        found = json.loads((directory / CONFIG).read_text())
        found.update(changes)
        found = {key: value for key, value in found.items() if value is not None or key not in changes}
        (directory / CONFIG).write_text(json.dumps(found))

    return spoil


def raw(key, words):
    """An entry with a text that ``json.dumps`` would not write."""

    def spoil(directory):
        found = json.loads((directory / CONFIG).read_text())
        found[key] = "HERE"
        (directory / CONFIG).write_text(json.dumps(found).replace('"HERE"', words))

    return spoil


def instead(make):
    """Another kind of thing in the place of the file."""

    def spoil(directory):
        (directory / CONFIG).unlink()
        make(directory / CONFIG)

    return spoil


def linked_out(directory):
    """A link to a good file outside."""
    target = directory.with_suffix(".config")
    (directory / CONFIG).rename(target)
    (directory / CONFIG).symlink_to(target)


def sparse(directory):
    """A terabyte."""
    with (directory / CONFIG).open("wb") as file:
        file.truncate(10**12)


def beside(content):
    """A ``generation_config.json`` of that text."""
    return lambda directory: (directory / "generation_config.json").write_text(content)


CODE = {
    "auto_map": {"AutoConfig": "configuration_x.X", "AutoModelForCausalLM": "modeling_x.X"},
    "trust_remote_code": True,
    "_attn_implementation_internal": "someone/kernels",
    "custom_pipelines": {"x": {"impl": "x.X"}},
}

SPOILED = {
    **{f"{key} is {word}": (with_(**{key: value}), "") for key in SIZES for word, value in NUMBERS.items()},
    **{f"{key} is {word}": (raw(key, words), "found") for key in SIZES for word, words in RAW.items()},
    **{f"{key}": (with_(**{key: value}), f"{key}: found") for key, value in CODE.items()},
    **{f"{key}, inside": (with_(text_config={"a": [{key: value}]}), f"{key}: found") for key, value in CODE.items()},
    "heads that do not divide": (with_(num_attention_heads=7), "n_heads"),
    "no layers": (with_(num_hidden_layers=None), "missing model.layers.2"),
    "a million layers, all sizes 1": (
        with_(num_hidden_layers=10**6, hidden_size=2, num_attention_heads=1, num_key_value_heads=1),
        "num_hidden_layers: found 1000000",
    ),
    "512 layers": (with_(num_hidden_layers=512), "missing model.layers.2"),
    "a model larger than memory": (with_(hidden_size=2**20, num_attention_heads=2**19), ""),
    "a width of a trillion": (
        with_(hidden_size=10**12, num_attention_heads=2, num_key_value_heads=2),
        "hidden_size: found 1000000000000, expected at most 1048576",
    ),
    "heads of a trillion": (with_(head_dim=10**12), "head_dim: found 1000000000000, expected at most 1048576"),
    "sizes that overflow together": (
        with_(hidden_size=2**20, head_dim=2**20, num_attention_heads=2**20, num_key_value_heads=2**20),
        "ask for a weight of shape [3298534883328, 1048576], expected fewer than 2^63 bytes",
    ),
    "a vocabulary larger than memory": (with_(vocab_size=10**12), "[31, 26], expected [1000000000000, 26]"),
    "a family that is a path": (with_(model_type="../../x"), "model_type"),
    "a family that is a list": (with_(model_type=["llama"]), "model_type"),
    "a family that is an object": (with_(model_type={}), "model_type"),
    "a class that is a path": (with_(architectures=["os.system"]), "os.system"),
    "classes in a list in a list": (with_(architectures=[["LlamaForCausalLM"]]), "LlamaForCausalLM"),
    "an object of classes": (with_(architectures={"a": 1}), "expected list"),
    "rope of code": (with_(rope_parameters={"rope_type": "os.system"}), "rope_type"),
    "rope of a list": (with_(rope_parameters=[1]), ""),
    "rope base 0": (with_(rope_parameters={"rope_type": "default", "rope_theta": -1}), "base"),
    "rope base is a text": (with_(rope_parameters={"rope_type": "default", "rope_theta": "x"}), ""),
    "rope base is an object": (with_(rope_parameters={"rope_type": "default", "rope_theta": {}}), ""),
    "activation is code": (with_(hidden_act="__import__('os').system('touch canary')"), "hidden_act"),
    "activation is a list": (with_(hidden_act=["silu"]), "hidden_act"),
    "epsilon is a text": (with_(rms_norm_eps="x"), ""),
    "epsilon below 0": (with_(rms_norm_eps=-1.0), ""),
    "a key twice": (text('{"model_type": "llama", "model_type": "modernbert"}'), "twice"),
    "a list": (text("[1]"), "expected an object"),
    "null": (text("null"), "expected an object"),
    "a number": (text("3"), "expected an object"),
    "an empty object": (text("{}"), "model_type"),
    "empty": (text(""), "not JSON"),
    "a space": (text(" "), "not JSON"),
    "half": (text('{"a": '), "not JSON"),
    "single quotes": (text("{'a': 1}"), "not JSON"),
    "Python": (text("__import__('os').system('touch canary')"), "not JSON"),
    "not UTF-8": (text(b'{"a": "\xff"}'), "not UTF-8"),
    "UTF-16": (text('{"a": 1}'.encode("utf-16")), "not UTF-8"),
    "byte order mark": (text(b"\xef\xbb\xbf{}"), "not JSON"),
    "zeros": (text(bytes(1000)), "not JSON"),
    "half a surrogate pair": (text(r'{"model_type": "\ud800"}'), "surrogate"),
    "100 000 lists deep": (text("[" * 100_000), "at most 64"),
    "100 000 objects deep": (text('{"a":' * 100_000), "at most 64"),
    "65 levels": (text('{"a":' + "[" * 64 + "]" * 64 + "}"), "at most 64"),
    "a million lists": (text('{"a": [' + "[]," * 10**6 + "[]]}"), "values"),
    "11 MB": (text(" " * 11_000_000), "at most"),
    "10 MB of one text": (text('{"a": "' + "é" * 5_000_000 + '😀"}'), "model_type"),
    "10 MB of one key": (text('{"' + "é" * 5_000_000 + '😀": 1}'), "model_type"),
    "LFS pointer": (text("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
    "web page": (text("<html><body>404</body></html>"), "a web page"),
    "a pickle": (text(b"\x80\x04\x95"), "a Python pickle"),
    "missing": (instead(lambda path: None), ""),
    "a folder": (instead(os.mkdir), "not a regular file"),
    "a pipe": (instead(os.mkfifo), "not a regular file"),
    "a link to zeros without end": (instead(lambda path: path.symlink_to("/dev/zero")), "found a link to /dev/zero"),
    "a link outside": (linked_out, "found a link to"),
    "a link to itself": (instead(lambda path: path.symlink_to(path)), ""),
    "a terabyte": (sparse, "at most"),
    "generation: NaN": (beside('{"temperature": NaN}'), "generation_config.json: found NaN"),
    "generation: 100 000 levels": (beside("[" * 100_000), "generation_config.json: "),
    "generation: a list": (beside("[1]"), "generation_config.json: found a JSON list"),
    "generation: LFS pointer": (beside("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
    "modules: not of an encoder": (lambda d: (d / "modules.json").write_text("[]"), "modules.json"),
}  # fmt: skip
