"""Arguments and options that several of the commands `feddcd federation ...` take."""

from pathlib import Path
from typing import Annotated

import typer

from ._terminal import option

TRIAL_SITES = 4
Sites = Annotated[
    int | None,
    option(f"Make this number of sites on this machine. Default: {TRIAL_SITES} with --data."),
]
Folder = Annotated[Path, typer.Argument(help="The folder of the federation.", metavar="DIR")]
Rounds = Annotated[
    int,
    typer.Option(
        help="Continue a training up to this number of rounds. Default: the number of rounds in "
        "federation.toml.",
        show_default=False,
    ),
]
Mode = Annotated[
    str | None,
    option(
        "The mode of a table: sum or each. In mode each, the coordinator reads the sums of "
        "each site, and there is no proof file. Default: the mode in the job file."
    ),
]
TrialJob = Annotated[
    Path | None,
    option("Run the job in this file as a new study, with the sites of this federation."),
]
TrialStudy = Annotated[
    str | None,
    option(
        "With --job: the name of the study. Default: the name of the job file. If the job file is "
        "job.toml: the name of the folder that contains this file."
    ),
]
SiteFolder = Annotated[
    Path, typer.Argument(help="The folder of the site.", metavar="SITE_DIR", show_default=False)
]
Waiting = Annotated[
    list[str] | None,
    typer.Argument(
        help=(
            "The ID of the job or answer. Without an ID, this command lists the jobs and answers "
            "that wait for your decision, with their IDs. The first letters of an ID are enough."
        ),
        metavar="[ID]...",
    ),
]
JobId = Annotated[
    str | None,
    typer.Argument(
        help=(
            "Use only the job with this ID (its first letters are enough), or the study with this "
            "name. "
            "Default: all jobs. If several studies have the same job, give STUDY/ID."
        ),
        metavar="[ID]",
    ),
]
SiteName = Annotated[str, typer.Argument(help="The name of the site.", metavar="SITE")]
Proven = Annotated[
    Path,
    typer.Argument(
        help="The folder of the federation, the folder of one study, or a proof file.",
        metavar="DIR|PROOF",
    ),
]
OwnSite = Annotated[
    Path | None,
    option(
        "With a proof file: also compare the proof with the log of this site, and with the table "
        "that this site got. Give the folder of the site."
    ),
]
