"""An installed package of Python alone as a wheel, where no index may be asked: wheel.py NAME FOLDER."""

import importlib.metadata
import pathlib
import sys
import zipfile


def main(name, folder):
    package = importlib.metadata.distribution(name)
    path = pathlib.Path(folder) / f"{package.name}-{package.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in package.files:
            if ".." not in file.parts and file.suffix != ".pyc":
                wheel.write(file.locate(), str(file))


if __name__ == "__main__":
    main(*sys.argv[1:])
