"""What the language takes and what it refuses, with the place and the remedy; fuzz."""

import ast
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_design import FORMS, design, rows

import feddcd.formula
from feddcd import FederatedGLM
from feddcd._errors import DataError, SpecError
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis.plan import RegressionPlan
from feddcd.formula import ColumnKind, kinds_of, learn, read_formula
from feddcd.formula._variables import CategoryVariable

NUMBER = ColumnKind(True)
KINDS = {
    **dict.fromkeys(("x", "z", "age", "bp.1d", "2nd", "größe", "a b", "x²", "__x"), NUMBER),
    "sex": ColumnKind(False, ("f", "m")),
    "race": ColumnKind(False, ("black", "other", "white")),
    "one": ColumnKind(False, ("same",)),
    "black": NUMBER,
}


def names(right, kinds=KINDS):
    return learn(read_formula(f"y ~ {right}"), kinds).names


REFUSED = {
    # habits of R
    "poly(x, 2)": "poly(x, 2): write poly(x, 2, raw=TRUE)",
    "relevel(race, ref='white')": (
        "relevel(race, ref='white') is not known in a formula, at 'relevel' (character 5) in the "
        "formula \"y ~ relevel(race, ref='white')\". Write C(x, ref='a')"
    ),
    "scale(x)": (
        "but a site has only its own rows, at 'scale' (character 5) in the formula "
        "'y ~ scale(x)'. Write I((x - 50) / 10) with numbers"
    ),
    "center(x)": "center(x) needs all rows at once",
    "x + (1 | sex)": (
        "this character is not known, at '|' (character 12) in the formula 'y ~ x + (1 | sex)'. "
        "A formula has no random effects and no 'or'"
    ),
    "sex %in% race": (
        "formula: this character is not known, at '%' (character 9) in the formula "
        "'y ~ sex %in% race'. A formula has no %in%, %% or %/%. For an interaction, write a:b. "
        "For a comparison, write I(x == 'a')"
    ),
    "s(x)": (
        "s(x) is not known in a formula, at 's' (character 5) in the formula 'y ~ s(x)'. Write "
        "ns(x, knots=c(30, 50)"
    ),
    "ifelse(x > 5, 1, 0)": (
        "is not known in a formula, at 'ifelse' (character 5) in the formula "
        "'y ~ ifelse(x > 5, 1, 0)'. Write a comparison, as in I((x > 5) * x)"
    ),
    "bs(x, df=4)": "write the knots as numbers, for example bs(x, knots=c(30, 50), Boundary",
    "bs(x, knots=c(1, 2))": "Boundary.knots=c(20, 80)). Without these numbers, R computes",
    "ns(x, knots=c(9), Boundary.knots=c(0, 5))": "all knots must be between these numbers",
    "ns(x, knots=c(2, 1), Boundary.knots=c(0, 5))": "knots in increasing order",
    "ns(x, knots=c(z), Boundary.knots=c(0, 5))": "needs numbers as knots",
    "rcs(x, 4)": (
        "write at least 3 knots as numbers, for example rcs(x, c(20, 40, 60)). Without these "
        "numbers, R computes the knots from all rows, but no site has all rows"
    ),
    "cut(x, 4)": "write the cut points as numbers, for example cut(x, c(0, 40, 60, Inf))",
    "x^2": "for the power, write I(x^2)",
    "log(x, 2)": "log needs exactly one value; write log2(x)",
    "log(x + 1, base=10)": "log needs exactly one value; write log10(x + 1)",
    "log(x, base=3)": "log needs exactly one value; write I(log(x) / log(3))",
    "log(x, z)": "log(x, z): log needs exactly one value",
    "C(race, contr.treatment(base=2))": "base is the number of a level; write the level itself",
    "C(race, base=2)": "base is the number of a level; write the level itself",
    "C(race, contr.treatment(3))": "3 is the number of levels; to make 3 the reference, write",
    "C(race, contr.treatment(3, base=2))": "in R, 3 is the number of levels",
    "C(race, contr.sum(-3))": "in R, -3 is the number of levels",
    "C(race, contr.treatment, 2)": "2 is the number of columns; to make 2 the reference",
    "C(race, Sum, 2)": "in R, 2 is the number of columns; to make 2 the reference, write ref=2",
    "C(race, ref='green')": "'green' is not one of the levels 'black', 'other', 'white'",
    "C(race, ref='Black')": "'white'; did you mean 'black'?",
    "C(race, ref=black)": "formula: C(race, ref=black): write the level in quotes: ref='black'",
    "C(race, Treatment(black))": "write the level in quotes: ref='black'",
    "C(race, levels=c(black, white))": "for example c('a', 'b'); words need quotes",
    "C(race, Sum, ref='black')": "only Treatment can have a reference",
    "C(race, Diff)": "the contrast must be Treatment('a'), Sum, Helmert or Poly",
    "C(race, levels=c('a', 'a'))": "levels must be different words or numbers",
    "C(x + 1)": "C needs a column, or cut(x, c(...))",
    "factor(race, order=TRUE)": (
        "formula: factor(race, order=TRUE): factor has no argument 'order'; its arguments "
        "are x, contrasts, ref, levels"
    ),
    "x > 5": "write I(x > 5) for x > 5",
    "I(x > 5 & x < 9)": (
        "this character is not known, at '&' (character 13) in the formula "
        "'y ~ I(x > 5 & x < 9)'. A formula has no 'and'. Write I((a > 5) * (b < 3)), which is 1"
    ),
    "I(5 < x < 9)": (
        "write only one comparison at a time, at '<' (character 13) in the formula "
        "'y ~ I(5 < x < 9)'. Write I((a < x) * (x < b)), which is 1 in rows where both "
        "comparisons are true"
    ),
    "I(race > 'a')": "categories can be compared only with == and !=",
    "I(race == 'green')": "the column 'race' has only the levels 'black', 'other', 'white'",
    "I(race + 1)": "race + 1: race contains words, not numbers",
    "I(x:z)": "':z' is not allowed inside I(); write * for the product",
    "x:1": "1 is part of a product; write it as a separate term, with +",
    "x - z": "z is removed with -, but the formula does not contain it",
    "x + offset(z) : sex": "offset(z) must be a term of its own, as in y ~ x + offset(z)",
    "x - offset(z)": "offset(z) can only be added with +, as in y ~ x + offset(z)",
    "x * (1 + z)": "is part of a product; write 0, 1 and offset() as separate terms, with +",
    "cbind(x, z)": "can be used only on the left of ~",
    "Treatment('a')": "can be used only inside C(x, ...)",
    "one": "one has only the level 'same'",
    "0": "the formula has no column and no intercept",
    # habits of patsy and Python
    "Q('a b')": (
        "Q('a b') is not known in a formula, at 'Q' (character 5) in the formula "
        "\"y ~ Q('a b')\". Write the name in backticks, as in `my col"
    ),
    "np.log(x)": (
        "np.log(x) is not known in a formula, at 'np.log' (character 5) in the formula "
        "'y ~ np.log(x)'. Write log(...)"
    ),
    "I(x - np.mean(x))": (
        "but a site has only its own rows, at 'np.mean' (character 11) in the formula "
        "'y ~ I(x - np.mean(x))'. Write a number"
    ),
    "I(x > np.median(x))": (
        "but a site has only its own rows, at 'np.median' (character 11) in the formula "
        "'y ~ I(x > np.median(x))'. Write the cut point"
    ),
    "rank(x)": "needs all rows at once",
    "{x + 1}": (
        "this character is not known, at '{' (character 5) in the formula 'y ~ {x + 1}'. Write "
        "I(...) for arithmetic"
    ),
    "x[0]": "a formula cannot have [ after the name 'x', at '['",
    "x.mean()": "x.mean() needs all rows at once",
    "x.__class__": "no column 'x.__class__'",
    "().__class__": "a name, a number or a bracket is missing, at ')'",
    "__import__('os')": (
        "'__import__' begins with __, at '__import__' (character 5) in the formula "
        "\"y ~ __import__('os')\". If a column has this name, put the name into backticks"
    ),
    "eval('1')": (
        "eval('1') is not known in a formula, at 'eval' (character 5) in the formula "
        "\"y ~ eval('1')\". The functions of a formula are abs, exp, log"
    ),
    "age (years) + x": (
        "age (years) is not known in a formula, at 'age' (character 5) in the formula "
        "'y ~ age (years) + x'. If `age (years)` is a column, write it in backticks. The functions"
    ),
    "lambda: x": "no column 'lambda'",
    "open('f')": "open('f') is not known in a formula",
    "`log`(x)": "a formula cannot have ( after the name 'log'",
    # letters
    "x − z": (
        "'−' only looks like '-', at '−' (character 7) in the formula 'y ~ x − z'. Write '-'"
    ),
    "C(race, ref=‘black’)": "only looks like",
    "age²": (
        "'age²' has letters that only look like the letters of 'age2', at 'age²' (character 5) in "
        "the formula 'y ~ age²'. If a column has this name, write `age²` in backticks. For a square"
    ),
    "ａge": "letters that only look like the letters of 'age'",
    "аge": "no column 'аge'",  # a Cyrillic letter
    "x\u200bz": (
        "this character (zero width space) is not known, at '\\u200b' (character 6) in the formula "
        "'y ~ x\\u200bz'. If the name of a column has this character, put the name into backticks"
    ),
    "2nd": (
        "there are letters directly after a number, at '2n' (character 5) in the formula "
        "'y ~ 2nd'. Put a name that begins with a digit into backticks"
    ),
    "x ~ z": "a formula must have the form 'y ~ x1 + x2'",
    "x + 'z": "the closing ' is missing",
    "`x": "the closing ` is missing",
    "``": "there is no name between the backticks of ``",
    "`a``b`": (
        "a name in backticks must not contain a backtick, at '`a``' (character 5) in the formula "
        "'y ~ `a``b`'. Rename the column"
    ),
    "(x": "( has no closing bracket in the formula",
    "log(x": "log( has no closing bracket in the formula",
    "x z": (
        "this does not belong here, at 'z' (character 7) in the formula 'y ~ x z'. Put a name with "
        "spaces into backticks, as in `my column`"
    ),
    "x + ": "ends too early",
    "..": "'..' is not a name",
    "c(x, z)": "is not a term; write I(...) for arithmetic",
    "'x'": "is not a term",
    "3": "3 is not a term; the only numbers allowed as terms are 0 and 1",
    "1e999": "this number is too large",
    # size
    "(" * 60 + "x" + ")" * 60: "more than 50 brackets or signs are inside each other; use fewer",
    "-" * 60 + "1": "more than 50 brackets or signs",
    "x" * 10_001: "a formula may have at most 10,000 characters, got 10,005",
    f"({' + '.join(f'v{i}' for i in range(30))})^30": "there are more than 5,000 terms",
    f"({' + '.join(f'v{i}' for i in range(1000))}) : w": "no column 'v0'",
    "x^1e9": "does not compute the power of a number",
    "(x + z)^0": "the power must be a whole number, at least 1",
    "(x + z)^2.5": "the power must be a whole number",
}


@pytest.mark.parametrize(("right", "told"), REFUSED.items(), ids=[r[:40] for r in REFUSED])
def test_refused_with_the_place_and_the_remedy(right, told):
    with pytest.raises((SpecError, DataError), match=re.escape(told)):
        names(right)


@pytest.mark.parametrize(
    ("right", "made"),
    [
        ("bp.1d", ["Intercept", "bp.1d"]),
        ("`a b` + `2nd` + größe", ["Intercept", "a b", "2nd", "größe"]),
        ("`x²` + `__x`", ["Intercept", "x²", "__x"]),
        ("log(`a b`)", ["Intercept", "log(`a b`)"]),
        ("gro\u0308\u00dfe", ["Intercept", "größe"]),  # written with a mark of its own
        ("C(race, Treatment('white'))", ["Intercept", "C(race, Treatment('white'))[T.black]",
                                         "C(race, Treatment('white'))[T.other]"]),
        ("race", ["Intercept", "race[T.other]", "race[T.white]"]),
        ("sex:race", ["Intercept", *(f"sex[{s}]:race[{r}]" for r in KINDS["race"].levels
                                     for s in "fm")]),
        ("I( x ** 2 )", ["Intercept", "I(x^2)"]),
        ("x + x + (x)", ["Intercept", "x"]),
        ("x\u00a0+\nz", ["Intercept", "x", "z"]),  # spaces of a word processor
    ],
)  # fmt: skip
def test_names_of_columns(right, made):
    assert names(right) == made


def test_which_columns_are_used_comes_from_the_tree():
    formula = read_formula("log(`t 1`) ~ bp.1d + C(race, Treatment('black')) + offset(log(x))")
    assert formula.left_columns == ("t 1",)
    assert formula.right_columns == ("bp.1d", "race", "x")
    assert formula.offsets == ("log(x)",)
    assert read_formula("y ~ ns(x, knots=c(1, 2), Boundary.knots=c(0, Inf))").right_columns == (
        "x",
    )


@pytest.mark.parametrize("name", ["a`b", "x` + log(z) + `x", "`", " "])
def test_a_dot_never_writes_another_formula(name):
    """It is written out and read again; a backtick in a name would end that name."""
    told = re.escape(f"the name of the column {name!r} cannot be written in a formula; rename")
    with pytest.raises(DataError, match=told) as raised:
        read_formula("y ~ .").named(["y", "x", "z", name])
    assert raised.value.column == name
    d = frame().rename(columns={"x": name})
    with pytest.raises(DataError, match=told):
        FederatedGLM("gaussian", "y ~ .").fit(d, groups="site")
    with pytest.raises(DataError, match=told):
        RegressionTable().offer(d.drop(columns="site"), RegressionPlan("y ~ .", "gaussian"))
    FederatedGLM("gaussian", "y ~ `sp ort`").fit(d, groups="site")  # which does not use it


NAMES = ("TRUE", "FALSE", "True", "False", "NA", "T", "Inf", "log", "2nd", "a b", "a\\b", "'", ".x")


def test_a_dot_written_out_reads_as_the_same_formula():
    formula = read_formula("y ~ . + I(x * `TRUE`)").named(["y", "x", *NAMES])
    again = read_formula(formula.text)
    assert again.right == formula.right
    assert again.right_columns == ("x", *NAMES)


@pytest.mark.parametrize("name", ["TRUE", "False", "NA"])
def test_a_column_named_like_a_constant_is_not_the_constant(name):
    kinds = KINDS | {name: NUMBER}
    constant = "TRUE" if name == "TRUE" else "FALSE"
    made = names(f"I(x * {constant}) + I(x * `{name}`)", kinds)
    assert made == ["Intercept", f"I(x * {constant})", f"I(x * `{name}`)"]


def test_equal_offsets_count_once():
    """As in R, whose terms are sets."""
    formula = read_formula("y ~ x + offset(z) + offset( z ) + offset(log(z)) + offset(`z`)")
    d = pd.DataFrame({"x": [0.0, 1], "z": [1.0, 3]})
    np.testing.assert_allclose(learn(formula, KINDS).offset(d), d.z + np.log(d.z))
    assert formula.offsets == ("z", "log(z)")


def test_each_column_knows_what_it_is_made_of():
    made = learn(read_formula("y ~ x * C(race, ref='other')"), KINDS).columns
    *_, last = made
    x, race = last.parts
    assert (last.name, last.term) == ("x:C(race, ref='other')[T.white]", "x:C(race, ref='other')")
    assert (x.text, x.coding, x.column) == ("x", "number", None)
    assert (race.column, race.level, race.reference) == ("race", "white", "other")
    assert made[0].parts == ()


def test_a_formula_that_nobody_can_fit_is_refused_before_any_data():
    with pytest.raises(
        SpecError,
        match=(
            r"glm: formula: np\.mean\(age\) needs all rows at once, but a site has only its own "
            r"rows, at 'np\.mean' \(character 13\) in the formula "
            r"'y ~ I\(age - np\.mean\(age\)\)'. Write a number that all sites agree on, for "
            r"example I\(x - 50\)"
        ),
    ):
        RegressionPlan("y ~ I(age - np.mean(age))")
    with pytest.raises(SpecError, match="has 'y' on both sides of ~"):
        RegressionPlan("log(y) ~ x + I(y^2)")
    RegressionPlan("y ~ x + offset(log(y + z))", "poisson")  # cases among all
    with pytest.raises(
        SpecError,
        match=(
            r"glm: the outcome cbind\(a, b\) works only with family='binomial' or "
            "family='quasibinomial'"
        ),
    ):
        RegressionPlan("cbind(a, b) ~ x", "poisson")


def frame():
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"x": rng.normal(size=60), "sp ort": rng.choice(["a", "b"], 60)})
    return d.assign(y=rng.normal(size=60), site=np.arange(60) % 3)


def test_predict_refuses_unknown_levels_of_backticked_columns():
    fit = FederatedGLM("gaussian", "y ~ x + `sp ort`").fit(frame(), groups="site")
    with pytest.raises(
        DataError,
        match=r"sp ort has 'z' at row 0 \(counted from 0\), "
        r"but the fit knows only the levels 'a', 'b'$",
    ):
        fit.predict(frame().assign(**{"sp ort": "z"}))


def test_a_level_that_the_formula_leaves_out_is_named_with_what_to_do():
    d = frame()
    d.loc[0, "sp ort"] = "c"
    told = (
        r"knows only the levels 'a', 'b'\. Add this level to levels=c\(\.\.\.\) in the formula, or"
    )
    with pytest.raises(DataError, match=told):
        FederatedGLM("gaussian", "y ~ C(`sp ort`, levels=c('a', 'b'))").fit(d, groups="site")


def test_missing_values_of_dotted_columns_drop_the_row():
    d = frame().rename(columns={"sp ort": "sp.ort"})
    d.loc[[3, 4], "sp.ort"] = None
    fit = FederatedGLM("gaussian", "y ~ x + sp.ort").fit(d, groups="site")
    assert (fit.n_rows_, fit.n_dropped_) == (58, 2)


def test_a_reference_is_no_column():
    """`Treatment('black')` does not look at a column of that name."""
    d = frame().assign(black=np.nan).rename(columns={"sp ort": "race"})
    d["race"] = d["race"].map({"a": "black", "b": "white"})
    fit = FederatedGLM("gaussian", "y ~ C(race, Treatment('white'))").fit(d, groups="site")
    assert fit.n_rows_ == 60


PIECES = [
    "x", "z", "race", "sex", "`a b`", "1", "0", "2", "1e308", ".5", "'black'", '"m"', "+", "-", "*",
    "/", ":", "^", "**", "~", "(", ")", "(", ")", ",", "=", "==", "<", ">", "!=", "[", "]", "{",
    "}", "|", "%in%", "I(", "C(", "log(", "exp(", "offset(", "cut(x, c(0, 1, Inf))", "ns(x, ",
    "poly(x, 2, raw=TRUE)", "bs(", "rcs(x, c(1, 2, 3))", "Treatment(", "ref=", "knots=c(1, 2)",
    "cbind(", "TRUE", ".", "..", "np.mean(x)", "__import__('os').system('touch /tmp/x')",
    "exec('raise SystemExit')", "lambda", "x.__class__.__mro__", "\\", "`", "'", '"', "\x00", "\n",
    "\ud800", "\u200b", "ａ", "x²", "ß", "👩‍🔬", "\u0301", "％", "(((((((", "- - - - -", "c(1, 2)",
    "raise", "import os", "@", "$x", "f'{x}'", "0x1F", "1_000", "1L", "Inf", "NaN", "x" * 300,
]  # fmt: skip


def hostile(rng):
    """A string of pieces of the language, of Python and of Unicode."""
    if rng.random() < 0.1:
        return "".join(chr(rng.randrange(0x3000)) for _ in range(rng.randrange(1, 40)))
    pieces = [rng.choice(PIECES) for _ in range(rng.randrange(1, 14))]
    text = rng.choice(["", " "]).join(pieces)
    return text if rng.random() < 0.1 else f"y ~ {text}"


def refusal(text, rows):
    """The error, or None; any other exception is a fault."""
    try:
        learn(read_formula(text).named(list(KINDS)), KINDS).matrix(rows)
    except (SpecError, DataError) as error:
        return str(error)


def test_hostile_strings_are_refused_or_read():
    rng, rows = random.Random(13), pd.DataFrame({"x": [1.0, 2], "z": [3.0, 4]})
    rows = rows.assign(race="white", sex="f", **{"a b": [1, 2]})
    told = [refusal(hostile(rng), rows) for _ in range(10_000)]
    assert all(t is None or 10 < len(t) < 2000 for t in told)
    assert told.count(None) > 50  # some are formulas


def test_nothing_is_run_as_code():
    """The room has no way to: no eval, no lookup of attributes or modules by a name."""
    banned = {"eval", "exec", "compile", "getattr", "setattr", "__import__", "globals", "vars",
              "import_module", "query", "open", "system"}  # fmt: skip
    for path in Path(feddcd.formula.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("re.compile",) or path.name == "_tokens.py"
                assert called.split(".")[-1] not in banned or called == "re.compile", called


LARGE = (
    "y ~ " + "+".join(f"v{i}" for i in range(1600)),
    "y ~ " + "*".join(f"v{i}" for i in range(1600)),
    "y ~ " + ":".join(f"v{i}" for i in range(1600)),
    "y ~ (" + "+".join(f"v{i}" for i in range(1600)) + ")^2",
    "y ~ " + "/".join(f"(a{i}+b{i})" for i in range(600)),
    "y ~ (" + "+".join(f"v{i}" for i in range(12)) + ")^12",
)


@pytest.mark.parametrize("text", LARGE, ids=range(len(LARGE)))
def test_large_formulas_are_read_or_refused(text):
    """None may occupy a site: the steps are bounded, so no clock is needed here."""
    told = refusal(text, pd.DataFrame())
    assert re.search("more than|no column 'v0'|no column 'a0'", str(told))


def test_too_many_columns_are_refused_by_name():
    many = {name: ColumnKind(False, tuple(f"l{i}" for i in range(90))) for name in ("f", "g")}
    with pytest.raises(SpecError, match="the formula makes more than 5,000 columns"):
        learn(read_formula("y ~ f * g"), many)


def test_columns_are_counted_before_they_are_made(monkeypatch):
    """3,303 terms of 1,000 levels each: not one name of a column is needed to refuse them."""
    many = {f"v{i}": ColumnKind(False, tuple(f"l{k}" for k in range(1000))) for i in range(27)}
    monkeypatch.setattr(CategoryVariable, "parts", lambda *_: pytest.fail("columns are made"))
    with pytest.raises(SpecError, match="the formula makes more than 5,000 columns"):
        learn(read_formula(f"y ~ ({' + '.join(many)})^3"), many)


@pytest.mark.parametrize("right", FORMS)
def test_as_many_columns_as_were_counted(right):
    for variables, contrasts in design(right).blocks:
        for each, contrast in zip(variables, contrasts, strict=True):
            made = each.values(rows(), contrast).shape[1]
            assert each.count(contrast) == len(each.parts(contrast)) == made


def test_too_many_levels_are_refused_by_name():
    many = {"id": ColumnKind(True, tuple(range(1001)))}
    with pytest.raises(
        DataError, match="id has 1,001 different values, which are too many for a category"
    ):
        learn(read_formula("y ~ C(id)"), many)


def test_kinds_of_columns():
    d = pd.DataFrame(
        {
            "number": [1.5, 2.0], "whole": [2, 1], "words": ["b", "a"], "flag": [True, False],
            "ordered": pd.Categorical(["low", "high"], ["low", "middle", "high"]),
            "codes": pd.Categorical([2, 1]), "nullable": pd.array([1, None], dtype="Int64"),
        }
    )  # fmt: skip
    kinds = kinds_of(d, list(d), {"whole"})
    assert kinds["number"] == ColumnKind(True)
    assert kinds["whole"] == ColumnKind(True, (1, 2))
    assert kinds["words"] == ColumnKind(False, ("a", "b"))
    assert kinds["flag"] == ColumnKind(False, (False, True))
    assert kinds["ordered"] == ColumnKind(False, ("low", "high"))
    assert kinds["codes"] == ColumnKind(False, (1, 2))
    assert kinds["nullable"].number


@pytest.mark.parametrize("value", [pd.Timestamp("2020-02-01"), [1, 2], 1j, pd.Timedelta("1h")])
def test_other_values_than_numbers_and_words_are_refused(value):
    d = frame().assign(day=pd.Series([value] * 60))
    with pytest.raises(
        DataError,
        match=r"the column 'day' contains values such as .*, but a formula works only with",
    ):
        FederatedGLM("gaussian", "y ~ day").fit(d, groups="site")
