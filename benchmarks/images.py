"""Digits of 8 × 8 pixels, which scikit-learn brings: a Transformer trained on four fifths, tested once on the rest.

    python benchmarks/images.py [--time 2m]

The test split is fixed and nothing is chosen on it: of the 80 %, `headway train` holds a tenth out by which it keeps
the best weights.  Beside it, on the same two parts, logistic regression on pixels, k nearest neighbours and a support
vector machine, as scikit-learn has them by default.  The test pictures are also measured as a folder of PNG files.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import facts, headway, write
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

TEST_SHARE, SPLIT_SEED = 0.2, 0


def split() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """(pictures (N, 8, 8) from 0 to 1, classes) to train on, and to test on; classes in equal shares."""
    digits = load_digits()
    parts = train_test_split(
        digits.images / 16, digits.target, test_size=TEST_SHARE, random_state=SPLIT_SEED, stratify=digits.target
    )
    return (parts[0], parts[2]), (parts[1], parts[3])


def others(train: tuple[np.ndarray, np.ndarray], test: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """Test accuracy of scikit-learn's models on the same parts."""
    models: dict[str, Any] = {
        "logistic regression on pixels": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "k nearest neighbours": KNeighborsClassifier(),
        "support vector machine (RBF)": SVC(),
    }
    (x, y), (x_test, y_test) = ((images.reshape(len(images), -1), classes) for images, classes in (train, test))
    return {name: float(model.fit(x, y).score(x_test, y_test)) for name, model in models.items()}


def as_folder(folder: Path, part: tuple[np.ndarray, np.ndarray]) -> Path:
    """The pictures as FOLDER/CLASS/NUMBER.png."""
    for number, (picture, label) in enumerate(zip(*part, strict=True)):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.rint(picture * 255).astype(np.uint8)).save(folder / str(label) / f"{number:04}.png")
    return folder


def main(time: str) -> None:
    train, test = split()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for part, what in ((train, "train"), (test, "test")):
            np.savez(place / f"{what}.npz", images=part[0], labels=part[1])
        run = str(place / "run")
        trained = headway("train", str(place / "train.npz"), "--time", time, "--out", run)
        tested = headway("evaluate", run, str(place / "test.npz"))
        by_folder = headway("evaluate", run, str(as_folder(place / "test", test)))
    keys = ("parameters", "steps", "seconds", "wall", "tokens_per_second", "baselines")
    result = {
        "task": f"digits 8 x 8, headway train train.npz --time {time}; headway evaluate on the 20 % held apart",
        "pictures": {"train": len(train[0]), "test": len(test[0])},
        "test": {key: tested[key] for key in ("accuracy", "macro_f1", "val_loss", "examples")},
        "test_as_png": {key: by_folder[key] for key in ("accuracy", "val_loss", "examples")},
        "validation_accuracy": trained["accuracy"],
        **{key: trained[key] for key in keys},
        "others": others(train, test),
    }
    print(result)
    write("images", {**facts(), **result})


if __name__ == "__main__":
    main(sys.argv[2] if sys.argv[1:2] == ["--time"] else "2m")
