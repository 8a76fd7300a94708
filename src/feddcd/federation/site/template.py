"""The text of a new policy.toml: careful, or loose for a trial."""

import textwrap
from pathlib import Path

import tomli_w

from .policy import LOOSE, LOOSENED, REVEALS, Policy, load_policy, methods

SAID = (
    "allows almost everything, for a trial. Before you use real data, remove the part `loose` "
    "from policy.toml"
)

CAREFUL = (
    "has the careful rules, as at real sites. So `simulate` waits for at least two approvals at "
    "each site: first for the names and levels of the columns, then for the job. If all columns "
    "are numbers, only the job needs an approval. If a site refuses a job, the job without this "
    "site is a new job, which the other sites have to approve again"
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
    "LOOSE, for a trial on data that nobody has to protect. The end of this file has loose "
    "settings. Remove the loose settings before this site has real data. A setting that is not "
    "in this file has its careful value."
)
_HEAD = (
    "The settings in this file decide what may leave this site. This site checks the rules before "
    "anything leaves, and reads this file again for every question. A setting behind a # is not "
    'active: the line shows the default value. If the text above a setting ends with "for '
    'example", the line is only an example. While this file has an error, nothing leaves. In the '
    "documentation of feddcd, the page on the rules of a site explains every rule."
)
_SETTINGS = (
    (
        "The setting min_support is the number k in the next rules. In every column, either no row "
        "or at least k rows differ from the most frequent value. For each pair of levels from two "
        "columns, either no row or at least k rows have both levels. The k - 1 rows that "
        "contribute most to a sum contribute at most half of the sum. If some jobs use rows that "
        "other jobs do not use, there are at least k such rows.",
        "min_support = 5",
    ),
    (
        'If answers is "sum", others can read only sums over sites. If answers is "each", others '
        "can also read the numbers of this site.",
        'answers = "sum"',
    ),
    (
        "The setting min_sites is the least number of sites in a sum. A column must vary at this "
        "many sites or more, or at no site. If every site sets min_sites to the number of all "
        "sites, each job needs all sites.",
        "min_sites = 3",
    ),
    (
        'If approve is "job", a person approves each job once. If approve is "answer", a person '
        'approves each answer. If approve is "none", nobody approves anything.',
        'approve = "job"',
    ),
    (
        "This setting decides which numbers a formula may contain, for example 65 in I(age > 65), "
        'or the knots of a spline. With constants = "codebook", it may contain only the numbers '
        'that the file codebook.toml in this folder has as "cuts". With constants = "any", all '
        "numbers are allowed.",
        'constants = "codebook"',
    ),
    (
        "A small cell is a set of fewer than min_support rows that have the same levels in two "
        "columns, for example all women who died. Small hospitals often have small cells. "
        'If small_cells is "refuse", the site refuses a job with small cells. If small_cells is '
        '"sum", small cells may be in a sum over sites: this sum '
        "shows only the cells of all sites together.",
        'small_cells = "refuse"',
    ),
    (
        "A rare value is a value that fewer than min_support rows have, in a column of whole "
        "numbers such as ages. Several jobs on a column with rare values can reveal the rows with "
        'rare values. If rare_values is "warn", the person who approves a job reads which columns '
        "have rare values. The person also reads which cap and step in codebook.toml would help. "
        'If rare_values is "refuse", the site refuses a job on a column with rare values. '
        'If rare_values is "off", the site says nothing about rare values.',
        'rare_values = "warn"',
    ),
    (
        "The setting max_share is the largest share of a sum that may come from few rows, that is, "
        "from the min_support - 1 rows that contribute most. One row may never contribute more "
        "than half. If max_share is 0.8 and min_support is 5, a sum over five rows with equal "
        "values is allowed.",
        "max_share = 0.5",
    ),
    (
        "The leverage of a row, from 0 to 1, shows how much this row alone can change the fit. In "
        "the columns of all jobs together, the leverage of each row must be below max_leverage. "
        "The number of columns must also be less than half of the number of rows. For sums over "
        "sites, a max_leverage above 0.5 switches off this limit on the number of columns, so that "
        "small hospitals can take part. If max_leverage is 1, the site does not check leverages.",
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
        "A model may have at most max_parameters_per_row parameters for each row. For a sum over "
        "sites, the rows of all sites count. If this site's own numbers leave, only the rows of "
        "this site count.",
        "max_parameters_per_row = 0.1",
    ),
    (
        "Each number that leaves is an equation for values of the data file. If there are as many "
        "equations as values, somebody could calculate all rows. So all jobs together may reveal "
        "at most max_numbers_per_value numbers for each value in the columns that they use. With "
        "fewer equations, somebody may still find single values.",
        "max_numbers_per_value = 1.0",
    ),
    (
        "These settings limit the questions in one job, the jobs in a month, and the parameters of "
        "all jobs together. Each data file has its own limits. The value 0 means no limit.",
        "max_exchanges = 60",
        "max_jobs_per_month = 30",
        "max_parameters = 1000",
    ),
    (
        "An answer may use only columns in this list. The list must also have the label column. "
        "Write each name with the same letters as in the data file; for example",
        'columns = ["age", "sex", "outcome"]',
    ),
    (
        "No answer may use a column in this list, for example a column that identifies "
        "a person. Write each name with the same letters as in the data file; for example",
        'identifiers = ["mrn"]',
    ),
)
_KINDS = (
    "Only kinds of answers in this list may leave the site. Without the setting kinds, all "
    'kinds of answers may leave, but "values" only if min_support is 0 or 1. What each kind '
    "contains:",
    'kinds = ["columns", "gradient"]',
)
_METHODS = (
    "Only methods in this list may be used. Without the setting methods, all "
    "methods may be used. What each method sends:",
    'methods = ["newton"]',
)
_LARGER = (
    "The setting min_rows is the least number of rows in an answer, min_per_class the least number "
    "of rows in each class, and min_per_level the least number of rows in each level of a "
    "category. If all rows have the same class, others would know the class of every row from the "
    "numbers of this site: then this site sends numbers only for sums over sites. If one of "
    "the three settings is not set, it has the value of min_support; for example",
    "min_rows = 50",
    "min_per_class = 10",
    "min_per_level = 10",
)
_LAST = "The setting complete must be the last setting: it shows that the file is complete."
