"""A trained classifier, used."""

import pytest
import torch

import headway

TEXTS = [
    *("the cat sat on a mat, lovely", "awful", "", " ", "old dogs ran past red doors " * 17),
    *("日本 🙂 é", "great\n\nbad"),
]


@pytest.fixture(scope="module")
def clf(classifier_run):
    return headway.load(classifier_run)


def test_one_text_gives_one_answer_with_all_labels_by_name(clf):
    found = clf("the cat sat, lovely")
    assert set(found) == {"label", "score", "scores"} and list(found["scores"]) == ["neg", "pos"]
    assert found["score"] == max(found["scores"].values()) == found["scores"][found["label"]]
    assert sum(found["scores"].values()) == pytest.approx(1.0, abs=1e-6)
    assert clf("the cat sat on a great mat")["scores"]["pos"] > clf("the cat sat on an awful mat")["scores"]["pos"]


def test_a_list_is_each_by_itself_in_order(clf):
    found = clf(TEXTS)
    for text, one in zip(TEXTS, found, strict=True):
        assert one["scores"] == pytest.approx(clf(text)["scores"], abs=1e-5)
        known = text not in ("", " ", "日本 🙂 é")
        assert sum(one["scores"].values()) == pytest.approx(float(known), abs=1e-5)
        assert (one["label"] is not None) == known
    turned = clf(TEXTS[::-1])[::-1]
    assert [one["scores"] for one in turned] == [pytest.approx(one["scores"], abs=1e-5) for one in found]
    assert clf([]) == []


def test_of_a_long_text_the_beginning_is_read(clf):
    text = "the cat sat on a lovely mat while awful dogs ran " * 11
    whole = clf.tokenizer.encode(text, special=True)
    assert len(whole) > 2 * clf.max_length == 2 * clf.model.config.max_length
    with torch.no_grad():
        expected = clf.model(torch.tensor([[*whole[: clf.max_length - 1], whole[-1]]])).softmax(-1)[0]
    with pytest.warns(UserWarning, match="the text is longer than 32 tokens: only the beginning is read"):
        found = clf(text)
    assert list(found["scores"].values()) == pytest.approx(expected.tolist(), abs=1e-5)
