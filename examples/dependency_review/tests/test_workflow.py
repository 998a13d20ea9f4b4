import pytest
from cloche.testing import script

from .. import dependency_review
from ..helpers.versions import compatible, equal, satisfies

CLEAN = {
    "requirements.in": "typer>=0.15\nrich\n",
    "requirements.lock": "typer==0.15.1 --hash=sha256:aa\nrich==14.0 --hash=sha256:bb\n",
}


def review(files, task=""):
    with script(workspace=files):
        return dependency_review(task)


def kinds(result):
    return [
        (finding["kind"], finding["package"], [(place["path"], place["line"]) for place in finding["where"]])
        for finding in result["findings"]
    ]


def test_files_that_fit_together_are_fine():
    result = review({"requirements.in": "typer>=0.15\n", "requirements.lock": "typer==0.15.1\n", "notes.txt": "typer"})
    assert result == {
        "ok": True,
        "files": [
            {"path": "requirements.in", "requirements": 1, "lock": False},
            {"path": "requirements.lock", "requirements": 1, "lock": True},
        ],
        "counts": {},
        "findings": [],
        "unreadable": [],
    }


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"requirements.txt": "a\n"}, [("unpinned", "a", [("requirements.txt", 1)])]),
        ({"requirements.txt": "a>=1\n"}, []),
        ({"requirements.lock": "a==1\nb>=2\n"}, [("unpinned", "b", [("requirements.lock", 2)])]),
        (
            {"requirements.txt": "a==1 --hash=sha256:aa\nb==2\n"},
            [("unhashed", "b", [("requirements.txt", 2)])],
        ),
        (
            {"requirements.txt": "a>=1\nA<3\n"},
            [("duplicate", "a", [("requirements.txt", 1), ("requirements.txt", 2)])],
        ),
        (
            {"requirements.txt": "a>=2\nb==1\na<2\n"},
            [("conflicting", "a", [("requirements.txt", 1), ("requirements.txt", 3)])],
        ),
        ({"requirements.txt": "a>=2 ; os_name == 'nt'\na<2 ; os_name == 'posix'\n"}, []),
        (
            {"constraints.txt": "a>=2\n", "requirements.lock": "a==1.9\n"},
            [("conflicting", "a", [("requirements.lock", 1), ("constraints.txt", 1)])],
        ),
        (
            {"x/requirements.lock": "a==1\n", "y/requirements.lock": "\na==1.0.1\n", "z/requirements.lock": "a==1.0\n"},
            [("differing", "a", [("x/requirements.lock", 1), ("y/requirements.lock", 2), ("z/requirements.lock", 1)])],
        ),
        ({"x/requirements.lock": "a==1\n", "y/requirements.lock": "a==1.0\n"}, []),
    ],
)
def test_each_defect_is_found_where_it_stands(files, expected):
    result = review(files)
    assert kinds(result) == expected
    assert result["ok"] is not bool(expected)


def test_counts_sum_up_the_findings_by_kind():
    result = review({"requirements.lock": "a\nb\n", "old/requirements.lock": "a==1\na==2\n"})
    assert result["counts"] == {"conflicting": 1, "unpinned": 2}


def test_a_pattern_limits_the_files():
    files = {"x/requirements.lock": "a==1\n", "y/requirements.lock": "a==2\n"}
    assert review(files)["ok"] is False
    assert review(files, "x/**")["ok"] is True


def test_each_file_is_read_to_its_end():
    text = "".join(f"p{number}==1\n" for number in range(40_000)) + "last\n"
    with script(workspace={"requirements.lock": text}) as calls:
        result = dependency_review("")
    assert kinds(result) == [("unpinned", "last", [("requirements.lock", 40_001)])]
    assert len(calls.of("read")) == 1 + len(text) // 262144
    assert calls.of("deliver")[0].arguments == {"result": result}


def test_what_cannot_be_read_is_listed_and_the_review_goes_on():
    with script(
        workspace={"a/requirements.txt": "", "b/requirements.txt": ""},
        programs={"read": [PermissionError("no"), {"text": "./local\nb\n", "next": None, "size": 9}]},
    ):
        result = dependency_review("")
    assert [(item["path"], item["line"]) for item in result["unreadable"]] == [
        ("a/requirements.txt", 0),
        ("b/requirements.txt", 1),
    ]
    assert kinds(result) == [("unpinned", "b", [("b/requirements.txt", 2)])]


def test_each_file_is_parsed_by_the_other_package_in_a_scope_of_its_own():
    with script(workspace={"a/requirements.txt": "x==1\ny==2\n", "b/requirements.txt": "./local\n"}) as calls:
        dependency_review("")
    assert [(call.scope, call.arguments["event"]) for call in calls.of("emit")] == [
        ("/requirements_parse[1]", {"requirements": 2, "problems": 0}),
        ("/requirements_parse[2]", {"requirements": 0, "problems": 1}),
    ]
    assert {call.scope for call in calls.of("read")} == {"/"}


def test_a_workspace_without_such_files_is_an_error():
    with pytest.raises(ValueError, match="no requirements"):
        review({"readme.txt": "x"})


@pytest.mark.parametrize(
    ("version", "specifier", "allowed"),
    [
        ("1.4.5", ["~=", "1.4.2"], True),
        ("1.5", ["~=", "1.4.2"], False),
        ("1.9", ["~=", "1.4"], True),
        ("1.4rc1", ["<", "1.4"], False),
        ("1.4.post1", [">", "1.4"], False),
        ("1.4.1", [">", "1.4"], True),
        ("2.0.dev3", [">=", "2.0a1"], False),
        ("1!1.0", [">", "9"], True),
        ("1.2.3", ["==", "1.2.*"], True),
        ("1.20", ["!=", "1.2.*"], True),
        ("1.0+local", ["==", "1.0"], True),
        ("weird", [">", "1"], True),
    ],
)
def test_versions_are_compared_as_packaging_does(version, specifier, allowed):
    assert satisfies(version, [specifier]) is allowed


@pytest.mark.parametrize(
    ("specifiers", "possible"),
    [
        ([[">=", "1"], ["<", "1"]], False),
        ([[">=", "1"], ["<=", "1"]], True),
        ([[">", "1"], ["<", "1.0.1"]], True),
        ([["==", "1.2.*"], ["!=", "1.2"]], True),
        ([["~=", "1.4"], [">=", "2"]], False),
        ([["==", "1"], ["==", "2"]], False),
        ([[">", "3"]], True),
        ([["<", "0.5"]], True),
        ([], True),
    ],
)
def test_ranges_exclude_each_other_or_not(specifiers, possible):
    assert compatible(specifiers) is possible


def test_equal_versions_may_be_spelt_differently():
    assert equal("1.0", "1")
    assert not equal("1.0", "1.0.1")
