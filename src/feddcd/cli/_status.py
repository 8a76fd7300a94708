"""What `feddcd federation status` shows: lines, JSON, or a page on loopback."""

import hmac
import json
import secrets
import shlex
import sys
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .._errors import FeddcdError, FolderError, SpecError
from .._files import shown
from .._text import plural, printable, sentence_list
from ..federation.about import in_study
from ..federation.folder import FederationFolder
from ..federation.machine.programs import Hang
from ..federation.site.approval import SHORT, about_waiting, asked_in, asked_words, decision_of
from ..federation.status import (
    UNSURE,
    federation_status,
    site_status,
    studies_of_job,
    unlike,
    waits_in_words,
)
from ._ending import UNPROVEN
from ._habits import found
from ._site_facts import last_lines, site_facts
from ._terminal import say, say_lines

REFRESH_S = 5
TOLD_NEXT = ("Next: ask the people at", "Next: check the name")  # which the next step says as well
AGAIN = "Then start the study again: "  # after it: the command, then what else can be done
PORT = 8093  # of the page, if nobody else has it
CLOSED = "closed, because the command `feddcd federation serve` does not run"
HOSTS = ("127.0.0.1", "localhost")  # other names lead here only by a trick of a stranger's page


def status_command(path: Path, id: str, serve: bool, port: int | None) -> None:
    status_of(path)
    if id:
        return show_job(path, id)
    if serve:
        return _serve(path, port)
    held = status_of(path)
    found(**held)
    for line in lines_of(held):
        say(line)
    if held.get("problems"):  # for scripts: this site does not answer
        sys.exit(UNPROVEN)


def show_job(path: Path, id: str) -> None:
    """One job, or those of one study: at a site what was asked and decided, at the coordinator the
    study."""
    if (path / "site.toml").exists():
        told = [_show_decision(path, one) for one in asked_in(path, id) or [id]]
        return found(**told[-1], asked=told)
    held = studies_of_job(FederationFolder(path), id)
    found(**held[-1], studies=held)
    for row in _study_rows(held):
        say("  ".join(part for part in row if part))


def _show_decision(path: Path, id: str) -> dict[str, Any]:
    wanted, short = in_study(id)
    name, state, lines = decision_of(path, short)
    study, _ = about_waiting(path, name)
    if wanted not in ("", study):
        where = f"feddcd federation outgoing {shlex.quote(shown(path))} {shlex.quote(id)}"
        told = f"{name[:SHORT]}: the coordinator's last request for this job was for study"
        raise SpecError(
            f"{told} '{study}', not for study '{wanted}'. To see all lines of the log about this "
            f"job: {where}"
        )
    say(f"{name[:SHORT]} ({asked_words(path, name)}): {state}")
    say_lines("\n".join(map(printable, lines)))
    return {"job": name[:SHORT], "study": study, "state": state, "shown": lines}


def status_of(path: Path) -> dict[str, Any]:
    """Of a site's folder, or of a federation's."""
    if (path / "site.toml").exists():
        return site_status(path)
    if not (path / "federation.toml").exists():
        raise FolderError(unlike(path))
    return federation_status(FederationFolder(path))


def lines_of(held: Mapping[str, Any]) -> list[str]:
    lines = [f"{name}: {value}" for name, value in _facts(held)]
    for _, rows in _tables(held):
        lines += ["  ".join(part for part in row if part) for row in rows]
    return [*lines, f"next: {held['next']}"]


def _facts(held: Mapping[str, Any]) -> list[tuple[str, str]]:
    if "sites" in held:
        port = f"open at {held['address']}" if held["open"] else CLOSED
        port = f"{port}, but {Hang(**held['silent']).words()}" if held["silent"] else port
        here = sum(site["state"] == "connected" for site in held["sites"])
        members = sum(site["confirmed"] for site in held["sites"])
        facts = [("federation", held["federation"])]
        if held["trial"]:
            return facts + _trial_facts(held["trial"])
        age = f" (as of {held['as_of']})" if held["as_of"] else ""
        facts += [("port", port)]
        if held["silent"]:
            return [*facts, ("connected", f"{UNSURE}{age}")]
        told = f"{here} of {plural(members, 'site')}" if members else "no site is confirmed yet"
        facts += [("connected", f"{told}{age}")]
        facts += [("CAREFUL", _rival(one)) for one in held["rivals"]]
        return facts + ([("missing", ", ".join(held["missing"]))] if held["missing"] else [])
    return site_facts(held)


def _trial_facts(trial: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What `simulate` did, and what waits at the sites now."""
    of = f" ({trial['study']}, {trial['time']})" if trial["time"] else ""
    why = f": {trial['reason']}" if trial["reason"] else ""
    facts = [] if trial["newer"] else [("trial", f"{trial['words']}{of}{why}")]
    study = lambda one: f" of study '{one['study']}'" if one["study"] else ""
    return facts + [
        ("waits", f"a person at {one['site']} has to decide about {one['what']}{study(one)}")
        for one in trial["waits"]
    ]


def _tables(held: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, ...]]]]:
    if "sites" not in held:
        return [("last in the log", [("", line) for line in last_lines(held)])]
    since = lambda site: f"since {site['since']}" if site["since"] else ""
    sites = [(s["site"], s["state"], since(s), s["trouble"]) for s in held["sites"]]
    return [("sites", sites), ("studies", _study_rows(_shortened(held)))]


def _rival(one: Mapping[str, Any]) -> str:
    return (
        f"{one['site']} is connected, but another program tries to connect with the "
        f"key of {one['site']}, too (since {one['since']}, last at {one['last']})"
    )


def _shortened(held: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of studies that failed before the last one that ended: only why, and who refused. Of the last
    one also what the next step does not say, unless all who refused have left: nobody asks them."""
    studies, here = held["studies"], {site["site"] for site in held["sites"]}
    last = max((s.get("time", 0.0) for s in studies), default=0.0)
    named = {word.strip(".,") for word in held["next"].split()}

    def short(study: Mapping[str, Any]) -> str:
        more = study["reason"].partition(AGAIN)[2].partition(f" {study['study']}.")[2]
        if study.get("time", 0.0) < last:
            return study["short"]
        told = study["refused"] and any(words in study["reason"] for words in TOLD_NEXT)
        if not told or (study["study"] not in named and here & {*study["refused"]}):
            return study["reason"]
        return study["short"] + (f".{more}" if more else "")

    cut = lambda study: {**study, "reason": short(study), "heard": []}
    return [cut(study) if study["state"] == "failed" else study for study in studies]


def _study_rows(studies: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    return [
        (
            f"study {s['study']}",
            f"job {s['job']}" if s["job"] else "",
            s["stands"],
            "; ".join(filter(None, _texts(s))),
        )
        for s in studies
    ]


def _texts(study: Mapping[str, Any]) -> list[str]:
    return [
        _result(study),
        _unshared(study),
        study["reason"],
        waits_in_words(study["waits"]),
        *study["heard"],
    ]


def _result(study: Mapping[str, Any]) -> str:
    """Of a study that is done."""
    check = f"; to check it: {study['verify']}" if study["verify"] else ""
    return f"result: {study['result']}{check}" if study["result"] else ""


def _unshared(study: Mapping[str, Any]) -> str:
    missed = study.get("unshared")
    then = "the coordinator sends this table together with the next one"
    return f"{sentence_list(missed)} did not get the table; {then}" if missed else ""


def page_of(held: Mapping[str, Any]) -> str:
    """The same as a page: every word escaped, nothing loaded from anywhere."""
    from ..report.page import document, header, paragraph
    from ..report.tables import pairs, table

    title = str(held.get("federation") or held.get("site"))
    parts = [header(title, f"Next: {held['next']}"), pairs("Now", _facts(held), "settings")]
    for name, rows in _tables(held):
        rows = rows[::-1] if name == "studies" else rows  # the newest first
        if rows:
            head = ("", *[""] * (len(rows[0]) - 1))
            parts.append(table(name, head, ("", rows), style="words"))
    parts.append(paragraph(f"This page updates itself every {REFRESH_S} s.", "note"))
    return document(f"{title}: status", *parts)


def _serve(path: Path, port: int | None) -> None:
    token = secrets.token_urlsafe(24)
    with page_server(handler_of(path, token), port) as server:
        say(
            f"the page is at http://127.0.0.1:{server.server_address[1]}/{token}/ until "
            "you press Ctrl-C"
        )
        say(
            "every user of this machine who knows this address can read the page, so keep the "
            "address secret"
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("stopped")


def page_server(handler: type[BaseHTTPRequestHandler], port: int | None) -> ThreadingHTTPServer:
    """At this port and no other one; without a port at the usual one, or at a free one."""
    try:
        return ThreadingHTTPServer(("127.0.0.1", PORT if port is None else port), handler)
    except (OSError, OverflowError) as reason:
        if port is None:
            return ThreadingHTTPServer(("127.0.0.1", 0), handler)
        why = reason.strerror if isinstance(reason, OSError) else "a port is from 0 to 65535"
        raise SpecError(
            f"the status page cannot use port {port} ({why}). Give another port with <port>, or "
            "leave <port> out: then feddcd takes a free port",
            settings={"port": None},
        ) from None


def handler_of(path: Path, token: str) -> type[BaseHTTPRequestHandler]:
    """Answers GET /TOKEN/ and /TOKEN/status.json, to people who have the token: the port itself is
    open to every user of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host = (self.headers.get("host") or "").rpartition(":")[0] or self.headers.get("host")
            kind, body, code = "text/plain", b"", 200
            try:
                given, _, what = self.path.removeprefix("/").partition("/")
                right = hmac.compare_digest(given.encode(), token.encode())
                if host not in HOSTS or not right:
                    code = 403
                elif what == "":
                    kind, body = "text/html; charset=utf-8", page_of(status_of(path)).encode()
                elif what == "status.json":
                    kind, body = "application/json", json.dumps(status_of(path)).encode()
                else:
                    code = 404
            except (FeddcdError, OSError) as error:
                code, body = 500, str(error).encode()
            self.send_response(code)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.send_header("cache-control", "no-store")
            self.send_header("x-content-type-options", "nosniff")
            self.send_header("x-frame-options", "DENY")
            self.send_header("referrer-policy", "no-referrer")
            self.send_header("refresh", str(REFRESH_S))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
