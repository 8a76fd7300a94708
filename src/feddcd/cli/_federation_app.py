"""The signatures of `feddcd federation ...`; what they do is imported when they are called."""

from pathlib import Path
from typing import Annotated

import typer

from ._federation_options import (
    Folder,
    JobId,
    Mode,
    OwnSite,
    Proven,
    Rounds,
    SiteFolder,
    Sites,
    TrialJob,
    TrialStudy,
    Waiting,
)
from ._terminal import option

federation_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


@federation_app.command("init")
def init(
    folder: Folder,
    sites: Sites = None,
    site: Annotated[
        list[str] | None,
        option(
            "Make a site with this name, in place of --sites. Repeat the option for more sites."
        ),
    ] = None,
    data: Annotated[str | None, option("To try feddcd: divide these data among the sites.")] = None,
    job: Annotated[
        Path | None,
        option("For a table: the job file job.toml that `feddcd glm` or `feddcd describe` writes."),
    ] = None,
    group: Annotated[
        str | None,
        option("With --job and --data: the column that says to which site a row belongs."),
    ] = None,
    partition: Annotated[
        str,
        option("How to divide the rows among the sites. `feddcd list partitions` shows all ways."),
    ] = "iid",
    algorithm: Annotated[
        str, option("The method of a training. `feddcd list algorithms` shows all methods.")
    ] = "feddcd",
    settings: Annotated[
        list[str] | None,
        option("Change a setting of the algorithm: write key=value.", "--set"),
    ] = None,
    model: Annotated[
        str, option("The model of a training: softmax, logistic, ridge, poisson or mlp.")
    ] = "softmax",
    l2: Annotated[float, option("The strength of the penalty.", "--l2")] = 1e-3,
    weighting: Annotated[
        str, option("samples: all rows count equally; clients: all sites count equally.")
    ] = "samples",
    rounds: Annotated[int, option("The number of rounds of a training.")] = 30,
    tau: Annotated[
        int | None, option("How many sites take part in each round. Default: all sites.")
    ] = None,
    target_gap: Annotated[
        float | None, option("Stop a training when its certified gap is at most this number.")
    ] = None,
    answers: Annotated[
        str,
        option(
            "What the coordinator can read in a training: the answers of each site (each), "
            "or only sums over sites (sum)."
        ),
    ] = "each",
    host: Annotated[
        str, option("The name or IP address at which the sites reach the server.")
    ] = "127.0.0.1",
    port: Annotated[int, option("The port of the server.")] = 9093,
    bind: Annotated[
        str,
        option(
            "The IP address at which the server listens. Default: all addresses of this "
            "machine; with --host 127.0.0.1, only 127.0.0.1."
        ),
    ] = "",
    name: Annotated[
        str | None, option("The federation's name. Default: the name of DIR and a random code.")
    ] = None,
    careful: Annotated[
        bool,
        option(
            "With --data: every site uses the careful rules. Each site waits for two approvals: "
            "first for the names and levels of the columns, then for the job. If a site refuses, "
            "the other sites have to approve the job without this site.",
            "--careful",
        ),
    ] = False,
    authority: Annotated[
        Path | None,
        option("Write the key that signs certificates into this folder. Default: delete the key."),
    ] = None,
) -> None:
    """Make the folder of a federation: configuration and certificates. Then invite sites.

    To try it on one machine, add --sites 4 --data digits, then run feddcd federation simulate fed.
    Example: feddcd federation init fed --host fed.example.org
    """
    from ._federation import init_command

    init_command(dict(locals()))


@federation_app.command("certify")
def certify(
    folder: Folder,
    authority: Annotated[
        Path | None,
        option(
            "Sign the new certificate with the key in this folder: the folder that you gave to "
            "`init --authority`. Default: make a new key."
        ),
    ] = None,
) -> None:
    """Make a new certificate for the server, after you changed the host in federation.toml.

    Example: feddcd federation certify fed --authority /media/stick
    """
    from ._certify import certify_command

    certify_command(folder, authority)


@federation_app.command("up")
def up(
    folder: Folder,
    rounds: Rounds = 0,
    sites: Annotated[bool, option("Start the sites on this machine, too.")] = True,
    mode: Mode = None,
) -> None:
    """Start the server and the sites with TLS, run the job, show the progress, and stop all
    programs.

    If this command was stopped or killed, give the same command again: the job continues from the
    ledger. Example: feddcd federation up fed --rounds 20
    """
    from ._federation import up_command

    up_command(folder, rounds, sites, mode or "")


@federation_app.command("simulate")
def simulate(
    folder: Folder,
    rounds: Rounds = 0,
    loss: Annotated[
        float, option("The share of questions and answers to lose at random: from 0 to below 1.")
    ] = 0.0,
    seed: Annotated[int, option("The seed that decides which questions and answers are lost.")] = 0,
    show_outgoing: Annotated[
        bool,
        option("Show each answer, and ask you whether it may leave the site.", "--show-outgoing"),
    ] = False,
    mode: Mode = None,
    job: TrialJob = None,
    study: TrialStudy = None,
) -> None:
    """Run coordinator and sites in one process, without Flower. The ledger and the files are the
    same as with Flower.

    With --loss, messages get lost at random. The result is correct even if messages get lost.
    Example: feddcd federation simulate fed --job table2/job.toml
    """
    from ._simulate import Trial, simulate_command

    trial = Trial(rounds, loss, seed, show_outgoing, mode or "")
    simulate_command(folder, trial, job, study or "")


@federation_app.command("site")
def site(folder: SiteFolder) -> None:
    """Run one site, on the machine that holds its data, until you stop it.

    Example: feddcd federation site north
    """
    from ._serving import site_command

    site_command(folder)


@federation_app.command("outgoing")
def outgoing(
    folder: SiteFolder,
    id: JobId = None,
    approve: Annotated[
        list[str] | None,
        option("Let the answer with this ID leave the site. Repeat the option for more answers."),
    ] = None,
    verify: Annotated[
        bool, option("Check the log. If ID is a digest, the log must contain it.", "--verify")
    ] = False,
    log: Annotated[
        bool, option("Read the log, and show in words everything that left this site.", "--log")
    ] = False,
) -> None:
    """At a site: show what waits for a decision, which answers left the site, and how much
    more the limits in policy.toml allow.

    Example: feddcd federation outgoing north --log
    """
    from ._site import outgoing_command

    outgoing_command(folder, id or "", approve or [], verify, log)


@federation_app.command("approve")
def approve(folder: SiteFolder, ids: Waiting = None) -> None:
    """At a site: approve a job or an answer. Without an ID, show what waits for your decision.

    Example: feddcd federation approve north 3f2a
    """
    from ._site import approve_command

    approve_command(folder, ids or [])


@federation_app.command("deny")
def deny(folder: SiteFolder, ids: Waiting = None) -> None:
    """At a site: refuse a job, or an answer. You can approve it later.

    Example: feddcd federation deny north 3f2a
    """
    from ._site import deny_command

    deny_command(folder, ids or [])


@federation_app.command("pause")
def pause(
    folder: SiteFolder,
    end: Annotated[bool, option("End the pause: the site answers again.", "--end")] = False,
) -> None:
    """At a site: answer nothing until the pause ends. The other sites wait.

    Example: feddcd federation pause north
    """
    from ._site import pause_command

    pause_command(folder, end)


@federation_app.command("withdraw")
def withdraw(
    folder: SiteFolder,
    why: Annotated[str, option("Write this reason into the log. Do not name a patient.")] = "",
    early: Annotated[
        bool,
        option(
            "Let the command work even if too few rows have changed. Read the warnings.", "--early"
        ),
    ] = False,
) -> None:
    """At a site: say that rows were removed, for example because a patient withdrew consent.

    Before this command, the site refuses new jobs by itself, because their rows differ by only a
    few rows from the rows of earlier jobs. So give the command when enough rows have changed; it
    counts them. Example: feddcd federation withdraw north --why "one patient withdrew consent"
    """
    from ._withdraw import withdraw_command

    withdraw_command(folder, why, early)


@federation_app.command("inspect")
def inspect(folder: Folder) -> None:
    """Show the state of a training: rounds, sites, the check of the sums and the certificate.

    Example: feddcd federation inspect fed
    """
    from ._federation import inspect_command

    inspect_command(folder)


@federation_app.command("verify")
def verify(folder: Proven, id: JobId = None, site: OwnSite = None) -> None:
    """Calculate a finished job again: a training from its ledger, a table in mode sum from its
    proof file.

    A proof file contains no data. Everybody who has a proof file can check it. Exit codes: 0
    VERIFIED; 1 NOT VERIFIED; 2 nothing to verify, for example no proof file. Example: feddcd
    federation verify fed/studies/readmission
    """
    from ._federation import verify_command

    verify_command(folder, id or "", site)
