"""One published optimum, reached; with programs that are compiled quickly, as one is enough here.
test_real_data.py has more of them."""

from test_real_data import (
    test_newton_with_everyone_present_is_there_in_eight_exchanges as check,
)


def test_newton_reaches_the_published_optimum_of_phishing():
    check("phishing")
