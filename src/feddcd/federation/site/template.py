"""The text of a new policy.toml: careful, or loose for a trial."""

import tomli_w

from .policy import LOOSENED, REVEALS, methods

SAID = (
    "allows almost everything, for a trial. Before you use real data, remove the part "
    "`loose` from it"
)

CAREFUL = (
    "has the careful rules, as at real sites: the sites wait for approvals, and can refuse a job"
)


def template() -> str:
    """The careful policy.toml: it sets nothing, and explains each setting."""
    listing = lambda held: "\n".join(f"#   {name:10} {what}" for name, what in held.items())
    return _TEMPLATE.format(kinds=listing(REVEALS), methods=listing(methods()))


def loose_text() -> str:
    """The policy of a trial."""
    settings = f"# --- loose: remove it for real data ---\n{tomli_w.dumps(LOOSENED)}\n"
    return _LOOSE + template().partition("\n\n")[2].replace(
        "# This must be", f"{settings}# This must be"
    )


_LOOSE = """\
# LOOSE, for a trial on data that nobody has to protect: the end of this file has loose settings.
# Remove them before this site has real data. Without a setting, the careful rule is used.

"""
_TEMPLATE = """\
# What may leave this site. This site checks these rules before anything leaves, and reads this
# file again for every question. A setting behind a # is not active. It shows the default
# value, or only an example if the text above it ends with "for example".
# While this file has an error, nothing leaves. docs/rules.md explains every rule.

# k, the least number of rows that a number may describe. In every column at least k rows (or no
# row) differ from the most frequent value. Each cell of categories has at least k rows, or none.
# The k - 1 rows with the largest parts of a sum make at most half of the sum. If some jobs use
# rows that other jobs do not use, these are at least k rows.
# min_support = 5

# "sum": others can read only sums over sites. "each": others can also read this site's numbers.
# answers = "sum"

# The least number of sites in a sum.
# min_sites = 3

# Who approves. "job": a person, once for each job. "answer": a person, for each answer.
# "none": nobody.
# approve = "job"

# Which numbers a formula may compare a column with, or add to it (also cut points and knots):
# "codebook": only the cuts of codebook.toml in this folder. "any": all numbers.
# constants = "codebook"

# Joint cells of categories with fewer than min_support rows. "refuse": the site refuses the job.
# "sum": they may be in a sum over sites, which shows only the cells of all sites together. Small
# hospitals often have such cells.
# small_cells = "refuse"

# Values that fewer than min_support rows have, in columns of whole numbers such as ages: several
# jobs on such a column can reveal these rows. "warn": who approves a job reads which columns, and
# which cap and step of codebook.toml would help. "refuse" refuses the job. "off" says nothing.
# rare_values = "warn"

# The largest part of a sum that may come from the min_support - 1 rows with the largest parts.
# With 0.8, five rows with equal values are allowed.
# max_share = 0.5

# The largest leverage of one row in any combination of columns. The number of columns must also
# be less than half of the number of rows. A value above 0.5 removes this second limit, so that
# small hospitals can take part in sums. With 1, leverages are not checked.
# max_leverage = 0.5

# Trainings, which have many rounds of a method such as feddcd or mbsgd. No rule checks what a
# round reveals about rows. A person who owns another site can steer the rounds towards single
# rows. With true, this site takes part in trainings.
# training = false

# The largest number of parameters for each row. In a sum over sites the rows of all sites count.
# If this site's own numbers leave, only its rows count.
# max_parameters_per_row = 0.1

# The numbers that all jobs together reveal, divided by the number of values (rows times columns
# that were used). Each number is an equation. With fewer equations than values, nobody can
# compute the rows, even if all others work together.
# max_numbers_per_value = 1.0

# The largest number of questions in one job, of jobs in a month, and of parameters of all jobs
# together. Each data file has its own limits. 0 means no limit.
# max_exchanges = 60
# max_jobs_per_month = 30
# max_parameters = 1000

# Only these columns may be used in an answer. Name the label column, too; for example
# columns = ["age", "sex", "outcome"]

# These columns identify a person, so no formula may use them; for example
# identifiers = ["mrn"]

# Only these kinds of answers may leave. Without this setting, all kinds may leave:
{kinds}
# For example
# kinds = ["columns", "gradient"]

# Only these methods may be used. Without this setting, all may be used. What each method sends:
{methods}
# For example
# methods = ["newton"]

# Larger limits than min_support: for all rows, for the rows of a class (with only one class, the
# label of every row would be known) and for the rows of a level; for example
# min_rows = 50
# min_per_class = 10
# min_per_level = 10

# This must be the last setting: it shows that the file is complete.
complete = true
"""
