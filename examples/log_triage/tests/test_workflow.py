from pathlib import Path

import pytest
from cloche.testing import data, script

from .. import log_triage
from ..helpers.shapes import shape_of


def triage(files, task=""):
    with script(workspace=files) as calls:
        result = log_triage(task)
    assert calls.of("deliver")[0].arguments == {"path": "triage.md"}
    return result


def line(second, message, level="ERROR"):
    return f"2026-11-29T10:00:{second:02}.000Z {level} app.core: {message}\n"


def test_errors_are_grouped_by_shape_with_first_and_last_time():
    result = triage({"logs/mixed.log": data("mixed.log")})
    timeout, database = result["top"]
    assert timeout == {
        "rank": 1,
        "level": "ERROR",
        "component": "api.http",
        "shape": "timeout after <n> ms calling <ip>",
        "count": 4,
        "first_seen": "2026-11-29T09:59:59.000Z",
        "last_seen": "2026-11-29T10:00:05.000Z",
        "files": 1,
        "sample": "2026-11-29T10:00:01.250Z ERROR api.http: timeout after 3000 ms calling 10.0.0.7",
    }
    assert (database["level"], database["shape"], database["count"]) == ("FATAL", "cannot open <str> (<hex>)", 1)
    assert (result["errors"], result["shapes"], result["lines"], result["unparsed"]) == (5, 2, 12, 1)


def test_pages_lose_and_repeat_nothing():
    text = "".join(line(n % 60, f"job {n} failed {'x' * 100}") for n in range(20_000))
    other = line(1, "job 1 failed " + "x" * 100)
    with script(workspace={"a.log": text, "b.log": other}) as calls:
        result = log_triage("")
    assert [(group["count"], group["files"]) for group in result["top"]] == [(20_001, 2)]
    assert (result["lines"], result["bytes"], result["files"]) == (20_001, len(text) + len(other), 2)
    assert len(calls.of("read")) == 1 + -(-len(text) // (256 * 1024))
    assert all(call.phase == ("read",) for call in calls.of("read"))


def test_a_line_longer_than_a_page_counts_once():
    text = line(1, "blob " + "ERROR " * 400_000) + line(2, "after")
    result = triage({"a.log": text})
    assert (result["errors"], result["lines"], result["unparsed"]) == (2, 2, 0)
    assert {group["count"] for group in result["top"]} == {1}


def test_a_last_line_without_its_end_counts():
    result = triage({"a.log": line(1, "one").rstrip("\n")})
    assert (result["errors"], result["lines"]) == (1, 1)


def test_windows_line_ends_and_bytes_that_are_no_text_are_fine():
    result = triage({"a.log": line(1, "bad 'x'").encode().replace(b"x", b"\xff\xfe").replace(b"\n", b"\r\n")})
    assert [group["shape"] for group in result["top"]] == ["bad <str>"]


def test_groups_are_ranked_by_count_then_by_time():
    text = line(3, "late") + line(2, "early") + line(4, "often") + line(5, "often")
    assert [group["shape"] for group in triage({"a.log": text})["top"]] == ["often", "early", "late"]


def test_only_twenty_groups_are_shown_and_all_are_counted():
    words = [f"{a}{b}" for a in "klmnop" for b in "qrstuv"]
    result = triage({"a.log": "".join(line(1, word) for word in words)})
    assert (len(result["top"]), result["shapes"], result["errors"]) == (20, 36, 36)


def test_shapes_past_the_bound_are_counted_as_other():
    names = (f"{a}{b}{c}" for a in "ghijklmnopqrstuvwxyz" for b in "ghijklmnopqrstuvwxyz" for c in "ghijklmnopqrs")
    result = triage({"a.log": "".join(line(1, name) for name in names)})
    assert (result["shapes"], result["other"], result["errors"]) == (5_000, 200, 5_200)


def test_a_file_that_cannot_be_read_is_listed_and_the_others_count():
    page = {"text": line(1, "x"), "next": None, "size": 44}
    with script(workspace={"a.log": "", "b.log": ""}, programs={"read": [PermissionError("closed"), page]}):
        result = log_triage("")
    assert result["unreadable"] == [{"path": "a.log", "reason": "PermissionError: closed"}]
    assert (result["files"], result["errors"]) == (1, 1)


def test_logs_without_errors_give_an_empty_ranking():
    result = triage({"a.log": line(1, "fine", level="INFO")})
    assert (result["errors"], result["top"]) == (0, [])


def test_the_task_chooses_the_files():
    files = {"a/x.log": line(1, "a"), "b/x.log": line(1, "b")}
    assert [group["shape"] for group in triage(files, "b/*.log")["top"]] == ["b"]


def test_a_pattern_without_files_is_an_error():
    with script(workspace={"a.txt": ""}), pytest.raises(ValueError, match="no file"):
        log_triage("")


def test_the_report_holds_a_row_for_each_group():
    triage({"a.log": line(1, "a | b 'c' 5")})
    rows = Path("/tmp/output/triage.md").read_text(encoding="utf-8").splitlines()
    assert rows[2] == "1 errors of 1 shapes in 1 lines of 1 files."
    assert rows[-1].startswith("| 1 | 1 | 2026-11-29T10:00:01.000Z |")
    assert rows[-1].endswith("| a \\| b &lt;str> &lt;n> |")


@pytest.mark.parametrize(
    ("message", "shape"),
    [
        ("order 17 of 3.5 kg", "order <n> of <n> kg"),
        ("worker-17 gone", "worker-<n> gone"),
        ("utf8 and v2", "utf8 and v2"),
        ("user 'a b' \"c\" isn't here", "user <str> <str> isn't here"),
        ("id 6f9619ff-8b86-d011-b42d-00c04fc964ff", "id <id>"),
        ("commit deadbee1 and deadbeef at 0xFF", "commit <hex> and deadbeef at <hex>"),
        ("since 2026-11-29T10:00:00Z", "since <time>"),
        ("two   blanks\tand tab", "two blanks and tab"),
    ],
)
def test_what_changes_is_replaced(message, shape):
    assert shape_of(message) == shape
