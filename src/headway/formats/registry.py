"""What a model can be exported to, and the engines that answer from exports; readable without torch or any library.

To add a format, add its folder with ``export.py`` (``problem``, ``write``, ``compare``: ``formats.subject.Writer``)
and, if an engine reads it, ``engine.py`` (``open_engine``); and its row to ``FORMATS``.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from headway.errors import InputError, shown
from headway.hub.download import one_line

FLOAT32 = "float32"


@dataclass(frozen=True)
class Format:
    """A target of ``headway export``, as plain data."""

    name: str
    """also that of its folder"""
    description: str
    """what is written, in a few words"""
    precisions: tuple[str, ...] = (FLOAT32,)
    """what its weights can be stored in; the first is the default"""
    packages: tuple[str, ...] = ()
    """the modules that are imported to write it"""
    extra: str = "export"
    """the extra of headway that installs them"""
    answers: bool = False
    """whether the model must be able to answer here, since its answers are compared"""
    card: bool = False
    """whether it has a model card, and can be pushed to the hub"""
    lora: bool = False
    """whether it is for models that were trained with --lora, so that it is not named for others"""

    def module(self, part: str) -> Any:
        """A module of its folder: ``export`` or ``engine``."""
        return import_module(f"headway.formats.{self.name}.{part}")

    def check(self, precision: str) -> None:
        """Raise InputError unless it has this precision, and its packages are installed and can be imported."""
        if precision not in self.precisions:
            raise InputError(f"--precision {precision}: {self.name} is written in {', '.join(self.precisions)}.")
        if missing := [name for name in self.packages if find_spec(name) is None]:
            raise InputError(
                f"--to {self.name} needs {' and '.join(missing)}: pip install 'headway[{self.extra}]', then run this "
                "command again."
            )
        for name in self.packages:
            try:
                import_module(name)
            except Exception as error:  # of a library for another version of Python or of numpy, for one
                raise InputError(
                    f"--to {self.name}: the package {name} is installed, but cannot be imported ({one_line(error)}); "
                    f"install it again by pip install --force-reinstall {name}."
                ) from None


WHOLE_AND_HALF = (FLOAT32, "float16", "bfloat16", "int8")
FORMATS = {
    format.name: format
    for format in (
        Format("hf", "a directory that transformers loads", card=True),
        Format("peft", "the adapter of a run with --lora, which PEFT loads onto its base", card=True, lora=True),
        Format(
            "gguf",
            "a file that llama.cpp and Ollama read",
            WHOLE_AND_HALF,
            ("gguf",),
            answers=True,
        ),
        Format(
            "ctranslate2",
            "a directory that CTranslate2 loads",
            WHOLE_AND_HALF,
            ("ctranslate2",),
            answers=True,
        ),
        Format(
            "onnx",
            "graphs for ONNX Runtime and OpenVINO",
            (FLOAT32, "int8"),
            ("onnx", "onnxscript", "onnxruntime"),
        ),
        Format(
            "mlflow",
            "a model that MLflow serves and registers",
            packages=("mlflow", "pandas", "pyarrow"),
            extra="mlflow",
            answers=True,
        ),
    )
}
"""The formats by name; the first is the default."""


@dataclass(frozen=True)
class EngineSpec:
    """A library that answers from the exports of a format, as plain data."""

    name: str
    format: str
    """whose files it reads"""
    package: str
    """what is imported"""
    extra: str = "export"
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
        return FORMATS[self.format].precisions

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
        EngineSpec("ctranslate2", "ctranslate2", "ctranslate2"),
        EngineSpec("onnxruntime", "onnx", "onnxruntime"),
        EngineSpec("openvino", "onnx", "openvino"),
        EngineSpec("llama.cpp", "gguf", "llama_cpp", "llama", decoders=True),
    )
}
"""The engines by name."""
ENGINES = (AUTO, TORCH, *SPECS)
"""What ``--engine`` can be."""


def format_named(name: str) -> Format:
    """The format of that name.  Raises InputError for a name that is not in ``FORMATS``."""
    if name not in FORMATS:
        raise InputError(f"--to {name}: a model can be exported to {', '.join(FORMATS)}.")
    return FORMATS[name]


def check_engine(name: Any) -> None:
    """Raise InputError for what is no engine; the message names those that are."""
    if name not in ENGINES:
        raise InputError(f"--engine is {shown(name)}; it can be {', '.join(ENGINES[:-1])} or {ENGINES[-1]}.")
