"""Would more of the third derivative save an exchange, where rows are sorted by outcome?

    FEDDCD_DATA=FOLDER python benchmarks/steps.py [phishing] [a9a]

There most sites have one outcome only, so a regression table begins with the guess from moments.
Printed are Newton decrements, which near the optimum are distances in standard errors: at that
guess, after one step from it, and after the step that feddcd takes from there. The first step is
Newton's; feddcd's (`_bend`); Newton's with the third derivative of two Gaussian classes that have
the moments of the rows; and with the exact third derivative, which no site could send.
"""

import argparse

import choosing
import numpy as np
from scipy.special import expit

from feddcd.analysis._bend import MOST
from feddcd.analysis._first_steps import between

DIFFERENCE = 1e-4
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)


class Rows:
    """A logistic regression on all rows."""

    def __init__(self, X: np.ndarray, y: np.ndarray):
        X = np.column_stack([np.ones(len(y)), X])
        self.X, self.y = X / np.sqrt((X**2).mean(0)), (y > y.min()).astype(float)
        own = [self.X[self.y == k] for k in (0, 1)]
        self.counts = np.array([len(rows) for rows in own])
        self.means = np.array([rows.mean(0) for rows in own])
        share = self.counts / len(y)
        self.C = self.X.T @ self.X / len(y) - (self.means.T * share) @ self.means
        self.C += 1e-9 * np.eye(self.X.shape[1])
        self.C[0] = self.C[:, 0] = 0  # the constant

    def hessian(self, w: np.ndarray) -> np.ndarray:
        mean = expit(self.X @ w)
        return self.X.T @ ((mean * (1 - mean))[:, None] * self.X)

    def gradient(self, w: np.ndarray) -> np.ndarray:
        return self.X.T @ (expit(self.X @ w) - self.y)

    def gaussian_hessian(self, w: np.ndarray) -> np.ndarray:
        """Of the expected loss, by Stein's lemma."""
        Cw, H = self.C @ w, np.zeros_like(self.C)
        for count, M in zip(self.counts, self.means, strict=True):
            mean = expit(M @ w + np.sqrt(max(w @ Cw, 1e-30)) * NODES)
            slope = mean * (1 - mean)
            third, fourth = slope * (1 - 2 * mean), slope * (1 - 6 * slope)
            a, b, c = (WEIGHTS @ x / WEIGHTS.sum() for x in (slope, third, fourth))
            both = np.outer(M, Cw)
            H += count * (a * (np.outer(M, M) + self.C) + b * (both + both.T))
            H += count * c * np.outer(Cw, Cw)
        return H

    def decrement(self, w: np.ndarray) -> float:
        g = self.gradient(w)
        return float(np.sqrt(g @ np.linalg.solve(self.hessian(w), g)))

    def first_guess(self) -> np.ndarray:
        """From w = 0, as a table begins where sites know nothing of their own."""
        zero = np.zeros(len(self.C))
        H = self.hessian(zero)
        own = -np.linalg.solve(H, self.gradient(zero))
        far = np.zeros_like(own)
        far[1:] = np.linalg.solve(self.C[1:, 1:], self.means[1, 1:] - self.means[0, 1:])
        odds = np.log(self.counts[1] / self.counts[0])
        far[0] = (odds - far[1:] @ self.means[:, 1:].sum(0) / 2) / self.means[0, 0]
        return between(own, far, H)


def bent(rows: Rows, now: np.ndarray, before: np.ndarray, begun: bool) -> np.ndarray:
    H, change, v = rows.hessian(now), rows.hessian(now) - rows.hessian(before), now - before
    q = -np.linalg.solve(H, rows.gradient(now))
    a = float(q @ H @ v) / float(v @ H @ v)
    third = change @ v
    if begun:
        third = 6 * (rows.gradient(before) - rows.gradient(now) + H @ v) - 2 * third
    return now + corrected(H, q, a * a * third + 2 * a * change @ (q - a * v))


def third_order(rows: Rows, now: np.ndarray, hessian) -> np.ndarray:
    H = rows.hessian(now)
    q = -np.linalg.solve(H, rows.gradient(now))
    change = hessian(now + DIFFERENCE * q) - hessian(now - DIFFERENCE * q)
    return now + corrected(H, q, change @ q / (2 * DIFFERENCE))


def corrected(H: np.ndarray, q: np.ndarray, third: np.ndarray) -> np.ndarray:
    move = -np.linalg.solve(H, third) / 2
    return q + move * min(1.0, np.sqrt(MOST * (q @ H @ q) / (move @ H @ move)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["phishing", "a9a"])
    print(
        "| data | at the guess | first step | after it | after another |\n|---|---:|---|---:|---:|"
    )
    for name in parser.parse_args().names:
        rows = Rows(*choosing.solvable(*choosing.both(name)))
        guess, zero = rows.first_guess(), np.zeros(len(rows.C))
        newton = guess - np.linalg.solve(rows.hessian(guess), rows.gradient(guess))
        steps = {
            "Newton": newton,
            "feddcd": bent(rows, guess, zero, begun=False),
            "Gaussian classes": third_order(rows, guess, rows.gaussian_hessian),
            "exact third derivative": third_order(rows, guess, rows.hessian),
        }
        for step, w in steps.items():
            shown = (guess, w, bent(rows, w, guess, begun=True))
            at, one, two = (f"{rows.decrement(x):.2f}" for x in shown)
            print(f"| {name} | {at} | {step} | {one} | {two} |", flush=True)


if __name__ == "__main__":
    main()
