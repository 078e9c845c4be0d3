"""A hostile directory is refused in plain words, in time, within bounds, and without doing anything else."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import seeds
import spoiled_configs
import spoiled_indexes
import spoiled_pickles
import spoiled_weights

HERE = Path(__file__).parent
SECONDS, BYTES = 3.0, 100 * 10**6  # every case takes less than 2 s; a shared machine was seen to take 2.03
CORPUS = {
    **{f"weights: {name}": case for name, case in spoiled_weights.SPOILED.items()},
    **{f"index: {name}": case for name, case in spoiled_indexes.SPOILED.items()},
    **{f"configuration: {name}": case for name, case in spoiled_configs.SPOILED.items()},
    **{f"pickle: {name}": (spoil, "--allow-pickle") for name, (spoil, _) in spoiled_pickles.SPOILED.items()},
}
del CORPUS["pickle: two files"]  # two names to choose from in the message
PICKLES = {**spoiled_pickles.SPOILED, **spoiled_pickles.SLOW}


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    """Every case's directory, by its name."""
    root = tmp_path_factory.mktemp("corpus")
    seed = seeds.make_seed(root / "seed")
    found = {}
    for number, (name, (spoil, _)) in enumerate(CORPUS.items()):
        found[name] = seeds.copy(seed, root / f"case-{number}")
        spoil(found[name])
    return found


def examine(jobs, root, *flags):
    """What ``examine.py`` finds, by name."""
    path = root / "jobs.json"
    path.write_text(json.dumps([{"name": name, "path": str(place), "how": how} for name, place, how in jobs]))
    work = root / "work"
    work.mkdir(exist_ok=True)
    home = {"HOME": str(work), "TMPDIR": str(root), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *flags, str(HERE / "examine.py"), str(path)],
        **{"capture_output": True, "text": True, "cwd": work, "timeout": 600, "env": {**os.environ, **home}},
    )
    assert done.returncode == 0, done.stderr
    assert not list(work.iterdir()), "something was written to the working or the home directory"
    return {result["name"]: result for result in json.loads(done.stdout.splitlines()[-1])}


@pytest.fixture(scope="module")
def loaded(directories):
    """What ``headway.load_model`` did with each."""
    root = next(iter(directories.values())).parent
    return examine([(name, place, "load") for name, place in directories.items()], root)


@pytest.fixture(scope="module")
def commanded(directories):
    """What ``headway generate`` did with each, without assertions: none of the checks is one."""
    root = next(iter(directories.values())).parent
    return examine([(name, place, "command") for name, place in directories.items()], root, "-O")


def check(result, place, raised, said):
    """One typed error, naming the file in one line; in time, in bounds, and nothing else done."""
    assert result["raised"] == raised, f"{result['raised']}: {result['said']}\n{result['beside']}"
    assert result["said"].startswith(str(place)), result["said"]
    assert said in result["said"]
    assert "\n" not in result["said"] and len(result["said"]) < 2000 and "Traceback" not in result["beside"]
    assert result["deeds"] == []
    assert result["peak"] < BYTES
    assert result["seconds"] < SECONDS
    assert result["waited"] < 10 * SECONDS  # other programs may be busy, but nothing is waited for


@pytest.mark.parametrize("name", CORPUS)
def test_loading_refuses(name, loaded, directories):
    check(loaded[name], directories[name], "InputError", CORPUS[name][1])


@pytest.mark.parametrize("name", CORPUS)
def test_the_command_refuses(name, commanded, directories):
    check(commanded[name], directories[name], "exit 2", "")


def test_the_seed_itself_is_loaded(directories, tmp_path):
    """What the cases are refused for is not in the seed, or in how they are examined."""
    seed = next(iter(directories.values())).parent / "seed"
    assert examine([("seed", seed, "load")], tmp_path)["seed"]["raised"] == "nothing"


@pytest.fixture(scope="module")
def pickled(tmp_path_factory):
    """What opening each file of pickles did, and their directories."""
    root = tmp_path_factory.mktemp("pickles")
    seed = seeds.make_seed(root / "seed")
    places = {}
    for number, (name, (spoil, _)) in enumerate(PICKLES.items()):
        places[name] = seeds.copy(seed, root / f"case-{number}")
        spoil(places[name])
    return examine([(name, place, "pickle") for name, place in places.items()], root), places


@pytest.mark.parametrize("name", PICKLES)
def test_pickles_are_refused_though_allowed(name, pickled):
    result, place = pickled[0][name], pickled[1][name]
    if name in spoiled_pickles.SLOW:
        result = {**result, "waited": 0.0}  # it takes as long as importing torch does
    result["deeds"] = [deed for deed in result["deeds"] if deed != "subprocess.Popen"]  # the process that converts
    check(result, place, "InputError", PICKLES[name][1])
    assert not list(place.parent.rglob(spoiled_pickles.CANARY))
    assert not list(place.parent.glob("headway-*")), "a temporary file was left"
