"""One comment on a pull request of GitHub or a merge request of GitLab, updated in place.

By their REST APIs. The token comes from the environment alone, is taken out of it before anything
is started, and is sent to the API that the environment names and nowhere else: no redirect is
followed, and without TLS only this machine itself is talked to. It is in no message and no file.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from profiler.errors import EnvironmentUnusable, UsageError

SITES = ("github", "gitlab")
_TOKENS = {"github": ("GITHUB_TOKEN", "GH_TOKEN"), "gitlab": ("GITLAB_TOKEN",)}
_TIMEOUT_S = 30.0
_COMMENTS_PER_PAGE = 100
_MOST_PAGES = 50
_MAX_LETTERS = 60_000
"""Characters of a comment: GitHub takes 65,536."""
_FOREIGN_COMMENT_STATUSES = (403, 404)
"""HTTP statuses for a comment that begins with our mark and is another user's, or was deleted."""
_LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class CommentSite:
    """The comments of one pull or merge request."""

    comments: str
    """Address that lists them, and takes a new one."""
    comment: str
    """Address of one comment, before its number."""
    edits_by: str
    headers: Mapping[str, str] = field(repr=False)

    def put(self, marker: str, text: str) -> str:
        """Replace the comment that begins with `marker`, or add one; returns its address.

        Raises EnvironmentUnusable where the site refuses.
        """
        body = {"body": f"{marker}\n{text}"[:_MAX_LETTERS]}
        for number in self._marked_comments(marker):
            try:
                return self._address(self._request(self.edits_by, f"{self.comment}/{number}", body))
            except _RefusedError as error:
                if error.status not in _FOREIGN_COMMENT_STATUSES:
                    raise
        return self._address(self._request("POST", self.comments, body))

    def _marked_comments(self, marker: str) -> Iterator[int]:
        """Numbers of the comments that begin with a marker."""
        for page in range(1, _MOST_PAGES + 1):
            comments = self._request(
                "GET", f"{self.comments}?per_page={_COMMENTS_PER_PAGE}&page={page}"
            )
            for comment in comments:
                if str(comment.get("body", "")).startswith(marker):
                    yield int(comment["id"])
            if len(comments) < _COMMENTS_PER_PAGE:
                return

    def _address(self, comment: Any) -> str:
        return str(comment.get("html_url") or f"{self.comment}/{comment.get('id')}")

    def _request(self, method: str, url: str, body: Mapping[str, str] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self.headers, "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - checked
        try:
            with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            error.close()
            raise _RefusedError(method, url, error.code) from None
        except (OSError, ValueError) as error:
            raise EnvironmentUnusable(f"{method} {url}: {type(error).__name__}") from None


class _RefusedError(EnvironmentUnusable):
    """The site answered with an error, whose text may repeat what was sent and is not shown."""

    def __init__(self, method: str, url: str, status: int) -> None:
        super().__init__(
            f"{method} {url}: HTTP status {status}.",
            remedy="The token needs the right to write comments of this request.",
        )
        self.status = status


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirect: the token would go with it."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """No request for any redirect."""


_OPENER = urllib.request.build_opener(_NoRedirect)


def comment_site(site: str, environment: MutableMapping[str, str]) -> CommentSite:
    """The comments of the request that a CI job is of, by the variables that its runner sets.

    Takes the tokens out of `environment`. Raises UsageError for a variable that is not set.
    """
    if site not in SITES:
        raise UsageError(f"--comment {site}: must be {' or '.join(SITES)}")
    tokens = [environment.pop(name, "") for name in _TOKENS[site]]
    token = next(filter(None, tokens), None)
    if token is None:
        raise UsageError(f"--comment {site}: there is no {_TOKENS[site][0]} in the environment")
    return _github(environment, token) if site == "github" else _gitlab(environment, token)


def _github(environment: Mapping[str, str], token: str) -> CommentSite:
    api = _api(environment.get("GITHUB_API_URL", "https://api.github.com"))
    repository = f"{api}/repos/{_variable(environment, 'GITHUB_REPOSITORY')}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    number = _pull_request(environment)
    return CommentSite(
        f"{repository}/{number}/comments", f"{repository}/comments", "PATCH", headers
    )


def _pull_request(environment: Mapping[str, str]) -> int:
    """Number of the pull request, from the reference, else from the event."""
    match = re.fullmatch(r"refs/pull/(\d+)/\w+", environment.get("GITHUB_REF", ""))
    if match is not None:
        return int(match[1])
    try:
        event = json.loads(Path(environment["GITHUB_EVENT_PATH"]).read_text("utf-8"))
        return int(event["pull_request"]["number"])
    except (KeyError, OSError, TypeError, ValueError) as error:
        raise UsageError("--comment github: this job is of no pull request") from error


def _gitlab(environment: Mapping[str, str], token: str) -> CommentSite:
    api = _api(_variable(environment, "CI_API_V4_URL"))
    project = quote(_variable(environment, "CI_PROJECT_ID"), safe="")
    number = quote(_variable(environment, "CI_MERGE_REQUEST_IID"), safe="")
    notes = f"{api}/projects/{project}/merge_requests/{number}/notes"
    return CommentSite(notes, notes, "PUT", {"PRIVATE-TOKEN": token})


def _variable(environment: Mapping[str, str], name: str) -> str:
    if not environment.get(name):
        raise UsageError(f"--comment: there is no {name} in the environment")
    return environment[name]


def _api(url: str) -> str:
    """Address of an API; raises UsageError where a token would be sent unencrypted."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL_HOSTS):
        return url.rstrip("/")
    raise UsageError("--comment: the address of the API must begin with https://")
