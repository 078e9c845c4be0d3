"""Write the types of ``headway.load`` from the registry of tasks: src/headway/load_types.pyi.

    python tools/load_types.py

With a task's name, editors and type checkers know the pipeline that ``load`` returns.
"""

from pathlib import Path
from typing import get_type_hints

from headway.tasks.registry import NAMES, task_named

FILE = Path(__file__).parent.parent / "src" / "headway" / "load_types.pyi"
TOP = '''"""What ``headway.load`` returns, by the name of the task; written by tools/load_types.py."""

from pathlib import Path
from typing import Literal, TypedDict, Unpack, overload

{imports}

class How(TypedDict, total=False):
    device: str
    precision: str | None
    engine: str

'''
ONE = "@overload\ndef load(path: str | Path, task: {task}, **how: Unpack[How]) -> {pipeline}: ...\n"


def written() -> str:
    """The content of the file."""
    pipelines = {name: get_type_hints(type(task_named(name)).pipeline)["return"] for name in NAMES}
    homes = sorted(
        {(one.__module__, one.__name__) for one in pipelines.values()} | {("headway.tasks.task", "Pipeline")}
    )
    top = TOP.format(imports="\n".join(f"from {module} import {name}" for module, name in homes))
    known = [ONE.format(task=f'Literal["{name}"]', pipeline=one.__name__) for name, one in pipelines.items()]
    return top + "".join([*known, ONE.format(task="str | None = ...", pipeline="Pipeline")])


if __name__ == "__main__":
    FILE.write_text(written())
