"""The sandbox image: what is in it, how it is named, when it is built."""

from __future__ import annotations

import json
import sys
import threading
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

from runners import images, interpreter
from runners.contract import Environment, RunnerUnavailable


@pytest.fixture
def client(docker_host: str) -> Iterator[Any]:
    with closing(docker.DockerClient(docker_host)) as connected:
        yield connected


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: Any) -> Iterator[str]:
    """The name of a package that only pip, on this machine, can find; its layers are gone after the test."""
    name = f"sample_{uuid.uuid4().hex[:8]}"
    with zipfile.ZipFile(tmp_path / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
        about = f"{name}-1.0.dist-info"
        wheel.writestr(f"{name}.py", "answer = 42\n")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    yield name
    for image in client.images.list("reproof-sandbox"):
        with suppress(ImageNotFound):  # another test's, and gone by now
            if name in str(image.history()):
                client.images.remove(image.id, force=True)


def python(client: Any, image: str, source: str) -> Any:
    """What a line of Python prints in a container of this image, from JSON."""
    command = ["python", "-c", f"import json, os, sys\n{source}"]
    return json.loads(client.containers.run(image, command, network="none", read_only=True, remove=True))


def test_an_image_from_this_machine_is_complete_and_small(client: Any) -> None:
    """
    It holds the running Python with its compiled modules, a shell, users and time zones, in under 100 MB.
    """
    name = images.build(client, from_host=True)
    said = python(
        client,
        name,
        """
import bz2, ctypes, decimal, lzma, pwd, sqlite3, ssl, subprocess, zlib, zoneinfo
shell = subprocess.run("echo $0; ls / | wc -l", shell=True, env={}, capture_output=True, text=True, check=True)
again = subprocess.run([sys.executable, "-c", "import pytest"], env={}, check=True)
zoneinfo.ZoneInfo("Europe/Paris")
print(json.dumps([sys.version, pwd.getpwuid(10001).pw_name]))
""",
    )

    assert said == [sys.version, "sandbox"]
    assert client.images.get(name).attrs["Size"] < 100_000_000


def test_an_image_from_this_machine_holds_the_pinned_packages_only(client: Any) -> None:
    """
    What a candidate can import does not depend on what else is installed beside Reproof.
    """
    name = images.build(client, from_host=True)
    found = python(
        client,
        name,
        "from importlib import metadata\n"
        "print(json.dumps({d.name.lower(): d.version for d in metadata.distributions()}))",
    )

    assert found == interpreter.packages()


def test_no_path_of_this_machine_is_in_the_image(client: Any) -> None:
    """
    The interpreter finds everything below /usr/local, and its compiled files name no other place.
    """
    name = images.build(client, from_host=True)
    paths, compiled = python(client, name, "print(json.dumps([sys.path[1:], json.dumps.__code__.co_filename]))")

    assert all(path.startswith("/usr/local/lib") for path in [*paths, compiled])


def test_what_is_there_is_not_built_again(client: Any) -> None:
    """
    The name follows from the inputs, so a second build finds the first and says nothing.
    """
    first = images.build(client, from_host=True)
    lines: list[str] = []

    assert images.build(client, from_host=True, progress=lines.append) == first
    assert images.ensure(client, Environment(), lines.append) == first
    assert lines == []


def test_requirements_are_one_more_layer(client: Any, package: str) -> None:
    """
    A requirement can be imported, byte-compiled, in an image of its own; the base stays as it was.
    """
    base = images.ensure(client, Environment())
    name = images.ensure(client, Environment(requirements=(package,)))
    said = python(
        client,
        name,
        f"import {package}, pytest\nprint(json.dumps([{package}.answer, os.path.exists({package}.__cached__)]))",
    )

    assert name != base
    assert said == [42, True]


def test_the_order_of_requirements_does_not_matter(client: Any, package: str) -> None:
    """
    The same requirements in another order are the same image.
    """
    one = images.ensure(client, Environment(requirements=(package, f"{package}>=1")))
    lines: list[str] = []

    assert images.ensure(client, Environment(requirements=(f"{package}>=1", package)), lines.append) == one
    assert lines == []


def test_two_that_need_the_same_image_build_it_once(client: Any, docker_host: str, package: str) -> None:
    """
    While one builds an image, the other waits and then finds it.
    """
    images.ensure(client, Environment())
    lines: list[str] = []

    def build() -> None:
        with closing(docker.DockerClient(docker_host)) as own:
            images.ensure(own, Environment(requirements=(package,)), lines.append)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert lines == [f"docker: adding {package} to the sandbox image (once) ..."]


def test_a_requirement_that_cannot_be_had_is_named(client: Any, package: str) -> None:
    """
    Where pip finds no wheel, the error names the requirement and gives pip's reason.
    """
    with pytest.raises(RunnerUnavailable, match=f"{package}==2.0 could not be installed.*Nothing was run"):
        images.ensure(client, Environment(requirements=(f"{package}==2.0",)))


def test_a_requirement_cannot_replace_what_the_image_holds(client: Any, package: str) -> None:
    """
    Two versions of one package would end up on top of each other; that is refused.
    """
    with pytest.raises(RunnerUnavailable, match="pytest<2 could not be installed"):
        images.ensure(client, Environment(requirements=("pytest<2",)))


def test_a_missing_image_is_named_with_what_to_do(client: Any) -> None:
    """
    An image that the engine neither has nor can pull is our failure and not the candidate's.
    """
    with pytest.raises(RunnerUnavailable) as raised:
        images.ensure(client, Environment(image="reproof.invalid/nothing:1"))

    assert str(raised.value).startswith("docker: the engine has no image 'reproof.invalid/nothing:1' and could not")
    assert str(raised.value).endswith("Pull or build it, or leave `image` out to use Reproof's own.")


def test_a_given_image_is_used_by_its_id(client: Any, package: str) -> None:
    """
    A tag that moves does not leave an old layer behind it: what counts is what the image is.
    """
    base = images.build(client, from_host=True)
    identity = client.images.get(base).id

    assert images.ensure(client, Environment(image=base)) == identity
    layered = images.ensure(client, Environment(image=base, requirements=(package,)))
    assert layered == images.ensure(client, Environment(image=identity, requirements=(package,)))


def test_a_base_from_a_registry_gets_the_pinned_packages(client: Any, request: pytest.FixtureRequest) -> None:
    """
    On top of python:3.x-slim our image has the packages of this machine, and its /tmp in the workspace.
    """
    base = f"python:{interpreter.python_version()}-slim"
    try:
        client.images.get(base)
    except ImageNotFound:  # no registry here: our own image can stand in for it
        client.images.get(images.build(client, from_host=True)).tag(base)
        request.addfinalizer(lambda: client.images.remove(base))
    lines: list[str] = []
    name = images.build(client, progress=lines.append)
    request.addfinalizer(lambda: client.images.remove(name))
    said = python(client, name, "import pytest\nprint(json.dumps([pytest.__version__, os.readlink('/tmp')]))")

    assert said[0] == interpreter.packages()["pytest"]
    assert said[1] in ("/job/tmp", "job/tmp")
    assert lines == [f"docker: building the sandbox image {name} from {base} (once) ..."]
