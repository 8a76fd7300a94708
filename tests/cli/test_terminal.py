"""What a command says: lines in place of bars, errors, and names that were meant."""

from feddcd._text import nearest
from feddcd.cli._ending import told
from feddcd.cli._terminal import bars


def test_a_task_that_is_used_again_says_one_line_for_each_piece_of_work(capsys):
    with bars("{task.description}", "{task.completed:.0f}") as shown:
        task = shown.add_task("", total=None)
        for name in ("first", "second"):
            for done in (1, 2, 3):
                shown.update(task, description=name, total=3, completed=done)
    assert capsys.readouterr().err.splitlines() == ["first  3", "second  3"]


def test_a_file_that_cannot_be_written_is_named_without_a_number():
    error = FileNotFoundError(2, "No such file or directory", "/proc/nope")
    assert told(error) == "cannot read or write /proc/nope: No such file or directory"
    assert told(OSError("odd")) == "odd"


def test_the_beginning_of_a_long_name_is_enough_to_guess_it():
    assert "did you mean 'wine-iid-2'?" in nearest("winee", ["wine-iid-2", "digits-iid-2"])
    assert "did you mean" not in nearest("wi", ["wine-iid-2"])
