import pytest
from cloche.testing import script

from .. import requirements_parse


def parse(task):
    with script() as calls:
        found = requirements_parse(task)
    counts = {"requirements": len(found["requirements"]), "problems": len(found["problems"])}
    assert [call.arguments for call in calls] == [{"event": counts}]
    return found


def only(text):
    found = parse(text)
    assert found["problems"] == []
    assert len(found["requirements"]) == 1
    return found["requirements"][0]


def test_a_pinned_requirement_has_a_pin():
    assert only("Typer==0.15.1\n") == {
        "line": 1,
        "name": "typer",
        "extras": [],
        "specifiers": [["==", "0.15.1"]],
        "pin": "0.15.1",
        "url": "",
        "marker": "",
        "hashes": 0,
    }


def test_hashes_on_continued_lines_belong_to_the_requirement_they_follow():
    text = (
        "attrs==24.1 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n    # via pytest\nidna==3.7 --hash=sha256:cc\n"
    )
    first, second = parse(text)["requirements"]
    assert (first["name"], first["line"], first["hashes"]) == ("attrs", 1, 2)
    assert (second["name"], second["line"], second["hashes"]) == ("idna", 5, 1)


@pytest.mark.parametrize("spelling", ["Foo.Bar", "foo_bar", "FOO--bar", "foo-._bar"])
def test_spellings_of_a_name_are_one(spelling):
    assert only(spelling)["name"] == "foo-bar"


def test_extras_and_ranges_are_kept():
    found = only("uvicorn[Standard, extra_b] >=0.20, <1 , != 0.25")
    assert found["extras"] == ["extra-b", "standard"]
    assert found["specifiers"] == [["!=", "0.25"], ["<", "1"], [">=", "0.20"]]
    assert found["pin"] == ""


def test_a_marker_is_kept_with_single_blanks():
    assert only("tomli>=2 ;  python_version  < '3.11'")["marker"] == "python_version < '3.11'"


def test_a_direct_address_is_kept():
    found = only("demo @ https://example.org/demo-1.0.zip#sha256=aa ; os_name == 'nt'")
    assert found["url"] == "https://example.org/demo-1.0.zip#sha256=aa"
    assert found["marker"] == "os_name == 'nt'"


@pytest.mark.parametrize(("text", "pin"), [("a===1.0", "1.0"), ("a==1.*", ""), ("a~=1.0", ""), ("a (==1.0)", "1.0")])
def test_only_an_exact_version_is_a_pin(text, pin):
    assert only(text)["pin"] == pin


def test_options_comments_and_blank_lines_are_no_requirements():
    found = parse("# top\n\n-r base.txt  # more\n--no-binary :all:\n")
    assert found == {
        "requirements": [],
        "options": [{"line": 3, "text": "-r base.txt"}, {"line": 4, "text": "--no-binary :all:"}],
        "problems": [],
    }


@pytest.mark.parametrize("line", ["./local/dir", "https://example.org/x.zip", "a >= 1 b", "a==", "a @", "==1.0"])
def test_a_line_that_is_no_requirement_is_a_problem_and_fails_nothing(line):
    found = parse(f"ok==1\n{line}\n")
    assert [requirement["name"] for requirement in found["requirements"]] == ["ok"]
    assert [problem["line"] for problem in found["problems"]] == [2]


def test_the_text_may_come_in_a_dict():
    assert parse({"text": "a==1"}) == parse("a==1")


def test_windows_line_ends_change_nothing():
    assert parse("a==1 \\\r\n  --hash=sha256:aa\r\nb==2\r\n") == parse("a==1 \\\n  --hash=sha256:aa\nb==2\n")


@pytest.mark.parametrize("task", [None, 3, ["a==1"], {"file": "x"}])
def test_a_task_of_another_type_is_refused(task):
    with script(), pytest.raises(TypeError, match="text of a requirements file"):
        requirements_parse(task)
