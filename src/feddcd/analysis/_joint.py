"""What the numbers of jobs reveal together about joint cells: rows with the same categories.

Every number is a sum over rows of something that a row gives (`_weights`): a product of two
columns, say, times the curvature at the point that was asked for. Of columns of few values whoever
reads the numbers knows what a row of each joint cell gives, and so has equations for how many rows
each cell has. Products alone add up to cells that no column has, as that of two reference levels;
and at each new point the curvature is another one, so that a few answers tell all joint cells of
many columns. A description tells how many rows each group, level and value has. The equations of
all jobs on the same rows are taken together.

A column of many values that bends the curvature makes these equations inexact: a row of a cell may
have the value of any other row. What is known to half a row counts as told.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._binning import GROUPS
from ._counted import labels
from ._describe_rows import DescribedRows
from ._sums import DesignRows, PointQuestion
from ._weights import ALL, COLUMNS, PAIRS, weights
from .families import COUNTS, POSITIVE
from .protocol import SiteRows

VALUES = 16  # of a column that has more, nobody knows them
NEAR = 0.05  # of a column's deviation
ROUNDING = 1e-14  # of the size of a sum
HALF = 2.0  # equations to a row: what is more exact is revealed
MOST_WORK = 200_000_000  # cells times equations times the fewer of both
POINTS = 6  # of a job, where whoever asks may choose them
OFTEN = 0.1  # the share of rows in which a product with a category is 0
# of counts and of times: logarithms of outcomes, which reveal how many rows have each. Hardly
# any such model has no outcome of few rows, so that none would be left (docs/security.md)
OF_COUNTS = ("moments.floor", "moments.constant", "moments.start", "floor")
LENDERS = 24  # rows with values that a row of a cell may have
Array = np.ndarray


class AskedJob(NamedTuple):
    """A job and its questions; of a description, all of them, as they were asked."""

    rows: SiteRows
    questions: Sequence[Any] = ()


def told(jobs: Sequence[AskedJob], k: int, free: bool = False) -> Array:
    """Of the rows in joint cells of fewer than k: their entries in an orthonormal basis of all
    functions of rows of which the sum is told. Nothing where there are no such cells. `free`: of
    the first job, whoever asks may choose any points."""
    return told_of_rows(jobs, k, free)[0]


def told_of_rows(jobs: Sequence[AskedJob], k: int, free: bool = False) -> tuple[Array, Array]:
    """The same, and the places of these rows in the site's table."""
    now, *earlier = jobs
    if free and now.questions and not isinstance(now.rows.data, DescribedRows):
        now = now._replace(questions=[*now.questions, *_chosen(now.rows, now.questions[-1])])
    plain = [job._replace(questions=()) for job in (now, *earlier)]
    # what is too large is looked at as far as products of earlier jobs tell, then without them
    for each in ([now, *earlier], [now, *plain[1:]], [now], plain[:1]):
        coded = [_Coded.of(job, k) for job in each]
        places = [places_of(job.rows) for job in each]
        at, sizes, first = _cells(places, [c.codes for c in coded])
        small, equations = sizes < k, sum(one.equations for one in coded)
        if not small.any():
            break
        if len(sizes) * equations * min(len(sizes), equations) <= MOST_WORK:
            W = np.hstack([c.of_cells(own, sizes) for c, own in zip(coded, first, strict=True)])
            Q = np.linalg.qr(_known(W) * np.sqrt(sizes)[:, None])[0] / np.sqrt(sizes)[:, None]
            every = np.unique(np.concatenate(places))
            return Q[at[small[at]]], every[small[at]]
    return np.zeros((0, 0)), np.zeros(0, int)


def places_of(rows: SiteRows) -> Array:
    """Of a job's rows in the site's table."""
    if rows.places is not None:
        return rows.places
    kept = rows.data.kept if isinstance(rows.data, DescribedRows) else None
    return np.arange(rows.n if kept is None else len(kept))


def _cells(places: Sequence[Array], codes: Sequence[Array]) -> tuple[Array, Array, list[Array]]:
    """By row of all jobs the number of its cell; rows by cell; and by job and cell one of the job's
    rows that is in it, -1 where it has none."""
    every, where = np.unique(np.concatenate(places), return_inverse=True)
    where = np.split(where.ravel(), np.cumsum([len(each) for each in places])[:-1])
    at = np.zeros(len(every), int)
    for own, code in zip(where, codes, strict=True):
        number = np.zeros(len(every), int)  # 0 where the job lacks the row
        number[own] = 1 + np.unique(code, axis=0, return_inverse=True)[1].ravel()
        at = np.unique(at * (number.max() + 1) + number, return_inverse=True)[1].ravel()
    sizes, first = np.bincount(at), []
    for own in where:
        one = np.full(len(sizes), -1)
        one[at[own]] = np.arange(len(own))
        first.append(one)
    return at, sizes, first


class _Coded(NamedTuple):
    """A job that identifies rows by their values in columns of few values: `codes`, n by m."""

    job: AskedJob
    codes: Array
    data: DesignRows = DesignRows(*4 * [np.zeros(0)])  # close values are one; none of descriptions
    few: tuple[Array, ...] = ()  # which columns of X and Y, and whether weight and offset, are such
    columns: Array = np.zeros((0, 0))  # those of X, and where products with a category are not 0
    k: int = 0

    @staticmethod
    def of(job: AskedJob, k: int) -> "_Coded":
        if isinstance(job.rows.data, DescribedRows):
            return _Coded(job, np.array(list(labels(job.rows, VALUES).values())).T)
        X, Y, s, o = job.rows.data
        parts = [_levelled(x) for x in (X, Y, s[:, None], o[:, None])]
        (X, few), (Y, _), (s, _), (o, _) = parts
        columns = np.column_stack([np.ones(len(X)), *X.T[few], *_products(X[:, ~few], k)])
        codes = np.column_stack([columns, *(x[:, which] for x, which in parts[1:])])
        data = DesignRows(X, Y, s[:, 0], o[:, 0])
        return _Coded(job, codes, data, tuple(which for _, which in parts), columns, k)

    @property
    def equations(self) -> int:
        """At most."""
        if not self.few:
            return int(self.codes.max(0).sum()) + self.codes.shape[1]
        p, cells = self.columns.shape[1], np.unique(self.columns, axis=0)
        small = p**2 * len(cells) <= MOST_WORK
        pairs = _pairs(cells).shape[1] if small else p * (p + 1) // 2
        bins = 3 * GROUPS * sum(bool(asked.edges.size) for asked in self.job.questions)
        return pairs + len(self.job.questions) * (2 * pairs + 6 * p) + bins

    def of_cells(self, first: Array, sizes: Array) -> Array:
        """Cells by numbers: what a row of the cell gives, by how far that is unsure."""
        there = first >= 0
        found = self._described(first[there]) if not self.few else self._table(first, sizes)
        whole = np.zeros((len(first), found.shape[1]))
        whole[there] = found
        return whole

    def _described(self, rows: Array) -> Array:
        found = [code[rows, None] == np.unique(code[code >= 0]) for code in self.codes.T]
        return np.hstack(found) / ROUNDING / len(self.codes)

    def _table(self, first: Array, sizes: Array) -> Array:
        there = first >= 0
        rows, sizes, columns = first[there], sizes[there], self.columns[first[there]]
        made, plan, own = self._lent(rows), self.job.rows.plan, self.job.rows.data
        counts = plan.family in (*COUNTS, *POSITIVE)
        parts = {ALL: columns[:, :1], COLUMNS: columns, PAIRS: _pairs(columns)}
        each = [(PAIRS, made.s), *((COLUMNS, made.s * y) for y in made.Y.T)]
        each += [
            (one.of, one.weight)
            for asked in self.job.questions
            for one in weights(plan, own, made, asked, self.k)
            if not (counts and one.part in OF_COUNTS)
        ]
        return np.hstack([_equations(parts[name], x, sizes) for name, x in each])

    def _lent(self, rows: Array) -> DesignRows:
        """This many rows for each cell, with its values where these are few; the others are of rows
        that lack the same products."""
        lacking = self.columns[:, 1 + int(self.few[0].sum()) :]
        kinds = np.unique(lacking, axis=0, return_inverse=True)[1].ravel()
        draw = np.random.default_rng(0)
        some = {kind: draw.choice(np.flatnonzero(kinds == kind), LENDERS) for kind in {*kinds}}
        lenders = np.concatenate([some[kind] for kind in kinds[rows]])
        own, other = (
            [x if x.ndim > 1 else x[:, None] for x in (part[which] for part in self.data)]
            for which in (np.repeat(rows, LENDERS), lenders)
        )
        X, Y, s, o = (np.where(few, a, b) for few, a, b in zip(self.few, own, other, strict=True))
        return DesignRows(X, Y, s[:, 0], o[:, 0])


def _equations(part: Array, weight: Array, sizes: Array) -> Array:
    given = np.where(np.isfinite(weight), weight, 0.0).reshape(-1, LENDERS)
    F, apart = (part * y[:, None] for y in (given.mean(1), given.std(1)))
    size = sizes @ (abs(F) + apart)
    there = np.isfinite(size) & (size > 0)
    noise = (np.sqrt(sizes)[:, None] * apart)[:, there] / size[there]
    return _by_noise(F[:, there] / size[there], noise)


def _by_noise(F: Array, noise: Array) -> Array:
    """In combinations of these numbers that are unsure each by itself, by how far they are."""
    if noise.max(initial=0) < ROUNDING:
        return F / ROUNDING
    size, V = np.linalg.eigh(noise.T @ noise)
    return F @ V / np.sqrt(np.maximum(size, max(ROUNDING**2, ROUNDING * size.max())))


def _pairs(columns: Array) -> Array:
    """All products of two columns that differ."""
    i, j = np.triu_indices(columns.shape[1])
    return np.unique(columns[:, i] * columns[:, j], axis=1)


def _levelled(X: Array) -> tuple[Array, Array]:
    """Columns, and which of them have few values. Values that lie close together, and far from all
    others, are one: a little of another column makes no secret of a category."""
    X = X.copy()
    for x in X.T:
        values, at = np.unique(x, return_inverse=True)
        if len(values) <= VALUES or not np.all(np.isfinite(x)):
            continue
        apart = np.diff(values) > NEAR * x.std()
        if apart.sum() < VALUES:
            which = np.append(0, np.cumsum(apart))
            ends = np.searchsorted(which, np.arange(which[-1] + 1), side="right") - 1
            starts = np.append(0, ends[:-1] + 1)
            if np.all(values[ends] - values[starts] <= 2 * NEAR * x.std()):
                x[:] = values[starts][which[at]]
    return X, np.array([len(np.unique(x)) <= VALUES for x in X.T], bool)


def _products(X: Array, k: int) -> list[Array]:
    """Of columns that are 0 in many rows, as products with a category are: where they are not. A
    number that happens to be 0, as log(x) is at 1, is none."""
    least = max(k, OFTEN * len(X))
    return [x != 0 for x in X.T if k <= np.sum(x != 0) <= len(x) - least]


def _chosen(rows: SiteRows, question: PointQuestion) -> Iterator[PointQuestion]:
    """Points at which columns of many values do not bend the curvature."""
    few = _levelled(rows.data.X)[1]
    place = question.w.shape[0] - len(rows.plan.loss().extras)
    largest = abs(rows.data.X[:, :place]).max(0, initial=0)
    size = np.where(few[:place] & (largest > 0), 1 / np.where(largest > 0, largest, 1.0), 0.0)
    draw = np.random.default_rng(0)
    for _ in range(POINTS):
        w = question.w.copy()
        w[:place] = draw.normal(size=w[:place].shape) * size[:, None]
        yield question._replace(w=w, basis=np.zeros(0), edges=np.zeros(0))


def _known(W: Array) -> Array:
    """Directions in the counts of cells that the equations give to half a row."""
    if W.shape[1] > W.shape[0]:
        W = np.asarray(np.linalg.qr(W.T, mode="r")).T
    U, size, _ = np.linalg.svd(W, full_matrices=False)
    return U[:, size > HALF]
