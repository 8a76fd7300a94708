"""Pictures in files have a background: a transparent one cannot be read on a dark page."""

from matplotlib.image import imread

from feddcd.report.figures import blank, save_png


def test_a_picture_is_on_white(tmp_path):
    figure, (ax,) = blank(1)
    ax.plot([0, 1], [0, 1])
    save_png(figure, tmp_path / "line.png")
    assert imread(tmp_path / "line.png")[0, 0].tolist() == [1, 1, 1, 1]
    assert figure.patch.get_alpha() == 0, "on a page it stays transparent"
