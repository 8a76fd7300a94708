"""The text of a new policy.toml: careful, or loose for a trial."""

import textwrap
from pathlib import Path

import tomli_w

from .policy import LOOSE, LOOSENED, REVEALS, Policy, load_policy, methods

SAID = (
    "allows almost everything, so that you can try feddcd. Before a site has real data, remove the "
    "part `loose` from policy.toml of this site"
)

CAREFUL = (
    "has the careful rules, as at real sites. So `simulate` waits for at least two approvals at "
    "each site: first for the names and levels of the columns, then for the job. If all columns "
    "are numbers, only the job needs an approval. If a site refuses a job, a job without this "
    "site is a new job: the other sites have to approve the new job, too"
)
PART = "# --- loose: remove this part for real data ---"
WIDTH = 100


def template() -> str:
    """The careful policy.toml: it sets nothing, and explains each setting."""
    parts = [comment(_HEAD), *(_block(*each) for each in _SETTINGS)]
    for (text, *settings), known in ((_KINDS, REVEALS), (_METHODS, methods())):
        listing = "".join(comment(what, f"  {name:10} ") for name, what in known.items())
        parts.append(comment(text) + listing + _block("For example", *settings))
    parts += [_block(*_LARGER), f"{comment(_LAST)}complete = true\n"]
    return "\n".join(parts)


def loose_text() -> str:
    """The policy of a trial."""
    settings = f"{PART}\n{tomli_w.dumps(LOOSENED)}\n"
    last = comment(_LAST)
    return f"{comment(_LOOSE)}\n" + template().partition("\n\n")[2].replace(
        last, f"{settings}{last}"
    )


def is_loose(path: Path) -> bool:
    """Whether a policy still has settings of a trial, be others of them changed."""
    policy, careful = load_policy(path), Policy()
    if policy == LOOSE or not path.exists() or PART not in path.read_text("utf-8"):
        return policy == LOOSE
    return any(getattr(policy, k) == v != getattr(careful, k) for k, v in LOOSENED.items())


def comment(text: str, start: str = "") -> str:
    """Lines of a TOML file that set nothing; the first begins with `start`."""
    rest = " " * len(start)
    lines = textwrap.wrap(
        text, WIDTH, initial_indent=f"# {start}", subsequent_indent=f"# {rest}",
        break_on_hyphens=False,
    )  # fmt: skip
    return "".join(f"{line}\n" for line in lines)


def _block(text: str, *settings: str) -> str:
    return comment(text) + "".join(f"# {line}\n" for line in settings)


_LOOSE = (
    "LOOSE: with this policy, try feddcd on data that need no protection. The end of this file has "
    "loose settings. Remove the loose settings before this site has real data. A setting that is "
    "not in this file has its careful value."
)
_HEAD = (
    "The settings in this file decide what may leave this site. This site checks the rules before "
    "anything leaves, and reads this file again for every question. A setting behind a # is not "
    'active: the line shows the default value. If the text above a setting ends with "for '
    'example", the line is only an example. While this file has an error, nothing leaves. The page '
    '"The rules of a site" in the documentation of feddcd explains every rule.'
)
_SETTINGS = (
    (
        "In the next four rules, k is the value of min_support. First: in every column, either all "
        "rows have the same value, or at least k rows differ from the most frequent value. Second: "
        "take one level of a column, and one level of another column. Either no row has both "
        "levels, or at least k rows have both. Third: the k - 1 rows that contribute most to a sum "
        "contribute together at most half of the sum. Fourth: take some of the jobs, and the "
        "rows that all these jobs and no other jobs use. Either there are no such rows, or at "
        "least k.",
        "min_support = 5",
    ),
    (
        'With "sum", others can read only sums over sites. With "each", others can also read the '
        "numbers of this site.",
        'answers = "sum"',
    ),
    (
        "The number min_sites is the least number of sites in a sum. The number of sites "
        "at which a column has different values must be 0, or at least min_sites. If every site "
        "sets min_sites to the number of all sites, each job needs all sites.",
        "min_sites = 3",
    ),
    (
        'With "job", a person approves each job once. With "answer", a person approves each '
        'answer. With "none", answers usually leave without an approval.',
        'approve = "job"',
    ),
    (
        "A formula can contain numbers, for example 65 in I(age > 65), or the knots of a spline. "
        'With "codebook", a formula may contain only numbers that stand under "cuts" in the file '
        'codebook.toml in this folder. With "any", a formula may contain any number.',
        'constants = "codebook"',
    ),
    (
        "A small cell is a set of fewer than min_support rows that have the same levels in two "
        "columns, for example the women who died, if these are few. Small hospitals often have "
        'small cells. With "refuse", the site refuses a job with small cells. With "sum", small '
        "cells may be in a sum over sites: this sum shows only the cells of all sites together.",
        'small_cells = "refuse"',
    ),
    (
        "A rare value is a value that fewer than min_support rows have, in a column of whole "
        "numbers such as ages. Several jobs on a column with rare values can reveal the rows with "
        'rare values. With "warn", feddcd warns the person who approves a job. This warning says '
        "which columns have rare values, and which cap and step in codebook.toml would help. With "
        '"refuse", the site refuses a job on a column with rare values. With "off", the site says '
        "nothing about rare values.",
        'rare_values = "warn"',
    ),
    (
        "At most the share max_share of a sum may come from the min_support - 1 rows that "
        "contribute most. One row may never contribute more than half. For example, if max_share "
        "is 0.8 and min_support is 5, a sum over five equal values is allowed: four of them are "
        "0.8 of the sum.",
        "max_share = 0.5",
    ),
    (
        "The leverage of a row, from 0 to 1, shows how much this row alone can change the fit. The "
        "site takes the columns of all jobs together. In these columns, the leverage of each row "
        "must be below max_leverage. The number of these columns must also be less than half of "
        "the number of rows. For sums over sites, a max_leverage above 0.5 switches off this limit "
        "on the number of columns. Then small hospitals can take part, too. If max_leverage is 1, "
        "the site does not check leverages.",
        "max_leverage = 0.5",
    ),
    (
        "If training is true, this site takes part in trainings. A training has many rounds of a "
        "method such as feddcd or mbsgd. No rule checks what a round reveals about rows. A "
        "coordinator that controls another site can change the model in small steps, until the "
        "answers reveal single rows.",
        "training = false",
    ),
    (
        "The number of parameters of a model may be at most max_parameters_per_row times the "
        "number of rows. For a sum over sites, the rows of all sites count. If this site's own "
        "numbers leave, only the rows of this site count.",
        "max_parameters_per_row = 0.1",
    ),
    (
        "From each number that leaves, others get an equation; its unknowns are values of the data "
        "file. If there are as many equations as values, somebody could calculate all rows. So "
        "there is a limit for all numbers of all jobs together: max_numbers_per_value times the "
        "number of values in the used columns. With fewer equations than values, somebody may "
        "still find single values.",
        "max_numbers_per_value = 1.0",
    ),
    (
        "The next three settings limit the questions in one job, the jobs in 30 days, and the "
        "parameters of all jobs together. The site counts the jobs and the parameters of each data "
        "file separately. The value 0 means no limit.",
        "max_exchanges = 60",
        "max_jobs_per_month = 30",
        "max_parameters = 1000",
    ),
    (
        "An answer may use only columns in this list. The list must also contain the label column. "
        "Write each name exactly as in the data file; for example",
        'columns = ["age", "sex", "outcome"]',
    ),
    (
        "No answer may use a column in this list. Write the columns that identify a person into "
        "the list, with each name exactly as in the data file; for example",
        'identifiers = ["mrn"]',
    ),
)
_KINDS = (
    'Only kinds of answers in this list may leave the site. If this file does not set "kinds", all '
    'kinds of answers may leave, but the kind "values" only if min_support is 0 or 1. What each '
    "kind contains:",
    'kinds = ["columns", "gradient"]',
)
_METHODS = (
    'A job may use only methods in this list. If this file does not set "methods", a job may use '
    "all methods. What each method sends:",
    'methods = ["newton"]',
)
_LARGER = (
    "The number min_rows is the least number of rows in an answer, min_per_class in each class, "
    "and min_per_level in each level of a category. If all rows of this site have the same class, "
    "the numbers of this site alone would show the class of every row. Then this site sends "
    "numbers only for sums over sites. If this file does not set one of these three settings, "
    "feddcd uses the value of min_support instead. To set them, write for example",
    "min_rows = 50",
    "min_per_class = 10",
    "min_per_level = 10",
)
_LAST = (
    "The last setting must be complete = true. Without this setting, nothing leaves: perhaps a "
    "part of the file is missing."
)
