"""The pictures of a report in README and on the first page: docs/report-*.png.

    python tools/report_pictures.py

Runs the data and the commands of docs/tutorial.md up to the trial federation, and takes pictures of
the report's beginning, light and dark, and of its figure on a phone. Needs chromium.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image, ImageChops

DOCS = Path(__file__).resolve().parents[1] / "docs"
FORMULA = "readmitted ~ age + C(sex) + C(stage) + bmi"
HEIGHT = 2400  # pixels: more than is kept
UP_TO_EFFECTS = """
const h = [...document.querySelectorAll("h2")].find(h => h.textContent.trim() == "Effects");
let part = h.closest("section");
while (part.nextElementSibling) part.nextElementSibling.remove();
if (ONLY) while (part.previousElementSibling) part.previousElementSibling.remove();
if (ONLY) part.querySelectorAll("p").forEach(each => each.remove());
document.querySelectorAll("footer").forEach(each => each.remove());
"""


def made(folder: Path) -> Path:
    """The report of the tutorial's trial federation."""
    code = re.findall(r"(?s)```python\n(.*?)```", (DOCS / "tutorial.md").read_text())[0]
    rows = ["--data", "patients.csv", "--group", "hospital"]
    fed = [sys.executable, "-m", "feddcd", "federation"]
    plan = [sys.executable, "-m", "feddcd", "glm", "patients.csv", "--formula", FORMULA]
    for command in (
        [sys.executable, "-c", code],
        [*plan, "--group", "hospital", "--out", "plan"],
        [*fed, "init", "fed", "--job", "plan/job.toml", *rows],
        [*fed, "simulate", "fed"],
    ):
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return next(iter(sorted((folder / "fed").rglob("report.html"))))


def take(report: Path, picture: Path, width: int, scale: int, dark: bool, only: bool) -> None:
    script = UP_TO_EFFECTS.replace("ONLY", str(only).lower())
    page = report.with_name(f"{picture.stem}.html")
    text = report.read_text().replace("</body>", f"<script>{script}</script></body>")
    page.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text))
    options = {
        "screenshot": picture,
        "window-size": f"{width},{HEIGHT}",
        "force-device-scale-factor": scale,
        "blink-settings": f"preferredColorScheme={0 if dark else 1}",
    }
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    told = [f"--{name}={value}" for name, value in options.items()]
    subprocess.run([*browser, *told, page.as_uri()], check=True, capture_output=True)
    cut(picture, 10 * scale)


def cut(picture: Path, margin: int) -> None:
    """To what has anything on it, above and below."""
    image = Image.open(picture).convert("RGB")
    ground = Image.new("RGB", image.size, image.getpixel((1, image.height - 1)))
    box = ImageChops.difference(image, ground).getbbox() or (0, 0, *image.size)
    top, bottom = max(0, box[1] - 2 * margin), min(image.height, box[3] + margin)
    image.crop((0, top, image.width, bottom)).quantize(256, Image.Quantize.MAXCOVERAGE).save(
        picture, optimize=True
    )


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        report = made(Path(scratch))
        for dark in (False, True):
            name = "dark" if dark else "light"
            take(report, DOCS / f"report-{name}.png", 1000, 1, dark, False)
            take(report, DOCS / f"report-phone-{name}.png", 378, 2, dark, True)


if __name__ == "__main__":
    main()
