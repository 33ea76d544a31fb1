"""The comment of a gate: its words, and how it is put on GitHub and GitLab, by a fake server."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from profiler.errors import EnvironmentUnusable, UsageError
from profiler.exports.comment import comment_site
from profiler.findings.gates import Gate, RevisionComparison
from profiler.findings.verdicts import PairVerdict, Resolution
from profiler.history.answers import answers_of_records
from profiler.history.trends import find_history
from profiler.model import Cell, Problem, Variant, Verdict
from profiler.render.words.gate import (
    MOST_ROWS,
    GateAnswer,
    control_sentences,
    gate_markdown,
    gate_marker,
    plain_lines,
)

TOKEN = "secret-token"  # noqa: S105 - of nobody
MARKER = gate_marker("softmax")


class FakeSite(ThreadingHTTPServer):
    """Keeps comments of both sites, 100 a page, and what it was asked."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.comments = []
        self.asked = []
        self.answers = {}
        """Status by method and path, where it is not that of a good answer."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def answer(self):
        server = self.server
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        path, _, query = self.path.partition("?")
        secret = self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN")
        server.asked.append((self.command, path, secret))
        status = server.answers.get((self.command, path), 200)
        if status in (301, 302):
            self.send_response(status)
            self.send_header("Location", f"{server.url}/elsewhere")
            self.end_headers()
            return
        self.send_response(status)
        self.end_headers()
        if status != 200:
            self.wfile.write(json.dumps({"message": f"you sent {secret}"}).encode())
            return
        self.wfile.write(json.dumps(self.done(path, query, body)).encode())

    def done(self, path, query, body):
        comments = self.server.comments
        if self.command == "GET":
            page = int(query.rpartition("page=")[2])
            return comments[100 * (page - 1) : 100 * page]
        if self.command == "POST":
            comments.append({"id": len(comments) + 1, **body})
            return comments[-1]
        (comment,) = (one for one in comments if path.endswith(f"/{one['id']}"))
        comment.update(body)
        return comment

    do_GET = do_POST = do_PATCH = do_PUT = answer  # noqa: N815 - names of the library

    def log_message(self, *_):
        pass


@pytest.fixture
def fake():
    with FakeSite() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def github(fake, **changed):
    return {
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_API_URL": fake.url,
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_REF": "refs/pull/7/merge",
        **changed,
    }


def gitlab(fake, **changed):
    return {
        "GITLAB_TOKEN": TOKEN,
        "CI_API_V4_URL": f"{fake.url}/api/v4",
        "CI_PROJECT_ID": "group/project",
        "CI_MERGE_REQUEST_IID": "7",
        **changed,
    }


LISTS = {
    "github": "/repos/o/r/issues/7/comments",
    "gitlab": "/api/v4/projects/group%2Fproject/merge_requests/7/notes",
}
EDITS = {"github": ("PATCH", "/repos/o/r/issues/comments"), "gitlab": ("PUT", LISTS["gitlab"])}


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_one_comment_is_updated_in_place(fake, name):
    environment = {"github": github, "gitlab": gitlab}[name](fake)
    site = comment_site(name, environment)
    assert TOKEN not in (*environment.values(), repr(site))  # nothing that starts later has it
    fake.comments += [{"id": number, "body": f"other {number}"} for number in range(1, 131)]
    site.put(MARKER, "first")
    site.put(MARKER, "second")
    ours = [one for one in fake.comments if one["body"].startswith(MARKER)]
    assert [one["body"] for one in ours] == [f"{MARKER}\nsecond"]
    assert len(fake.comments) == 131
    method, path = EDITS[name]
    assert fake.asked[-1][:2] == (method, f"{path}/131")
    assert [ask[:2] for ask in fake.asked[:3]] == [("GET", LISTS[name])] * 2 + [
        ("POST", LISTS[name])
    ]
    assert {ask[2] for ask in fake.asked} == {"Bearer secret-token" if name == "github" else TOKEN}


def test_a_comment_of_someone_else_with_our_mark_is_left_alone(fake):
    fake.comments.append({"id": 1, "body": f"{MARKER}\nforged"})
    fake.answers["PATCH", "/repos/o/r/issues/comments/1"] = 403
    comment_site("github", github(fake)).put(MARKER, "ours")
    assert [one["body"] for one in fake.comments] == [f"{MARKER}\nforged", f"{MARKER}\nours"]


@pytest.mark.parametrize("status", [401, 500, 302])
def test_what_is_refused_names_no_token_and_follows_no_redirect(fake, status):
    fake.answers["GET", LISTS["github"]] = status
    with pytest.raises(EnvironmentUnusable, match=f"HTTP status {status}") as refused:
        comment_site("github", github(fake)).put(MARKER, "text")
    assert TOKEN not in f"{refused.value} {refused.value.remedy}"
    assert [path for _, path, _ in fake.asked] == [LISTS["github"]]


def test_where_nothing_listens_the_error_names_no_token(fake):
    environment = github(fake, GITHUB_API_URL="http://127.0.0.1:9")
    with pytest.raises(EnvironmentUnusable, match="URLError") as refused:
        comment_site("github", environment).put(MARKER, "text")
    assert TOKEN not in str(refused.value)


def test_the_pull_request_may_be_named_by_the_event(fake, tmp_path):
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7}}))
    given = github(fake, GITHUB_REF="refs/heads/main", GITHUB_EVENT_PATH=str(event))
    comment_site("github", given).put(MARKER, "text")
    assert fake.asked[-1][1] == LISTS["github"]


@pytest.mark.parametrize(
    ("site", "changed", "words"),
    [
        ("github", {"GITHUB_REF": "refs/heads/main"}, "of no pull request"),
        ("github", {"GITHUB_TOKEN": ""}, "no GITHUB_TOKEN"),
        ("github", {"GITHUB_REPOSITORY": ""}, "no GITHUB_REPOSITORY"),
        ("github", {"GITHUB_API_URL": "http://api.example.com"}, "https://"),
        ("gitlab", {"CI_MERGE_REQUEST_IID": ""}, "no CI_MERGE_REQUEST_IID"),
        ("other", {}, "github or gitlab"),
    ],
)
def test_what_the_environment_does_not_say_is_named(fake, site, changed, words):
    environment = {**github(fake), **gitlab(fake), **changed}
    with pytest.raises(UsageError, match=words) as refused:
        comment_site(site, environment)
    assert TOKEN not in str(refused.value)


# ---- words ---------------------------------------------------------------------------------------


def row(variant="v|1", verdict=Verdict.SAME, ratio=1.0, **changed):
    before = changed.get("before", 1e5)
    times = {"median": before * ratio, "against_median": before}
    resolution = Resolution(noise_floor=changed.get("floor", math.nan))
    pair = PairVerdict(
        verdict, ratio=ratio, low=ratio * 0.99, high=ratio * 1.01, resolution=resolution, **times
    )
    cell = Cell(variant, Variant(variant, variant), Problem("p", "p"))
    failures = (changed.get(name, "") for name in ("failure", "old_failure"))
    return RevisionComparison(variant, "p", cell, cell, pair, *failures)


def answer(*rows, **changed):
    given = {
        "experiment": "softmax",
        "base": "aaa (2026-11-20) before",
        "head": "bbb (2026-11-21) after",
        "machine": "NVIDIA H100",
        "gate": Gate(),
        "rows": rows,
        "unchanged": (),
        "unmatched": (),
        "lacking": "",
        "left_out": "",
        "history": None,
    }
    return GateAnswer(**{**given, **changed})


def test_what_is_slower_stands_first_and_names_are_escaped():
    slower = row("slow", Verdict.SLOWER, 1.05)
    found = answer(row(), slower, row("u", Verdict.UNCLEAR, 1.2))
    text = gate_markdown(found)
    assert text.startswith("### \N{CROSS MARK} softmax: 1 of 3 cells slower beyond its margin")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert rows[0].startswith("| slow | p |")
    assert f"**\u25b2 {Verdict.SLOWER.word}**" in rows[0]
    assert "v\\|1" in text
    assert "  slow, p: 1.050\u00d7 [1.040, 1.060]" in list(plain_lines(found))


def test_unclear_and_same_do_not_trip_and_many_rows_are_counted():
    found = answer(row("u", Verdict.UNCLEAR, 1.2), *[row(str(n)) for n in range(MOST_ROWS + 4)])
    text = gate_markdown(found)
    assert "none of 25 cells slower beyond its margin, 1 undecided" in text
    assert f"| 5 more | | | | | | 5 = {Verdict.SAME.word} |" in text
    failures = {"u": {"old_failure": "hung"}, "v": {"failure": "raised: a|b"}}
    lost = answer(*(row(name, Verdict.NO_DATA, **why) for name, why in failures.items()))
    text = gate_markdown(lost)
    assert text.startswith(
        "### \N{CROSS MARK} softmax: none of 2 cells slower beyond its margin, 1 "
    )
    assert "1 failed, 1 undecided" in text
    assert "u, p: nothing to compare with: the base hung" in text
    assert "v, p: raised: a\\|b" in text
    assert "  v, p: raised: a|b" in list(plain_lines(lost))
    open_alone = gate_markdown(answer(row("u", Verdict.UNCLEAR), row("v", Verdict.NO_DATA)))
    assert open_alone.startswith("### \N{WARNING SIGN} softmax: none of 2 cells slower")
    renamed = gate_markdown(answer(unmatched=("a", "b")))
    assert "nothing in common differs" in renamed
    assert "Not compared, at one of both alone: a, b." in renamed
    nothing = gate_markdown(answer(unchanged=("a",), left_out="left out: looks."))
    assert "nothing differs between the revisions" in nothing
    assert "one session" not in nothing
    assert "Not measured, the same sources at both: a." in nothing
    assert "The budget: left out: looks." in nothing
    assert gate_marker("a-->b") == "<!-- kernel-profiler gate: a- ->b -->"


def test_what_moved_together_is_told_from_one_kernel_and_the_machine_from_both():
    rows = [row(str(n), Verdict.SLOWER, 1.04) for n in range(3)]

    def sentences(*rows, history=None):
        return list(control_sentences(answer(*rows, history=history)))

    together, noise = sentences(*rows, row(floor=0.004))
    assert together.startswith("3 of 4 cells moved together, by 1.040")
    assert noise == "A/A: the base varies by 0.40\u202f% in this session."
    assert sentences(rows[0], row()) == []
    past = find_history(
        answers_of_records(
            [
                {
                    "timestamp": 1764000000 + day,
                    "benchmark": {"name": "softmax", "dtype": "p"},
                    "model": {"name": "v|1"},
                    "metric": {"name": "duration_ns", "benchmark_values": [1e5]},
                }
                for day in range(5)
            ],
            "file",
        ),
        "duration_ns",
    )
    (usual,) = sentences(row(), history=past)
    assert usual == "The base takes 1.000\u00d7 its usual time: the machine is as it was."
    (slower,) = sentences(row(before=1.1e5), history=past)
    assert "1.100\u00d7 the time that it usually took (runs: 5): machine, driver" in slower
