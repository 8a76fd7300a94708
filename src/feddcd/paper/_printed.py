"""What the paper printed in its Tables 2 and 3."""

ORDER: tuple[str, ...] = ("fedavg", "fedprox", "scaffold", "feddcd", "accfeddcd")


def printed(problem: str, tau: int, eps: float, algorithm: str) -> int | str | None:
    """The paper's Table 2; a string such as ">100" where it was not reached."""
    return _TABLE2.get((problem, tau, eps), {}).get(algorithm)


def printed_accuracy(problem: str, algorithm: str) -> float | None:
    """The paper's Table 3 (the best of 100 rounds; AccFedDCD softmax is of the training data)."""
    return _TABLE3.get(problem, {}).get(algorithm)


def _rows(
    problem: str, *rows: tuple[int, float, tuple[int | str, ...]]
) -> dict[tuple[str, int, float], dict[str, int | str]]:
    return {(problem, t, e): dict(zip(ORDER, values, strict=True)) for t, e, values in rows}


_TABLE2 = {
    **_rows(
        "mnist-softmax",
        (30, 1e-3, (51, 47, 45, 28, 15)),
        (30, 1e-2, (17, 17, 17, 4, 3)),
        (10, 1e-2, (19, 18, 18, 19, 14)),
        (5, 1e-1, (5, 5, 5, 3, 1)),
    ),
    **_rows(
        "rcv1-softmax",
        (30, 1e-3, (">100", ">100", ">100", 24, 30)),
        (30, 1e-2, (10, 10, 11, 10, 5)),
        (10, 1e-2, (11, 11, 11, 27, 14)),
        (5, 1e-1, (3, 3, 3, 5, 1)),
    ),
    **_rows(
        "mnist-mlp",
        (30, 1e-3, (">100", ">100", ">100", ">100", ">100")),
        (30, 1e-2, (">100", 99, 44, 49, 28)),
        (10, 1e-2, (">500", ">500", 418, 96, ">500")),
        (5, 1e-1, (88, 83, 79, 5, 4)),
    ),
}
_TABLE3: dict[str, dict[str, float]] = {
    "mnist-softmax": dict(zip(ORDER, (0.8830, 0.8867, 0.8847, 0.8816, 0.8924), strict=True)),
    "mnist-mlp": dict(zip(ORDER, (0.8817, 0.8792, 0.9023, 0.9002, 0.9032), strict=True)),
}
