"""Every tab of the playground in a real browser, against a running server."""

import csv
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))
from browser_kit import LINES, SIZES, TABS, TEXT, fill, needed, opened, tab, violations
from doors_kit import made
from served_models import Server

import headway

pytestmark = needed
EVIL = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def pages(models: dict[str, Path], lm_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a model of every kind that Headway has, one of which has labels that look like HTML."""
    folder = tmp_path_factory.mktemp("pages")
    tags = made("BertForTokenClassification", "token-classification", folder / "tags")
    evil = made("BertForSequenceClassification", "text-classification", folder / "evil")
    config = json.loads((evil / "config.json").read_text())
    config["id2label"] = {key: f"{EVIL}{key}" for key in config["id2label"]}
    config["label2id"] = {name: int(key) for key, name in config["id2label"].items()}
    (evil / "config.json").write_text(json.dumps(config))
    several = made("BertForSequenceClassification", "text-classification", folder / "several")
    config = json.loads((several / "config.json").read_text())
    config |= {
        "problem_type": "multi_label_classification",
        "thresholds": dict.fromkeys(config["id2label"].values(), 0.0),
    }
    (several / "config.json").write_text(json.dumps(config))
    names = ("text", "chat", "labels", "fill", "vectors", "marian", "pictures")
    stars = folder / "stars.csv"
    stars.write_text("text,stars\n" + "".join(f"{'good ' * n} cat {i},{1 + n}\n" for i in range(12) for n in range(5)))
    tiny = {"d_model": 16, "layers": 1, "heads": 2, "threads": 1, "layout": "bert", "quiet": True}
    headway.train(stars, out=folder / "rated", steps=2, **tiny)
    found = Server(*(models[name] for name in names), tags, evil, several, folder / "rated", lm_run, "--quiet")
    yield found
    found.stop()


@pytest.fixture
def page(browser: Any, pages: Server) -> Iterator[Any]:
    with opened(browser, pages.address) as found:
        yield found


def test_each_kind_has_a_tab_and_keys_move_between_them(page):
    tabs = page.get_by_role("tab")
    kinds = ["Write", "Chat", "Translate", "Classify", "Fill", "Tag", "Compare", "Look inside", "Training"]
    assert tabs.all_inner_texts() == kinds
    tabs.first.focus()
    for key, title in (("ArrowRight", "Chat"), ("End", "Training"), ("ArrowRight", "Write"), ("ArrowLeft", "Training")):
        page.keyboard.press(key)
        chosen = page.locator('[role="tab"][aria-selected="true"]')
        assert chosen.inner_text() == title and chosen.evaluate("tab => tab === document.activeElement")
    assert page.locator('[role="tab"][tabindex="0"]').count() == 1


@pytest.mark.parametrize("look", SIZES)
def test_every_tab_is_whole_and_accessible(browser, pages, look, tmp_path):
    pictures = Path(os.environ.get("HEADWAY_PICTURES", tmp_path))
    pictures.mkdir(parents=True, exist_ok=True)
    with opened(browser, pages.address, look) as page:
        for title, use in TABS.items():
            use(page)
            assert page.locator("#problem").is_hidden(), page.locator("#problem").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), title
            page.screenshot(path=pictures / f"{title.lower().replace(' ', '-')}-{look}.png")
            assert page.complaints == []
            assert violations(page) == [], title


def test_write_streams_and_goes_on_from_an_alternative(page):
    panel = TABS["Write"](page)
    before = panel.locator(".tok").all_inner_texts()
    assert len(before) > 7 and "tokens/s" in panel.locator("output.soft").inner_text()
    panel.locator(".tok").nth(7).click()
    others = panel.locator(".alternatives button")
    assert 2 <= others.count() <= 6 and "%" in others.first.inner_text()
    page.keyboard.press("ArrowLeft")
    assert panel.locator(".tok").nth(6).evaluate("token => token === document.activeElement")
    panel.locator(".tok").nth(7).click()
    panel.get_by_label("Length").fill("5")
    others.last.click()
    panel.locator("output.soft", has_text=";").wait_for()
    after = panel.locator(".tok").all_inner_texts()
    assert after[:7] == before[:7] and 8 < len(after) <= 8 + 5
    panel.get_by_role("button", name="Edit as one text").click()
    assert panel.get_by_label("Text to go on with").input_value().startswith(TEXT)
    assert panel.locator(".tok").count() == 0


def test_a_text_that_does_not_come_can_be_stopped(page):
    page.route("**/v1/completions", lambda route: None)
    panel = tab(page, "Write")
    fill(panel, "Text to go on with", TEXT, "Write")
    panel.get_by_role("button", name="Stop").click()
    panel.locator("output", has_text="stopped").wait_for()
    assert panel.get_by_role("button", name="Stop").is_hidden() and page.locator("#problem").is_hidden()


def test_output_that_looks_like_html_is_text(page):
    event = {"text": EVIL, "logprobs": {"tokens": [EVIL], "token_logprobs": [-1], "top_logprobs": [{EVIL: -1}]}}
    answer = f"data: {json.dumps({'choices': [{**event, 'finish_reason': 'stop'}]})}\n\ndata: [DONE]\n\n"
    page.route("**/v1/completions", lambda route: route.fulfill(body=answer, content_type="text/event-stream"))
    panel = TABS["Write"](page)
    assert panel.locator(".tok").inner_text() == EVIL
    panel = tab(page, "Classify")
    panel.get_by_label("Model").select_option("evil")
    fill(panel, "Text", EVIL, "Classify")
    panel.locator(".weighed").wait_for()
    assert EVIL in panel.locator(".bars").inner_text()
    panel = tab(page, "Look inside")
    panel.get_by_label("Model").select_option("evil")
    fill(panel, "Text", EVIL, "Look inside")
    panel.locator(".lens").wait_for()
    assert page.title() == "Headway playground" and page.locator("#panel img, #panel script").count() == 0


def test_a_text_with_several_labels_shows_all(page):
    panel = tab(page, "Classify")
    panel.get_by_label("Model").select_option("several")
    fill(panel, "Text", TEXT, "Classify")
    panel.locator(".verdict strong").nth(1).wait_for()
    assert panel.locator(".verdict").inner_text().count(",") == panel.locator(".verdict strong").count() - 1 >= 1
    assert not panel.get_by_label("Threshold").is_visible()
    panel.locator(".mattered h2").wait_for()


def test_a_rating_shows_the_mean_of_its_levels(page, pages):
    (expected,) = pages.post("/classify", {"model": "rated", "inputs": ["good cat"]}).json()["answers"]
    panel = tab(page, "Classify")
    panel.get_by_label("Model").select_option("rated")
    fill(panel, "Text", "good cat", "Classify")
    panel.locator(".verdict strong").wait_for()
    shown = panel.locator(".verdict").inner_text()
    assert expected["label"] in shown and f"{expected['value']:.2f} on average" in shown and "NaN" not in shown


def test_classify_agrees_with_its_route_and_answers_a_file(page, pages, tmp_path):
    texts = [f'old "dogs", number {n}\nran past' for n in range(75)]
    expected = pages.post("/classify", {"model": "labels", "inputs": texts}).json()["answers"]
    panel = tab(page, "Classify")
    fill(panel, "Text", texts[0], "Classify")
    panel.locator(".verdict").wait_for()
    assert expected[0]["label"] in panel.locator(".verdict").inner_text()
    assert len(panel.locator(".bars li").all()) == len(expected[0]["scores"])
    panel.get_by_label("Threshold").fill("1")
    assert panel.locator(".verdict").inner_text().startswith("Unsure")
    texts.append("🙂")  # no token that the model knows
    expected += pages.post("/classify", {"model": "labels", "inputs": texts[-1:]}).json()["answers"]
    fill(panel, "Text", texts[-1], "Classify")
    panel.get_by_text("No label: the text has no token that the model knows.").wait_for()
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["id", "review"], *([n, text] for n, text in enumerate(texts))])
    panel.locator('input[type="file"][accept*="csv"]').set_input_files(tmp_path / "rows.csv")
    column = panel.get_by_label("Column with the text")
    column.locator('option[value="1"]').wait_for(state="attached")
    assert column.input_value() == "1"
    with page.expect_download() as waiting:
        panel.get_by_role("button", name="Answer all rows").click()
    with waiting.value.path().open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["review"] for row in rows] == texts and [int(row["id"]) for row in rows] == list(range(76))
    assert [row["label"] or None for row in rows] == [one["label"] for one in expected]
    known = [one.get("known", 0.0 if one["label"] is None else None) for one in expected]
    assert [row["known"] for row in rows] == ["" if share is None else f"{share:.6f}" for share in known]
    assert rows[-1]["score"] == ""
    scores = [one["score"] for one in expected[:-1]]
    assert [float(row["score"]) for row in rows[:-1]] == pytest.approx(scores, abs=2e-3)


def test_pictures_are_classified(page, tmp_path):
    from PIL import Image

    Image.new("RGB", (40, 30), (200, 30, 30)).save(tmp_path / "red.png")
    panel = tab(page, "Classify")
    panel.get_by_label("Model").select_option("pictures")
    panel.get_by_label("Picture").set_input_files(tmp_path / "red.png")
    panel.get_by_role("button", name="Classify").click()
    panel.locator(".bars").wait_for()
    assert page.locator("#problem").is_hidden()


def test_nearest_texts_of_a_file(page, tmp_path):
    (tmp_path / "lines.txt").write_text(LINES)
    panel = tab(page, "Compare")
    panel.get_by_label("File of texts").set_input_files(tmp_path / "lines.txt")
    fill(panel, "Text to look for", LINES.splitlines()[1], "Find the nearest")
    first = panel.locator(".bar-row").first
    first.wait_for()
    assert LINES.splitlines()[1] in first.inner_text() and "1.000" in first.inner_text()


def test_a_head_switched_off_changes_the_answer(page):
    panel = TABS["Look inside"](page)
    panel.locator("#explorer #heads button").nth(1).click()
    panel.locator("#head-name", has_text="Layer 1, head 2").wait_for()
    panel.get_by_label("self, layer 1, head 2 off").check()
    panel.locator(".less").first.wait_for()
    panel.get_by_label("Text", exact=True).fill("old dogs ran")
    panel.locator(".tokens button").first.click()
    panel.locator('.tokens button[aria-pressed="true"]').first.wait_for()
    assert page.locator("#problem").is_hidden()
    panel.locator("#said", has_text=re.compile(r"^1 ")).wait_for()  # the maps follow
    panel.get_by_label("Model").select_option("marian")
    panel.locator(".lens").wait_for(state="hidden")  # what another model did
    fill(panel, "Text", TEXT, "Look inside")
    panel.get_by_role("tab", name="cross-attention: target to source").wait_for()


def test_a_note_says_that_a_translation_is_cut_off(page):
    TABS["Translate"](page)
    assert "1 translation is cut off" in page.locator("#note").inner_text()
    tab(page, "Tag")
    assert page.locator("#note").is_hidden() and page.locator("#problem").is_hidden()


def test_a_refusal_is_one_plain_message(page):
    panel = tab(page, "Fill")
    fill(panel, "Text", "no mask here", "Fill")
    said = page.get_by_role("alert")
    said.wait_for()
    assert "write [MASK] where a word is missing" in said.inner_text() and "{" not in said.inner_text()
    tab(page, "Tag")
    assert said.is_hidden()
    page.complaints[:] = [one for one in page.complaints if "status of 400" not in one]


def test_a_server_with_a_key_asks_for_it(browser, models):
    key = "a-long-key-of-the-test"
    with (
        Server(models["labels"], "--quiet", env={"HEADWAY_API_KEY": key}) as server,
        opened(browser, server.address) as page,
    ):
        assert "needs a key" in page.get_by_role("alert").inner_text()
        page.get_by_label("Key of this server").fill(key)
        page.get_by_role("button", name="Use key").click()
        TABS["Classify"](page)
        assert page.evaluate("localStorage.length + sessionStorage.length + document.cookie.length") == 0
        page.complaints[:] = [one for one in page.complaints if "status of 401" not in one]


def test_an_answer_is_no_formula_in_a_spreadsheet(page):
    given = ["=1+1", " =cmd|' /C calc'!A0", "-HYPERLINK(1)", "@SUM(1)", "+", "-", "- good", -0.5, "-0.5", "good", 0.25]
    found = page.evaluate(
        "given => import('/playground/files.js').then(files => given.map(files.withoutFormula))", given
    )
    assert found == ["'=1+1", "' =cmd|' /C calc'!A0", "'-HYPERLINK(1)", "'@SUM(1)", *given[4:]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'text\nfine\n"never closed\nmore\n', "line 3: the quotation mark opened there is never closed"),
        (b"id,text\n1,fine\n2,one,two\n", "row 3: has 3 cells, and the first row 2 cells"),
        (b"id,text\n1,fine\n2\n", "row 3: has 1 cell"),
        ("text\ngrün\n".encode("cp1252"), "no text in UTF-8"),
        (b"text\n\0\1\2\n", "no text in UTF-8"),
        (b"text\n", "a header and no row"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_is_no_table_is_refused(page, tmp_path, content, said):
    (tmp_path / "rows.csv").write_bytes(content)
    panel = tab(page, "Classify")
    panel.locator('input[type="file"][accept*="csv"]').set_input_files(tmp_path / "rows.csv")
    page.get_by_role("alert").wait_for()
    assert said in page.get_by_role("alert").inner_text()
    assert panel.get_by_role("button", name="Answer all rows").is_hidden()


def test_a_row_that_is_wrong_ends_a_file_and_what_was_answered_is_kept(page, tmp_path):
    rows = ["id,text", *(f'{n},"two\nlines"' for n in range(40)), "41,one,two"]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    panel = tab(page, "Classify")
    panel.locator('input[type="file"][accept*="csv"]').set_input_files(tmp_path / "rows.csv")
    with page.expect_download() as waiting:
        panel.get_by_role("button", name="Answer all rows").click()
    assert waiting.value.suggested_filename == "rows.answers.first-32.csv"
    said = page.get_by_role("alert").inner_text()
    assert "After 32 rows" in said and "row 42" in said


def test_nothing_old_stays_after_an_error(page):
    panel = TABS["Classify"](page)
    fill(panel, "Text", "  ", "Classify")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text() == "Give a text first." and panel.locator(".verdict").count() == 0
    fill(panel, "Text", "dogs " * 900, "Classify")
    panel.get_by_text("The words that mattered are not shown").wait_for()
    page.complaints[:] = [one for one in page.complaints if "status of 400" not in one]


def test_back_goes_to_the_tab_before(page):
    tab(page, "Classify")
    tab(page, "Compare")
    page.go_back()
    page.get_by_role("tabpanel", name="Classify", exact=True).wait_for()
    assert page.get_by_role("tab", selected=True).inner_text() == "Classify"
    page.goto(page.url.split("#")[0] + "#translate")
    page.get_by_role("tabpanel", name="Translate", exact=True).wait_for()
    assert page.get_by_role("tab", selected=True).inner_text() == "Translate"


def test_a_tab_is_tried_again_when_the_server_is_back(browser, models):
    with Server(models["labels"], "--quiet") as server, opened(browser, server.address) as page:
        tab(page, "Classify")
        page.route("**/inside.js*", lambda route: route.abort())
        page.get_by_role("tab", name="Look inside", exact=True).click()
        page.get_by_role("alert").wait_for()
        assert "does not answer" in page.get_by_role("alert").inner_text()
        page.unroute("**/inside.js*")
        tab(page, "Look inside")
        page.complaints.clear()
