"""What a model can be exported to, readable without torch or any library of a target.

To add a target, add its module to this folder, with the functions of ``workflows.export.target.Target``, and its spec
to ``TARGETS``.
"""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from headway.errors import InputError
from headway.hub.download import one_line
from headway.runtime.engines.registry import FLOAT32, PRECISIONS

if TYPE_CHECKING:  # the protocol needs torch, and the specs do not
    from headway.workflows.export.target import Target


@dataclass(frozen=True)
class TargetSpec:
    """A target, as plain data."""

    name: str
    """also that of its module in this folder"""
    description: str
    """what is written, in a few words"""
    precisions: tuple[str, ...] = (FLOAT32,)
    """what its weights can be stored in; the first is the default"""
    packages: tuple[str, ...] = ()
    """the modules that are imported to write it"""
    extra: str | None = None
    """the extra of headway that installs them"""
    answers: bool = False
    """whether the model must be able to answer here, since its answers are compared"""
    card: bool = False
    """whether it has a model card, and can be pushed to the hub"""
    lora: bool = False
    """whether it is for models that were trained with --lora, so that it is not named for others"""

    def check(self, precision: str) -> None:
        """Raise InputError unless the target has this precision, and its packages are installed and can be imported."""
        if precision not in self.precisions:
            known = ", ".join(self.precisions)
            raise InputError(f"--precision {precision}: {self.name} is written in {known}.")
        missing = [name for name in self.packages if find_spec(name) is None]
        if missing:
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


TARGETS = {
    spec.name: spec
    for spec in (
        TargetSpec("hf", "a directory that transformers loads", card=True),
        TargetSpec("peft", "the adapter of a run with --lora, which PEFT loads onto its base", card=True, lora=True),
        TargetSpec(
            "gguf",
            "a file that llama.cpp and Ollama read",
            PRECISIONS["gguf"],
            ("gguf",),
            "export",
            answers=True,
        ),
        TargetSpec(
            "ctranslate2",
            "a directory that CTranslate2 loads",
            PRECISIONS["ctranslate2"],
            ("ctranslate2",),
            "export",
            answers=True,
        ),
        TargetSpec(
            "onnx",
            "graphs for ONNX Runtime and OpenVINO",
            PRECISIONS["onnx"],
            ("onnx", "onnxscript", "onnxruntime"),
            "export",
        ),
        TargetSpec(
            "mlflow",
            "a model that MLflow serves and registers",
            packages=("mlflow", "pandas", "pyarrow"),
            extra="mlflow",
            answers=True,
        ),
    )
}
"""The targets by name; the first is the default."""


def target(name: str) -> "Target":
    """The module that writes a target.  Raises InputError for a name that is not in ``TARGETS``."""
    if name not in TARGETS:
        raise InputError(f"--to {name}: a model can be exported to {', '.join(TARGETS)}.")
    return cast("Target", import_module(f"headway.workflows.export.{name}"))
