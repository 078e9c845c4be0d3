"""scikit-learn's estimators.  ``check_estimator`` tests nothing where the input is texts: its checks, on texts."""

import inspect
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

import headway
from headway.sklearn import MultiLabelClassifier, TextClassifier, TextEmbedder, TextRegressor

pd = pytest.importorskip("pandas")
TEXTS = [
    f"{'good' if at % 3 else 'bad'} thing number {at % 7} of {at % 11} {'old' if at % 2 else 'new'}" for at in range(66)
]
LABELS = np.array(["pos" if at % 3 else "neg" for at in range(66)])
NUMBERS = np.array([at % 3 + at % 2 / 2 for at in range(66)])
SETS = np.array([[at % 3 == 0, at % 2, 0] for at in range(66)], dtype=int)
QUICK = {"steps": 2, "d_model": 8, "layers": 1, "heads": 2, "threads": 1, "dropout": 0.0}
TARGETS = {TextClassifier: LABELS, MultiLabelClassifier: SETS, TextRegressor: NUMBERS}
ESTIMATORS = [*TARGETS, TextEmbedder]
WITHOUT_TEXT = [None, "", " \n", float("nan"), "☃"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory):
    """A model that makes vectors."""
    run = tmp_path_factory.mktemp("embedder") / "run"
    pairs = {"first": TEXTS, "second": TEXTS[::-1]}
    headway.train(pairs, task="embedding", text_column="first", second_column="second", out=run, quiet=True, **QUICK)
    return run


@pytest.fixture(scope="module")
def new(embedder):
    return lambda kind: kind(embedder) if kind is TextEmbedder else kind(**QUICK)


@pytest.fixture(scope="module")
def fitted(new):
    """Estimators that are fitted once, and not changed."""
    made = {kind: fit(new(kind)) for kind in ESTIMATORS}
    return lambda kind: made[kind]


def fit(estimator, texts=TEXTS, targets=None, weights=None):
    if type(estimator) is TextEmbedder:
        return estimator.fit(texts)
    return estimator.fit(texts, TARGETS[type(estimator)] if targets is None else targets, weights)


def answers(estimator, texts=TEXTS):
    """The numbers that an estimator gives."""
    ways = ("transform", "predict_proba", "predict")
    return np.asarray(getattr(estimator, next(way for way in ways if hasattr(estimator, way)))(texts))


def check(*kinds):
    """A test of each of these kinds of estimators, by default of all."""
    return pytest.mark.parametrize("kind", kinds or ESTIMATORS, ids=lambda kind: kind.__name__)


@check()
def test_the_constructor_sets_its_parameters_alone_and_they_can_be_set(kind, new, fitted):
    estimator = new(kind)
    assert vars(estimator) == estimator.get_params()
    assert [*inspect.signature(kind).parameters] == [*inspect.signature(kind.__init__).parameters][1:]
    assert set(vars(kind())) == set(vars(estimator)) and set(vars(kind()).values()) == {None}
    with pytest.raises(TypeError):
        kind(layerz=2)
    assert estimator.set_params(device="cpu") is estimator and estimator.get_params()["device"] == "cpu"
    with pytest.raises(ValueError, match="Invalid parameter 'layerz'"):
        estimator.set_params(layerz=2)
    tags = get_tags(estimator)
    assert tags.input_tags.string and not tags.input_tags.two_d_array
    assert tags.estimator_type == {TextRegressor: "regressor", TextEmbedder: None}.get(kind, "classifier")
    copied = clone(fitted(kind))
    assert copied.get_params() == fitted(kind).get_params() and "run_" not in vars(copied)


@check(*TARGETS)
def test_parameters_are_the_options_of_training(kind):
    names = {*kind().get_params()} - {"quiet"}
    assert names <= {*headway.training.keywords.TYPES} and {"time", "steps", "from_model", "d_model", "seed"} <= names
    assert not names & {"weight_column", "task", "text_column", "stream", "image_size", "mlm_probability"}
    assert ("balance" in names) == (kind is TextClassifier)


@check()
def test_what_is_not_fitted_says_so(kind, new):
    for way in ("predict", "predict_proba", "transform", "score"):
        if hasattr(kind, way):
            with pytest.raises(NotFittedError):
                getattr(new(kind), way)(TEXTS, *[LABELS] * (way == "score"))


@check()
def test_the_same_fit_twice_is_the_same_and_a_new_fit_forgets_the_old_one(kind, new, fitted):
    estimator, targets = new(kind), TARGETS.get(kind)
    before = estimator.get_params()
    assert fit(estimator, TEXTS[::-1][:40], None if targets is None else targets[::-1][:40]) is estimator
    first = estimator.run_.path
    assert np.array_equal(answers(fit(estimator)), answers(fitted(kind))) and estimator.get_params() == before
    assert kind is TextEmbedder or not first.exists()


@check()
def test_a_pickle_answers_in_another_process(kind, fitted, tmp_path):
    joblib.dump(fitted(kind), tmp_path / "model.joblib")
    code = (
        "import sys, joblib, numpy as np; model = joblib.load(sys.argv[1]); way = sys.argv[2]\n"
        "np.save(sys.argv[3], getattr(model, way)(sys.argv[4:]))"
    )
    way = "transform" if kind is TextEmbedder else "predict"
    words = [sys.executable, "-c", code, str(tmp_path / "model.joblib"), way, str(tmp_path / "found.npy"), *TEXTS[:9]]
    paths = {"PYTHONPATH": str(Path(headway.__file__).parents[1])}
    subprocess.run(words, check=True, env={**os.environ, **paths}, cwd=tmp_path)
    found, expected = np.load(tmp_path / "found.npy", allow_pickle=False), getattr(fitted(kind), way)(TEXTS[:9])
    same = np.allclose(found, expected, 1e-5, 1e-6) if found.dtype.kind == "f" else np.array_equal(found, expected)
    assert same and found.shape == expected.shape


@check()
def test_a_pickle_outlives_the_original_and_removes_its_files(kind, new):
    estimator = fit(new(kind))
    copied = pickle.loads(pickle.dumps(estimator))
    before, path = answers(estimator), copied.run_.path
    del estimator
    assert np.array_equal(answers(copied), before) and path.is_dir()
    del copied
    assert not path.exists()


FORMS = {
    "array": np.array,
    "array of objects": lambda texts: np.array(texts, dtype=object),
    "column of an array": lambda texts: np.array(texts, dtype=object)[:, None],
    "Series": lambda texts: pd.Series(texts, index=range(1000, 1000 + 3 * len(texts), 3)[::-1]),
    "frame": lambda texts: pd.DataFrame({"review": texts}, index=[*"ab"] * (len(texts) // 2)),
    "tuple": tuple,
}


@check()
def test_texts_in_any_form_are_the_same(kind, new, fitted):
    expected = answers(fitted(kind))
    for name, form in FORMS.items():
        assert np.array_equal(answers(fitted(kind), form(TEXTS)), expected), name
    targets = TARGETS.get(kind)
    both = (pd.Series, pd.DataFrame)[targets.ndim - 1](targets, index=range(66, 132)) if targets is not None else None
    assert np.array_equal(answers(fit(new(kind), FORMS["Series"](TEXTS), both)), expected)


@check()
def test_each_text_is_answered_by_itself_and_in_order(kind, fitted):
    before = {name: id(value) for name, value in vars(fitted(kind)).items()}
    whole, order = answers(fitted(kind)), np.random.default_rng(0).permutation(66)
    assert {name: id(value) for name, value in vars(fitted(kind)).items()} == before, "answering changes nothing"
    np.testing.assert_allclose(answers(fitted(kind), [TEXTS[at] for at in order]), whole[order], rtol=1e-5, atol=1e-6)
    apart = np.concatenate([answers(fitted(kind), TEXTS[start : start + 5]) for start in range(0, 66, 5)])
    np.testing.assert_allclose(apart, whole, rtol=1e-5, atol=1e-6)


@check()
def test_texts_that_are_not_there_are_answered_with_one_warning(kind, fitted):
    texts = [*WITHOUT_TEXT[:4], TEXTS[0]]
    with pytest.warns(UserWarning) as warned:
        found = answers(fitted(kind), texts)
    assert len(warned) == 1 and str(warned[0].message).startswith("4 ") and warned[0].filename == __file__
    np.testing.assert_allclose(found[4], answers(fitted(kind), TEXTS[:1])[0], rtol=1e-5, atol=1e-6)
    usual = {TextClassifier: [1 / 3, 2 / 3], MultiLabelClassifier: SETS.mean(axis=0), TextRegressor: NUMBERS.mean()}
    np.testing.assert_allclose(found[:4], np.broadcast_to(usual.get(kind, 0.0), found[:4].shape), rtol=1e-9)
    if kind is not TextEmbedder:
        with pytest.warns(UserWarning, match="^5 of 6 texts without a word .* most frequent|mean of the training rows"):
            labels = fitted(kind).predict([*WITHOUT_TEXT, TEXTS[1]])
        most = {TextClassifier: "pos", MultiLabelClassifier: [0, 0, 0], TextRegressor: NUMBERS.mean()}[kind]
        assert all(np.array_equal(label, most) or label == pytest.approx(most) for label in labels[:5])


@check(*TARGETS)
def test_rows_without_a_text_are_left_out_of_training(kind, new, fitted):
    texts, targets = [None, *TEXTS[:30], "", *TEXTS[30:]], np.insert(TARGETS[kind], [0, 30], TARGETS[kind][:2], axis=0)
    with pytest.warns(UserWarning, match="^2 rows without a text left out"):
        assert np.array_equal(answers(fit(new(kind), texts, targets)), answers(fitted(kind)))


@check(TextClassifier)
def test_what_training_warns_of_is_a_warning_of_python(kind, capfd):
    labels = np.where(np.arange(66) < 4, "rare", LABELS)
    with pytest.warns(UserWarning, match=r"1 of 3 labels have fewer than 10 rows: 'rare' \(4\)"):
        kind(**QUICK).fit(TEXTS, labels)
    assert capfd.readouterr() == ("", "")


@check()
def test_what_is_no_column_of_texts_is_refused(kind, new, fitted):
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(np.eye(66))
    wrong = {
        r"got int \(1\) in row 0": [1] * 66,
        r"got float \(2.5\) in row 1": ["a", 2.5] * 33,
        r"got bytes \(b'x'\) in row 0": [b"x"] * 66,
        "got a sparse matrix": sparse,
        "got one text": "a text",
        r"got an array of shape \(66, 2\)": pd.DataFrame({"a": TEXTS, "b": TEXTS}),
        "got NoneType": None,
        "got dict": {"text": TEXTS},
        r"0 sample\(s\)": [],
    }
    for message, texts in wrong.items():
        with pytest.raises(ValueError, match=message):
            fit(new(kind), texts)
        with pytest.raises(ValueError, match=message):
            answers(fitted(kind), texts)


@check(*TARGETS)
def test_targets_that_cannot_be_learnt_and_wrong_weights_are_refused(kind, new):
    targets = TARGETS[kind]
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        new(kind).fit(TEXTS, None)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        new(kind).fit(TEXTS, targets[:-1])
    missing = targets.astype(object)
    missing[3] = None if kind is TextClassifier else np.nan
    ragged = [["a"], ["b", "c"]] * 33
    for wrong in (missing, np.zeros((66, 2, 2)), [[1, 2]] * 66, targets[:1].repeat(66, axis=0), ragged):
        with pytest.raises(ValueError):
            new(kind).fit(TEXTS, wrong)
    for weights in ([1.0] * 65, np.ones((66, 1)), [-1.0] + [1.0] * 65, [np.nan] + [1.0] * 65, ["a"] * 66, [0.0] * 66):
        with pytest.raises(ValueError):
            fit(new(kind), TEXTS, weights=weights)


@check(TextClassifier, TextRegressor)
def test_a_column_vector_is_read_as_one_column(kind, new, fitted):
    with pytest.warns(DataConversionWarning):
        assert np.array_equal(answers(fit(new(kind), TEXTS, TARGETS[kind][:, None])), answers(fitted(kind)))


@check(*TARGETS)
def test_a_row_of_weight_0_is_not_there(kind, new, fitted):
    texts, targets = [*TEXTS, "another thing", "bad new words"], np.concatenate([TARGETS[kind], TARGETS[kind][:2]])
    weighed = fit(new(kind), texts, targets, [1.0] * 66 + [0.0] * 2)
    np.testing.assert_allclose(answers(weighed), answers(fitted(kind)), rtol=1e-5, atol=1e-6)
    assert np.array_equal(answers(weighed), answers(fit(new(kind), TEXTS, weights=np.ones(66))))
    heavy = fit(new(kind), TEXTS, weights=np.where(np.arange(66) % 3, 1.0, 30.0))
    assert np.abs(answers(heavy) - answers(weighed)).max() > 1e-3


@check(*TARGETS)
def test_a_fit_that_fails_changes_nothing(kind, new, fitted):
    model = fit(new(kind))
    one_target = TARGETS[kind][:1].repeat(66, 0)
    for texts, targets, options in ((TEXTS, one_target, {}), (["a", 1], [0, 1], {}), (TEXTS, None, {"steps": -1})):
        with pytest.raises(ValueError) as raised:
            fit(model.set_params(**options), texts, targets)
        assert "--" not in str(raised.value)
        assert np.array_equal(answers(model), answers(fitted(kind)))


@check(*TARGETS)
def test_the_score_is_that_of_the_answers(kind, fitted):
    found, targets = fitted(kind).predict(TEXTS), TARGETS[kind]
    right = (found == targets).reshape(66, -1).all(axis=1).mean()
    error = ((found - targets) ** 2).sum() / ((targets - targets.mean()) ** 2).sum() if kind is TextRegressor else 0.0
    assert fitted(kind).score(TEXTS, targets) == pytest.approx(1 - error if kind is TextRegressor else right)


CLASSES = {
    **{"texts": ["neg", "pos"], "numbers": [3, 20], "booleans": [False, True], "booleans as objects": [False, True]},
    **{"decimals": [1.0, 2.0], "words for none": ["NA", "None"], "blank": ["", " "]},
    "one in two forms": ["e\u0301", "é"],
}


@check(TextClassifier)
def test_classes_of_every_type_come_back_as_they_are(kind):
    for name, classes in CLASSES.items():
        targets = np.array(classes)[(LABELS == "pos").astype(int)]
        given = targets.astype(object) if "objects" in name else targets
        model = kind(**QUICK).fit(TEXTS, given)
        assert model.classes_.tolist() == classes and model.classes_.dtype == targets.dtype, name
        assert set(model.predict(TEXTS).tolist()) <= set(classes), name
        np.testing.assert_allclose(model.predict_proba(TEXTS).sum(axis=1), 1.0, rtol=1e-12)
        best = model.classes_[model.predict_proba(TEXTS).argmax(axis=1)]
        assert np.array_equal(best, model.predict(TEXTS)), name


@check(TextClassifier)
def test_one_class_is_refused_also_where_weights_leave_one(kind):
    with pytest.raises(ValueError, match=r"y has one class only, .*'pos'"):
        kind(**QUICK).fit(TEXTS, ["pos"] * 66)
    with pytest.raises(ValueError, match="y has one class only"):
        kind(**QUICK).fit(TEXTS, LABELS, (LABELS == "pos").astype(float))


@check(MultiLabelClassifier)
def test_labels_of_a_frame_and_of_a_sparse_matrix(kind, fitted):
    named = kind(**QUICK).fit(TEXTS, pd.DataFrame(SETS, columns=["bad", "old", "never"]))
    assert named.classes_.tolist() == ["bad", "old", "never"] and not named.predict_proba(TEXTS)[:, 2].any()
    sparse = pytest.importorskip("scipy.sparse").csr_matrix(SETS)
    assert np.array_equal(answers(kind(**QUICK).fit(TEXTS, sparse)), answers(fitted(kind)))
    assert fitted(kind).predict(TEXTS).shape == (66, 3) and fitted(kind).predict(TEXTS).dtype.kind == "i"


@check(TextClassifier)
def test_it_searches_and_is_validated_and_leaves_nothing_behind(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cross_val_score(kind(**QUICK), TEXTS, LABELS, cv=3).shape == (3,)
    search = GridSearchCV(kind(**QUICK), {"d_model": np.array([8, 16]), "learning_rate": [1e-3, 1e-2]}, cv=2)
    assert search.fit(TEXTS, LABELS).best_params_["d_model"] in (8, 16) and not any(tmp_path.iterdir())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        calibrated = CalibratedClassifierCV(kind(**QUICK), cv=2).fit(TEXTS, LABELS, sample_weight=np.ones(66))
        assert 0 < log_loss(LABELS, calibrated.predict_proba(TEXTS)) < 2


@check(TextEmbedder)
def test_vectors_in_pipelines_and_frames(kind, new, embedder):
    frame = pd.DataFrame({"text": TEXTS, "price": NUMBERS}, index=range(66, 132))
    columns = ColumnTransformer([("text", new(kind), "text")], remainder="passthrough").set_output(transform="pandas")
    found = columns.fit_transform(frame)
    assert found.shape == (66, 9) and found.index.tolist() == frame.index.tolist()
    assert found.columns.tolist()[:2] == ["text__textembedder0", "text__textembedder1"]
    np.testing.assert_allclose(found.to_numpy()[:, :8], headway.load(embedder)(TEXTS), rtol=1e-5, atol=1e-6)
    polars = pytest.importorskip("polars")
    as_polars = new(kind).set_output(transform="polars").fit_transform(polars.Series(TEXTS))
    assert as_polars.columns == [*new(kind).fit(TEXTS).get_feature_names_out()]
    model = make_pipeline(columns, LogisticRegression()).fit(frame, LABELS)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict_proba(frame), model.predict_proba(frame))


@check(TextEmbedder)
def test_an_encoder_of_another_task_gives_vectors_also_from_a_pickle(kind, tmp_path):
    headway.train({"text": TEXTS}, task="masked_lm", text_column="text", out=tmp_path / "run", quiet=True, **QUICK)
    model = kind(tmp_path / "run").fit(TEXTS)
    found = model.transform(TEXTS)
    assert found.shape == (66, 8) and np.array_equal(pickle.loads(pickle.dumps(model)).transform(TEXTS), found)


@check(TextEmbedder)
def test_what_makes_no_vectors_is_refused(kind, fitted):
    classifier = fitted(TextClassifier).run_.path
    for place, said in ((None, "is None"), (classifier, "classification makes no vectors"), ("nowhere/at", "nowhere")):
        with pytest.raises(ValueError, match=said):
            kind(place).fit(TEXTS)
