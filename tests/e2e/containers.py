#!/usr/bin/env python3
"""Stands in for docker and kubectl, whichever its first argument says, so that the guides' lines run without a container. A container here is a
process with an environment of its own, for which the paths of its mounts stand for the folders they are made of. It knows only
the options that the guides use; another one is an error, as a misspelt one is there."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

BOOKS = pathlib.Path(os.environ["STAND_INS"]) / "containers.json"
OWN_COMMAND = ["python", "launch.py"]  # what the image runs by itself
GIVEN = ("PATH", "HOME", "LD_LIBRARY_PATH", "SIMGPU_MEM", "SIMGPU_DATA_LIMIT", "STAND_INS")  # what is in an image, and the driver


def fail(text):
    sys.exit(f"{sys.argv[1]}: {text}")


def load():
    return json.loads(BOOKS.read_text()) if BOOKS.exists() else {"containers": {}, "images": {"my-webui": {}}}


def keep(books):
    BOOKS.write_text(json.dumps(books))


def mount(text):
    source, target = text.split(":")[:2]
    source = os.path.expanduser(source)
    if not os.path.isdir(source):
        fail(f"{source} is not there")
    return target, source


def inside(container, text):
    """A text of the container's, with the folders that its paths stand for."""
    for target, source in container["mounts"].items():
        text = re.sub(rf"(?<![\w/]){re.escape(target)}(?![\w-])", lambda _: source, text)
    return text


def execute(container, command):
    environment = {name: os.environ[name] for name in GIVEN if name in os.environ}
    environment |= {name: inside(container, value) for name, value in container["env"].items()}
    missing = [path for path in environment.get("LD_PRELOAD", "").split(":") if "/" in path and not os.path.exists(path)]
    if missing:
        fail(f"nothing is mounted at {missing[0]}")
    return subprocess.run([inside(container, word) for word in command], env=environment, check=False).returncode


def new_container(image, env, mounts):
    images = load()["images"]
    if image not in images:
        fail(f"no image {image}")
    return {"env": env, "mounts": images[image] | mounts}


def started(name, container, command):
    if name:
        books = load()
        books["containers"][name] = container
        keep(books)
    return execute(container, command)


def docker_run(words):
    flags, values, repeated = {"--rm", "-d"}, {}, {"-v": [], "-e": []}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in repeated:
            repeated[word].append(words.pop(0))
        elif word in ("--gpus", "--name", "-p", "--entrypoint"):
            values[word] = words.pop(0)
        elif word not in flags:
            fail(f"run: unknown option {word}")
    if values.get("--gpus") != "all":
        fail("the container has no card")
    container = new_container(words.pop(0), dict(pair.split("=", 1) for pair in repeated["-e"]), dict(map(mount, repeated["-v"])))
    entry = [values["--entrypoint"]] if "--entrypoint" in values else OWN_COMMAND
    return started(values.get("--name"), container, entry + words)


def docker_build(words):
    if words[:1] != ["-t"] or words[2:] != ["."]:
        fail(f"build: {words}")
    lines = [line.split() for line in pathlib.Path("Dockerfile").read_text().splitlines() if line and line[0] != "#"]
    files = {}
    for verb, *rest in lines:
        if verb == "COPY":
            target, source = mount(f"{os.path.abspath(rest[0])}:{rest[1]}")
            files[target] = source
        elif verb != "FROM" or rest[0] not in load()["images"]:
            fail(f"Dockerfile: {verb} {rest}")
    books = load()
    books["images"][words[1]] = files
    keep(books)
    return 0


def compose_up(document):
    for name, service in document["services"].items():
        device = service["deploy"]["resources"]["reservations"]["devices"][0]
        if device != {"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}:
            fail(f"compose: {device}")
        container = new_container(service["image"], service["environment"], dict(map(mount, service["volumes"])))
        status = started(name, container, OWN_COMMAND)
        if status:
            return status
    return 0


def pod_up(document):
    spec = document["spec"]
    volumes = {}
    for volume in spec["volumes"]:
        folder = pathlib.Path(os.environ["STAND_INS"] + volume["hostPath"]["path"])
        folder.mkdir(parents=True, exist_ok=True)
        volumes[volume["name"]] = str(folder)
    for part in spec["initContainers"] + spec["containers"]:
        if part["resources"] != {"limits": {"nvidia.com/gpu": 1}}:
            fail("the container has no card")
        mounts = {place["mountPath"]: volumes[place["name"]] for place in part["volumeMounts"]}
        container = new_container(part["image"], {pair["name"]: pair["value"] for pair in part["env"]}, mounts)
        name = document["metadata"]["name"] if part in spec["containers"] else None
        status = started(name, container, part.get("command", OWN_COMMAND))
        if status:
            return status
    return 0


def in_container(words):
    """exec NAME [--] COMMAND..."""
    name = words.pop(0)
    container = load()["containers"].get(name) or fail(f"no container {name}")
    return execute(container, words[1:] if words[0] == "--" else words)


def read(path):
    import yaml

    return yaml.safe_load(pathlib.Path(path).read_text())


def main():
    words = sys.argv[2:]
    match sys.argv[1:]:
        case ["docker", "run", *_]:
            return docker_run(words[1:])
        case ["docker", "build", *_]:
            return docker_build(words[1:])
        case ["docker", "compose", "up", "-d"]:
            return compose_up(read("compose.yaml"))
        case ["docker", "compose", "exec", *_]:
            return in_container(words[2:])
        case ["kubectl", "apply", "-f", path]:
            return pod_up(read(path))
        case ["docker" | "kubectl", "exec", *_]:
            return in_container(words[1:])
    fail(f"what is {shlex.join(words)}?")


sys.exit(main())
