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
    return _LOOSE + template().partition("\n\n")[2].replace("# Must stay", f"{settings}# Must stay")


_LOOSE = """\
# LOOSE, for a trial on data that nobody has to protect: see the end of this file. Remove what is
# set there before this site has real data; each setting that is not written is a careful one.

"""
_TEMPLATE = """\
# What may leave this site. It is enforced here, before anything leaves, and read again for
# every question. Behind a # stands what holds without this file, or an example where there is
# "as in".
# While this file is wrong, nothing leaves. docs/rules.md explains every rule.

# The least number of rows that a number may speak of, k. In every column some k rows differ from
# the most frequent value, or none do; cells of categories have k rows, or none; the k - 1 rows that
# give most to a sum hold at most half of it; rows that some jobs have and others not are k rows.
# min_support = 5

# "sum": what leaves can be read only as a sum over sites. "each": this site's own numbers, too.
# answers = "sum"

# Sites that a sum must have.
# min_sites = 3

# Who agrees: a person once for each job, a person for each answer, or nobody.
# approve = "job"

# Numbers in comparisons, cut points and knots, and those added to a column: cuts of codebook.toml
# in this folder, or any.
# constants = "codebook"

# Joint cells of categories with fewer than min_support rows are refused, or may enter a sum over
# sites "sum", which tells the cells of all sites together; small hospitals often have such cells.
# small_cells = "refuse"

# Values that fewer than min_support rows have, in columns of whole numbers such as ages: several
# jobs on such a column can reveal these rows. "warn": who approves a job reads which columns, and
# which cap and step of codebook.toml would help. "refuse" refuses the job. "off" says nothing.
# rare_values = "warn"

# What the min_support - 1 rows that give most to a sum may hold of it; 0.8 lets 5 like rows pass.
# max_share = 0.5

# What one row may hold of any combination of columns; the columns are fewer than half the rows
# here. More than 0.5 lifts both, up to 1, which checks nothing: for small hospitals in a sum.
# max_leverage = 0.5

# Trainings: rounds of a method such as feddcd or mbsgd. No rule looks at what a round tells of
# rows, and who owns another site can lead the rounds to single rows. true lets them be answered.
# training = false

# Parameters per row: of the sum's rows, or of this site's rows where its own numbers leave.
# max_parameters_per_row = 0.1

# Numbers that all jobs together tell, by values that are here: rows times columns that entered.
# With fewer equations than unknowns rows cannot be worked out, though all others work together.
# max_numbers_per_value = 1.0

# Questions of one job; jobs in a month; parameters of all jobs together; each for one data file.
# 0 sets no limit.
# max_exchanges = 60
# max_jobs_per_month = 30
# max_parameters = 1000

# The columns that may enter an answer, the label among them, as in
# columns = ["age", "sex", "outcome"]

# Columns that tell who somebody is have no role in any formula, as in
# identifiers = ["mrn"]

# What may leave, where not all of it may:
{kinds}
# kinds = ["columns", "gradient"]

# The methods that may be used, where not all of them may, and what each sends:
{methods}
# methods = ["newton"]

# Wider limits than min_support for rows, for rows of a class (one class alone would tell the label
# of every row) and for rows of a level, as in
# min_rows = 50
# min_per_class = 10
# min_per_level = 10

# Must stay the last setting: it shows that this file was not cut short.
complete = true
"""
