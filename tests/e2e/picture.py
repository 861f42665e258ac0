"""picture.py PAGE PNG: the upper part of a report's page as Chromium shows it, for the README (scripts/docs --sample)."""
import base64
import sys

import browser

WIDTH, HEIGHT = 960, 752


def main():
    page, png = sys.argv[1:]
    if not browser.find():
        sys.exit("picture.py: no chromium here; the picture stays as it was")
    window = browser.Browser()
    try:
        window.look(page, width=WIDTH, height=HEIGHT)
        shot = window.ask("Page.captureScreenshot", format="png", clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1})
    finally:
        window.close()
    with open(png, "wb") as out:
        out.write(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    main()
