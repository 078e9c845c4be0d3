"""The engines: what can compute a model's answers instead of torch, readable without torch or any of their libraries.

To add an engine, add its module to this folder, with a function ``open_engine`` (``exported``), and its spec here.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from headway.errors import InputError, shown

FLOAT32 = "float32"
PRECISIONS = {
    "onnx": (FLOAT32, "int8"),
    "ctranslate2": (FLOAT32, "float16", "bfloat16", "int8"),
    "gguf": (FLOAT32, "float16", "bfloat16", "int8"),
}
"""The target of ``headway export`` -> what its weights can be stored in; the first is the default."""


@dataclass(frozen=True)
class EngineSpec:
    """An engine, as plain data."""

    name: str
    target: str
    """the target of ``headway export`` whose files it reads"""
    module: str
    """its module in this folder"""
    package: str
    """what that module imports"""
    extra: str
    """the extra of headway that installs it"""
    decoders: bool = False
    """whether it only continues texts, by decoders"""

    @property
    def installed(self) -> bool:
        """Whether its library is there."""
        try:
            return find_spec(self.package) is not None
        except ValueError:  # imported, and not as a package is
            return False

    @property
    def precisions(self) -> tuple[str, ...]:
        """The precisions that its exports can have."""
        return PRECISIONS[self.target]

    def check(self) -> None:
        """Raise InputError where its library is not installed."""
        if not self.installed:
            raise InputError(
                f"--engine {self.name} needs {self.package}: pip install 'headway[{self.extra}]', then run this "
                "command again."
            )


AUTO, TORCH = "auto", "torch"
SPECS = {
    spec.name: spec
    for spec in (
        EngineSpec("ctranslate2", "ctranslate2", "ctranslate2_engine", "ctranslate2", "export"),
        EngineSpec("onnxruntime", "onnx", "onnxruntime_session", "onnxruntime", "export"),
        EngineSpec("openvino", "onnx", "openvino_session", "openvino", "export"),
        EngineSpec("llama.cpp", "gguf", "llama_cpp", "llama_cpp", "llama", decoders=True),
    )
}
ENGINES = (AUTO, TORCH, *SPECS)
"""What ``--engine`` can be."""


def check_engine(name: Any) -> None:
    """Raise InputError for what is no engine; the message names those that are."""
    if name not in ENGINES:
        raise InputError(f"--engine is {shown(name)}; it can be {', '.join(ENGINES[:-1])} or {ENGINES[-1]}.")
