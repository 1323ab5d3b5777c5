import json

from polarised.report.page import embedded, rendered

HOSTILE = "</script><!-- \u2028 & <b>"


def test_embedded_json_cannot_leave_its_element() -> None:
    text = embedded({HOSTILE: [HOSTILE]})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {HOSTILE: [HOSTILE]}


def test_a_name_that_is_not_unicode_is_still_written() -> None:
    assert json.loads(embedded("file\udcff")) == "file?"


def test_nothing_that_is_not_a_number_enters_the_page() -> None:
    assert embedded({"kl": float("nan"), "use": [float("inf")]}) == '{"kl":"nan","use":["inf"]}'


def test_titles_are_escaped_and_the_policy_names_the_script() -> None:
    page = rendered("frame.html", {}, title=HOSTILE, scripts=["core.js"])
    assert HOSTILE not in page
    assert "default-src 'none'" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page
