"""The signatures of `feddcd federation ...`; what they do is imported when they are called."""

from pathlib import Path
from typing import Annotated

import typer

from ._terminal import option

federation_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")

Folder = Annotated[Path, typer.Argument(help="The federation's folder.", metavar="DIR")]
Rounds = Annotated[int, option("Go on to so many rounds. (as federation.toml says)")]
Mode = Annotated[
    str | None,
    option("Of a table: sum, or each: the coordinator reads each site's own numbers; no proof."),
]
SiteFolder = Annotated[
    Path, typer.Argument(help="The site's own folder.", metavar="SITE_DIR", show_default=False)
]
Waiting = Annotated[list[str] | None, typer.Argument(help="What waits.", metavar="[ID]...")]
SiteName = Annotated[str, typer.Argument(help="The site's name.", metavar="SITE")]
SiteNames = Annotated[list[str], typer.Argument(help="One site or several.", metavar="SITE")]


@federation_app.command("init")
def init(
    folder: Folder,
    sites: Annotated[
        int | None,
        option("Make keys and folders for sites on this machine: site-1, ... (4 for --data)"),
    ] = None,
    site: Annotated[list[str] | None, option("A site's name instead; repeat for each.")] = None,
    data: Annotated[
        str | None, option("Share this data set out among the sites, to try things out.")
    ] = None,
    job: Annotated[
        Path | None,
        option("Make a table: job.toml, as `feddcd glm` or `feddcd describe` writes it."),
    ] = None,
    group: Annotated[
        str | None, option("With --job and --data: the column that names the sites.")
    ] = None,
    partition: Annotated[str, option("How it is shared out.")] = "iid",
    algorithm: Annotated[str, option("A name from `feddcd list`.")] = "feddcd",
    settings: Annotated[
        list[str] | None, option("A setting of the algorithm, key=value.", "--set")
    ] = None,
    model: Annotated[str, option("softmax, logistic, ridge, poisson or mlp.")] = "softmax",
    l2: Annotated[float, option("Strength of the penalty.", "--l2")] = 1e-3,
    weighting: Annotated[str, option("Count samples or clients.")] = "samples",
    rounds: Annotated[int, option("Rounds to commit.")] = 30,
    tau: Annotated[int | None, option("Sites asked in a round. (all)")] = None,
    target_gap: Annotated[
        float | None, option("Stop once the certified gap is at most this.")
    ] = None,
    answers: Annotated[
        str, option("Of training: each site's, or sum: only sums over sites can be read.")
    ] = "each",
    host: Annotated[str, option("The server's name as sites call it.")] = "127.0.0.1",
    port: Annotated[int, option("Its port.")] = 9093,
    bind: Annotated[
        str, option("The address to listen on, behind a router. (all, or loopback)")
    ] = "",
    name: Annotated[str | None, option("Of the federation. (DIR and a number)")] = None,
    authority: Annotated[
        Path | None, option("Keep the key that signs certificates in this folder. (nowhere)")
    ] = None,
) -> None:
    """Make a federation's folder: configuration and certificates. Sites are invited next.

    Example: feddcd federation init fed --host fed.example.org, then feddcd federation invite.
    All on one machine, to try it: feddcd federation init fed --sites 4 --data digits, then
    feddcd federation up fed
    """
    from ._federation import init_command

    init_command(dict(locals()))


@federation_app.command("certify")
def certify(
    folder: Folder,
    authority: Annotated[
        Path | None, option("The folder of `init --authority`. (a new authority)")
    ] = None,
) -> None:
    """Make a new certificate for the server, after a change of host in federation.toml."""
    from ._federation import certify_command

    certify_command(folder, authority)


@federation_app.command("up")
def up(
    folder: Folder,
    rounds: Rounds = 0,
    sites: Annotated[bool, option("Start the sites on this machine too.")] = True,
    mode: Mode = None,
) -> None:
    """Start the link and the sites with TLS, train, show progress, take everything down.

    Stopped or killed at any moment, the same command goes on from the ledger.
    """
    from ._federation import up_command

    up_command(folder, rounds, sites, mode or "")


@federation_app.command("simulate")
def simulate(
    folder: Folder,
    rounds: Rounds = 0,
    loss: Annotated[float, option("Share of requests, and of answers, that get lost.")] = 0.0,
    seed: Annotated[int, option("Of what gets lost.")] = 0,
    show_outgoing: Annotated[
        bool, option("Show all that would leave a site, and ask.", "--show-outgoing")
    ] = False,
    mode: Mode = None,
) -> None:
    """Run coordinator and sites in one process, without Flower: the same ledger and files.

    With --loss messages get lost at random, and the model does not care.
    """
    from ._federation import simulate_command

    simulate_command(folder, rounds, loss, seed, show_outgoing, mode or "")


@federation_app.command("site")
def site(
    folder: Annotated[Path, typer.Argument(help="The site's own folder.", metavar="SITE_DIR")],
) -> None:
    """Run one site, on the machine that holds its data, until it is stopped."""
    from ._serving import site_command

    site_command(folder)


@federation_app.command("outgoing")
def outgoing(
    folder: Annotated[Path, typer.Argument(help="The site's own folder.", metavar="SITE_DIR")],
    approve: Annotated[list[str] | None, option("Let this answer leave; repeat for more.")] = None,
    verify: Annotated[
        bool, option("Check the log of all that left this site.", "--verify")
    ] = False,
    log: Annotated[bool, option("Show that log, in words.", "--log")] = False,
) -> None:
    """At a site: what waits for its administrator, what left, and what its budget still allows."""
    from ._site import outgoing_command

    outgoing_command(folder, approve or [], verify, log)


@federation_app.command("approve")
def approve(folder: SiteFolder, ids: Waiting = None) -> None:
    """At a site: let a job, or an answer, go on. Without ID, what waits is shown in words."""
    from ._site import approve_command

    approve_command(folder, ids or [])


@federation_app.command("deny")
def deny(folder: SiteFolder, ids: Waiting = None) -> None:
    """At a site: refuse a job, or an answer, for good."""
    from ._site import deny_command

    deny_command(folder, ids or [])


@federation_app.command("pause")
def pause(
    folder: SiteFolder,
    end: Annotated[bool, option("Answer again.", "--end")] = False,
) -> None:
    """At a site: answer nothing for a while. Others wait."""
    from ._site import pause_command

    pause_command(folder, end)


@federation_app.command("withdraw")
def withdraw(
    folder: SiteFolder,
    why: Annotated[str, option("In a few words, for the log.")] = "",
) -> None:
    """At a site: rows had to leave the data, as a patient withdrew consent.

    The sets of rows of earlier jobs are closed. New jobs on the rows that are left wait for a
    person, although few rows differ.
    """
    from ._site import withdraw_command

    withdraw_command(folder, why)


@federation_app.command("inspect")
def inspect(folder: Folder) -> None:
    """Show rounds, members, who is pending, the audit of sums and the certificate."""
    from ._federation import inspect_command

    inspect_command(folder)


@federation_app.command("verify")
def verify(
    folder: Annotated[
        Path, typer.Argument(help="The federation's folder, or a proof.", metavar="DIR|PROOF")
    ],
) -> None:
    """Work everything out again: of training the ledger, of a table of sums its proof.

    A proof holds no data: it can be checked by anybody who has it.
    """
    from ._federation import verify_command

    verify_command(folder)


@federation_app.command("roster")
def roster(
    folder: Annotated[
        Path, typer.Argument(help="A site's folder, or the federation's.", metavar="DIR")
    ],
    key: Annotated[bool, option("At a site: make new keys for masked sums.", "--key")] = False,
    member: Annotated[
        list[Path] | None, option("At the coordinator: a site's member.json; repeat for more.")
    ] = None,
    sign: Annotated[Path | None, option("At a site: sign the roster in this file.")] = None,
    merge: Annotated[
        list[Path] | None, option("At the coordinator: a signed roster; repeat for more.")
    ] = None,
) -> None:
    """Show the six words of the roster, and who has signed it; or make a new one.

    Sites of one roster can be summed with each other. Compare the words by phone.
    """
    from ._proofs import roster_command

    roster_command(folder, key, member or [], sign, merge or [])


@federation_app.command("join")
def join(folder: Folder, site: SiteName) -> None:
    """Invite one more site: a folder with its keys, to be handed to it."""
    from ._federation import join_command

    join_command(folder, site)


@federation_app.command("retire")
def retire(folder: Folder, sites: SiteNames) -> None:
    """Let sites go: the model becomes the one without them. They need not answer any more.

    Sites that lost their state, or came back with an old one, are retired together.
    """
    from ._federation import depart_command

    depart_command(folder, sites, barred=False)


@federation_app.command("expel")
def expel(folder: Folder, sites: SiteNames) -> None:
    """Retire sites that may not come back."""
    from ._federation import depart_command

    depart_command(folder, sites, barred=True)
