"""The signatures of the commands by which sites come and go, and of `serve`, `study`, `status`."""

from pathlib import Path
from typing import Annotated

import typer

from ._federation_app import federation_app
from ._federation_options import Folder, JobId, Mode, SiteName
from ._terminal import Decimal, Encoding, Missing, Sep, SheetName, option

SiteNames = Annotated[
    list[str], typer.Argument(help="The names of one or more sites.", metavar="SITE")
]


@federation_app.command("invite")
def invite(
    folder: Folder,
    site: SiteName,
    out: Annotated[
        Path | None, option("Write the invitation into this file. Default: SITE.invite.")
    ] = None,
    days: Annotated[float, option("The invitation is valid for this number of days.")] = 7.0,
    show: Annotated[bool, option("Print the invitation and write no file.", "--print")] = False,
) -> None:
    """At the coordinator: write an invitation for one site. Send the invitation to this site.

    An invitation contains the address of the coordinator, the authority of its TLS certificate and
    a token that works once, for one set of keys. Example: feddcd federation invite fed north
    """
    from ._enrolment import invite_command

    invite_command(folder, site, out, days, show)


@federation_app.command("enrol")
def enrol(
    invitation: Annotated[
        Path,
        typer.Argument(
            help="The invitation file that you got from the coordinator.", metavar="INVITATION"
        ),
    ],
    data: Annotated[Path, option("The data file of the site: CSV, TSV, Excel, Parquet or LIBSVM.")],
    out: Annotated[
        Path | None, option("Make this folder for the site. Default: the name of the site.")
    ] = None,
    codebook: Annotated[
        Path | None,
        option(
            "Compare the data with this codebook, and keep this codebook as the site's "
            "own codebook."
        ),
    ] = None,
    label: Annotated[
        str | None, option("The column that a training predicts (the label column).")
    ] = None,
    docker: Annotated[
        bool, option("Also write a Dockerfile, to run the site in Docker.", "--docker")
    ] = False,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    na: Missing = None,
    sheet: SheetName = None,
) -> None:
    """At a site: check the data, make the keys on this machine, and send the public keys to the
    coordinator.

    Private keys and data stay on this machine. A new site gets the careful policy. A site that
    enrols again keeps the keys, the policy and the log in its folder. Example: feddcd federation
    enrol north.invite --data patients.csv
    """
    from ._enrolment import enrol_command

    enrol_command(invitation, data, dict(locals()))


@federation_app.command("confirm")
def confirm(
    folder: Folder,
    site: SiteName,
    heard: Annotated[
        list[str] | None,
        typer.Argument(
            help="The words that the person at the site reads to you. Without words, the command "
            "asks you for them.",
            metavar="[WORDS]...",
        ),
    ] = None,
    words: Annotated[
        str, option("The words that the person at the site reads to you, in quotes.")
    ] = "",
) -> None:
    """At the coordinator: let a site in, after both people compared the enrolment words.

    Example: feddcd federation confirm fed north
    """
    from ._enrolment import confirm_command

    confirm_command(folder, site, words or " ".join(heard or ()))


@federation_app.command("serve")
def serve(folder: Folder) -> None:
    """At the coordinator: keep the port open, so that sites can connect and studies can run.

    The command runs until you stop it. If it was killed, give the same command again. Example:
    feddcd federation serve fed
    """
    from ._serving import serve_command

    serve_command(folder)


@federation_app.command("study")
def study(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="The name of the study.", metavar="NAME")],
    job: Annotated[
        Path | None,
        option(
            "Run the job in this file, for example the job.toml that `feddcd glm` or `feddcd "
            "describe` wrote. To start a study again after its end, leave out --job."
        ),
    ] = None,
    follow: Annotated[bool, option("Show the events of the study until the study ends.")] = True,
    mode: Mode = None,
    purpose: Annotated[
        str, option("The purpose of the study, in one line. People at the sites read this line.")
    ] = "",
    wait: Annotated[
        float | None,
        option(
            "Wait at most this number of days for the decisions of people at the sites. Default: "
            "the setting approval_patience (in seconds) of the job file or of federation.toml. "
            "Without this setting: 7 days, or the setting patience if you changed it."
        ),
    ] = None,
    cancel: Annotated[
        bool,
        option(
            "End this study without a result, even while it runs. --cancel needs no --job.",
            "--cancel",
        ),
    ] = False,
) -> None:
    """At the coordinator: run a study, with a folder and a report of its own: studies/NAME.

    A second study needs no new federation; studies run one after the other. The command `feddcd
    federation serve` must run at the same time, because it does the work of the study.
    Example: feddcd federation study fed readmission --job plan/job.toml --purpose "audit 2026"
    """
    from ._studies import cancel_command, study_command

    if cancel:
        return cancel_command(folder, name)
    study_command(folder, name, job, follow, mode or "", purpose, wait)


@federation_app.command("status")
def status(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder of the federation (at the coordinator) or of a site.", metavar="DIR"
        ),
    ],
    id: JobId = None,
    serve: Annotated[
        bool,
        option("Show the status as a web page on this machine, until you press Ctrl-C.", "--serve"),
    ] = False,
    port: Annotated[
        int | None,
        option("The port of the web page. Default: 8093, or a free port if 8093 is in use."),
    ] = None,
) -> None:
    """At the coordinator or at a site: show which sites are connected, which study runs, which
    answers left, what waits for a person, what is broken, and what to do next.

    Exit codes: 0 no problem; 1 a site has a problem, so it does not answer; 2 the status cannot be
    shown. Example: feddcd federation status fed
    """
    from ._status import status_command

    status_command(folder, id or "", serve, port)


@federation_app.command("join")
def join(folder: Folder, site: SiteName) -> None:
    """Add one more site: make a folder with its keys. Give this folder to the site.

    Example: feddcd federation join fed west
    """
    from ._members import join_command

    join_command(folder, site)


@federation_app.command("retire")
def retire(folder: Folder, sites: SiteNames) -> None:
    """Remove sites from the federation. Later tables do not contain these sites, and a training
    continues without them. Retired sites do not have to answer any more.

    This command also takes back an invitation, and rejects a site that enrolled and was not
    confirmed. If several sites lost their state files, or came back with old ones, retire these
    sites in one command. Example: feddcd federation retire fed south
    """
    from ._members import depart_command

    depart_command(folder, sites, barred=False)


@federation_app.command("expel")
def expel(folder: Folder, sites: SiteNames) -> None:
    """Retire sites for ever: an expelled site may not come back, and cannot be invited again.

    Example: feddcd federation expel fed south
    """
    from ._members import depart_command

    depart_command(folder, sites, barred=True)


@federation_app.command("roster")
def roster(
    folder: Annotated[
        Path,
        typer.Argument(
            help="The folder of a site, or the folder of the federation (at the coordinator).",
            metavar="DIR",
        ),
    ],
    key: Annotated[
        bool,
        option("At a site: make new keys for sums, and write member.json for the roster.", "--key"),
    ] = False,
    member: Annotated[
        list[Path] | None,
        option(
            "At the coordinator: add the site with this member.json to the roster. Repeat "
            "the option for more sites."
        ),
    ] = None,
    sign: Annotated[Path | None, option("At a site: sign the roster in this file.")] = None,
    merge: Annotated[
        list[Path] | None,
        option(
            "At the coordinator: add the signatures in this signed roster. Repeat the option "
            "for more files."
        ),
    ] = None,
) -> None:
    """Show the roster words and the sites that have signed the roster, or make a new
    roster.

    The sites of a sum must have the same roster. Compare the roster words by phone.
    Example: feddcd federation roster north
    """
    from ._proofs import roster_command

    roster_command(folder, key, member or [], sign, merge or [])
