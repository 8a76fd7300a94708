"""Small tables that come with R: Insurance of MASS and mtcars of datasets."""

import numpy as np
import pandas as pd

CLAIMS = """38 35 20 156 63 84 89 400 19 52 74 233 4 18 19 77 22 19 22 87 25 51 49 290 14 46 39
143 4 15 12 53 5 11 10 67 10 24 37 187 8 19 24 101 3 2 8 37 2 5 4 36 7 10 22 102 5 7 16 63 0 6 8
33"""
HOLDERS = """197 264 246 1680 284 536 696 3582 133 286 355 1640 24 71 99 452 85 139 151 931 149
313 419 2443 66 175 221 1110 9 48 72 322 35 73 89 648 53 155 240 1635 24 78 121 692 7 29 43 245 20
33 40 316 31 81 122 724 18 39 68 344 3 16 25 114"""
MTCARS = """21 110 2.62 16.46 21 110 2.875 17.02 22.8 93 2.32 18.61 21.4 110 3.215 19.44 18.7 175
3.44 17.02 18.1 105 3.46 20.22 14.3 245 3.57 15.84 24.4 62 3.19 20 22.8 95 3.15 22.9 19.2 123 3.44
18.3 17.8 123 3.44 18.9 16.4 180 4.07 17.4 17.3 180 3.73 17.6 15.2 180 3.78 18 10.4 205 5.25 17.98
10.4 215 5.424 17.82 14.7 230 5.345 17.42 32.4 66 2.2 19.47 30.4 52 1.615 18.52 33.9 65 1.835 19.9
21.5 97 2.465 20.01 15.5 150 3.52 16.87 15.2 150 3.435 17.3 13.3 245 3.84 15.41 19.2 175 3.845
17.05 27.3 66 1.935 18.9 26 91 2.14 16.7 30.4 113 1.513 16.9 15.8 264 3.17 14.5 19.7 175 2.77 15.5
15 335 3.57 14.6 21.4 109 2.78 18.6"""


def insurance() -> pd.DataFrame:
    """Claims of car owners, by district, group of cars and age."""
    numbers = lambda text: np.array(text.split(), int)
    at = np.arange(64)
    return pd.DataFrame({
        "District": np.array(["1", "2", "3", "4"])[at // 16],
        "Group": np.array(["<1l", "1-1.5l", "1.5-2l", ">2l"])[at // 4 % 4],
        "Age": np.array(["<25", "25-29", "30-35", ">35"])[at % 4],
        "Holders": numbers(HOLDERS), "Claims": numbers(CLAIMS), "site": at % 4,
    })  # fmt: skip


def mtcars() -> pd.DataFrame:
    values = np.array(MTCARS.split(), float).reshape(32, 4)
    return pd.DataFrame(values, columns=["mpg", "hp", "wt", "qsec"]).assign(site=np.arange(32) % 4)
