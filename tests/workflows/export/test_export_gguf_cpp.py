"""``examples/gguf_generate.cpp``: what is exported to GGUF is continued by a program in C++, without Python."""

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from doors_kit import texts
from export_kit import decoder

import headway
from headway.workflows.export import export

SOURCE = Path(__file__).parents[3] / "examples" / "gguf_generate.cpp"
HAS_LLAMA = find_spec("llama_cpp") is not None


@pytest.mark.skipif(not HAS_LLAMA or not shutil.which("g++"), reason="llama-cpp-python or g++ is not installed")
def test_a_program_in_cpp_continues_texts_as_here(tmp_path: Path):
    import llama_cpp

    package, program = Path(llama_cpp.__file__).parent, tmp_path / "gguf_generate"
    libraries = [f"-L{package / 'lib'}", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{package / 'lib'}"]
    warned = ["-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{package.parent / 'include'}"]
    subprocess.run(["g++", *warned, SOURCE, "-o", program, *libraries], check=True)
    source = decoder(tmp_path / "a")
    found, pipe = export(source, tmp_path / "b", to="gguf"), headway.load(source)
    answers = set()
    for text in texts(8, seed=1):
        words = [program, found.out / "model.gguf", text, "12"]
        done = subprocess.run(words, capture_output=True, timeout=100)
        assert done.returncode == 0, done.stderr
        answers.add(done.stdout.decode(errors="replace").removesuffix("\n"))
        assert pipe(text, max_tokens=12, temperature=0) in answers
    assert len(answers) > 4, "the continuations depend on the texts"
    refused = subprocess.run([program, SOURCE, "a", "1"], capture_output=True, timeout=100)
    assert refused.returncode == 1 and refused.stderr
