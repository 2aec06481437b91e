"""The sandbox image: built once, named by the hash of what is in it.

Two kinds of base, one kind of layer. The base is `python:3.x-slim` where a
registry can be reached, else the Python that runs here with the libraries that
it needs, packed from this machine. Packages are a layer on top; they are
resolved and downloaded out here, so that no container has a network, not even
while an image is built. Only wheels are taken: building a source distribution
would run its code on this machine.

Docker's own exceptions pass through here; the caller translates them.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import requests
from docker.errors import APIError, BuildError, ContainerError, ImageNotFound

from . import environments, interpreter, rootfs
from .contract import Environment, RunnerUnavailable
from .engine import cause

__all__ = ["LABEL", "Progress", "build", "ensure"]

Progress = Callable[[str], None]

RECIPE = 2
"""Raise it when the way of building changes; older images are then not used."""
REPOSITORY = "reproof-sandbox"
LABEL = "reproof.recipe"
"""On our images, and on all that are made from them: /tmp is a part of the workspace."""

_PROBE = """\
import json, site, sys
from importlib import metadata
try:
    from packaging import tags
except ImportError:
    from pip._vendor.packaging import tags
print(json.dumps({
    "site": next(p for p in site.getsitepackages() if p in sys.path),
    "version": "%d.%d" % sys.version_info[:2],
    "platforms": list(tags.platform_tags()),
    "installed": {d.metadata["Name"]: d.version for d in metadata.distributions()},
}))
"""
_ONE_DISK = """\
import shutil
for folder in ("/tmp", "/var/tmp"):
    if not os.path.islink(folder):
        shutil.rmtree(folder)
        os.symlink("/job/tmp", folder)
"""
"""Temporary files belong to the workspace, whose size is limited."""


def ensure(client: Any, environment: Environment, progress: Progress | None = None) -> str:
    """The name of an image for this environment that the engine has by now.

    Raises:
        RunnerUnavailable: there is none and it could not be built or pulled.
    """
    progress = progress or _silent
    base = _given(client, environment.image, progress) if environment.image else _own(client, progress)
    return _with_requirements(client, base, environment.requirements, progress)


def build(
    client: Any,
    *,
    from_host: bool = False,
    requirements: Iterable[str] = (),
    progress: Progress | None = None,
) -> str:
    """Build our image (and its layer of requirements) unless it is there already; return its name.

    From `python:3.x-slim`; `from_host`, and wherever no registry answers, from
    the Python that runs here.

    Raises:
        RunnerUnavailable: it could not be built.
    """
    progress = progress or _silent
    base = _from_host(client, progress) if from_host else _from_registry(client, progress)
    return _with_requirements(client, base, tuple(requirements), progress)


def _silent(line: str) -> None:
    pass


def _own(client: Any, progress: Progress) -> str:
    # An image from this host is there because someone asked for it, or because no
    # registry answered: either way it is the one to use.
    for name in (_host_name(), _slim_name()):
        if _exists(client, name):
            return name
    return _from_registry(client, progress)


def _given(client: Any, image: str, progress: Progress) -> str:
    """The id of the user's image; a layer on top of it is then named by what it holds, not by a tag."""
    try:
        if not _exists(client, image):
            progress(f"docker: pulling {image} ...")
            _pull(client, image)
        return str(client.images.get(image).id)
    except (APIError, requests.RequestException) as exc:
        raise RunnerUnavailable(
            "docker",
            f"the engine has no image {image!r} and could not pull it ({cause(exc)}). Nothing was run. "
            "Pull or build it, or leave `image` out to use Reproof's own.",
        ) from exc


def _from_registry(client: Any, progress: Progress) -> str:
    name, base = _slim_name(), f"python:{interpreter.python_version()}-slim"
    pinned = [f"{package}=={version}" for package, version in interpreter.packages().items()]
    with _lock(name):
        if _exists(client, name):
            return name
        try:
            if not _exists(client, base):
                progress(f"docker: pulling {base} ...")
                _pull(client, base)
        except (APIError, requests.RequestException) as exc:
            progress(f"docker: {base} cannot be pulled ({cause(exc)}); using this machine's own Python instead")
            return _from_host(client, progress)
        progress(f"docker: building the sandbox image {name} from {base} (once) ...")
        _add_layer(client, base, pinned, name, ours=True)
    return name


def _from_host(client: Any, progress: Progress) -> str:
    name = _host_name()
    with _lock(name):
        if not _exists(client, name):
            _check_platform(client)
            progress(
                f"docker: building the sandbox image {name} from Python {platform.python_version()} here (once) ..."
            )
            with tempfile.TemporaryDirectory(prefix="reproof-image-") as folder:
                _import(client, Path(folder), name)
    return name


def _with_requirements(client: Any, base: str, requirements: tuple[str, ...], progress: Progress) -> str:
    if not requirements:
        return base
    name = _name("layer", base, sorted(requirements))
    if _exists(client, name):
        return name
    with _lock(name):
        if not _exists(client, name):
            progress(f"docker: adding {', '.join(requirements)} to the sandbox image (once) ...")
            _add_layer(client, base, list(requirements), name)
    return name


@cache
def _host_name() -> str:
    return _name("host", sys.version, platform.machine(), platform.libc_ver(), sorted(interpreter.packages().items()))


@cache
def _slim_name() -> str:
    return _name("slim", interpreter.python_version(), sorted(interpreter.packages().items()))


def _name(*inputs: object) -> str:
    return f"{REPOSITORY}:{hashlib.sha256(json.dumps([RECIPE, *inputs]).encode()).hexdigest()[:12]}"


def _exists(client: Any, name: str) -> bool:
    try:
        client.images.get(name)
    except ImageNotFound:
        return False
    return True


def _pull(client: Any, image: str) -> None:
    # A name without a tag would pull every tag that there is.
    client.images.pull(image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest")


@contextmanager
def _lock(name: str) -> Iterator[None]:
    """Only one process at a time builds an image; the others then find it."""
    folder = environments.cache_folder() / "images"
    folder.mkdir(parents=True, exist_ok=True)
    with environments.locked(folder / f"{name.rpartition(':')[2]}.lock"):
        yield


def _add_layer(client: Any, base: str, requirements: list[str], name: str, *, ours: bool = False) -> None:
    about = _probe(client, base)
    with tempfile.TemporaryDirectory(prefix="reproof-layer-") as folder:
        site = Path(folder, "site")
        _download(requirements, about, site)
        added = [f"{about['site']}/{entry.name}" for entry in sorted(site.iterdir())]
        prepare = json.dumps(["python", "-c", rootfs.COMPILE + (_ONE_DISK if ours else ""), "/", *added])
        recipe = [f"FROM {base}", "USER 0", f"COPY site/ {about['site']}/", f"RUN {prepare}"]
        recipe += [f"LABEL {LABEL}={RECIPE}"] if ours else []
        Path(folder, "Dockerfile").write_text("\n".join(recipe))
        with tempfile.TemporaryFile() as packed:
            with tarfile.open(fileobj=packed, mode="w") as tar:
                tar.add(folder, "", filter=rootfs.plain)
            packed.seek(0)
            _docker_build(client, packed, name)


def _download(requirements: list[str], about: dict[str, Any], site: Path) -> None:
    """Wheels for the image's Python, whichever runs here."""
    options = ["--no-compile", "--implementation=cp", f"--python-version={about['version']}"]
    options += [f"--platform={tag}" for tag in about["platforms"]]
    with tempfile.NamedTemporaryFile("w", prefix="reproof-constraints-") as installed:
        # What the image already has stays as it is: two versions would end up on top of each other.
        installed.writelines(f"{package}=={version}\n" for package, version in about["installed"].items())
        installed.flush()
        environments.pip_install("docker", tuple(requirements), site, f"--constraint={installed.name}", *options)
    shutil.rmtree(site / "bin", ignore_errors=True)  # scripts that name an interpreter of this machine


def _docker_build(client: Any, context: Any, name: str) -> None:
    try:
        client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True, network_mode="none")
    except BuildError as exc:
        raise RunnerUnavailable("docker", f"the image {name} could not be built: {exc.msg}. Nothing was run.") from exc


def _probe(client: Any, image: str) -> dict[str, Any]:
    """What pip must know of the image's own Python."""
    try:
        said = client.containers.run(
            image, ["-c", _PROBE], entrypoint=["python"], network="none", remove=True, read_only=True, user="0",
            cap_drop=["ALL"], security_opt=["no-new-privileges"],
        )  # fmt: skip
        return dict(json.loads(said))
    except (APIError, ContainerError, ValueError) as exc:
        raise RunnerUnavailable(
            "docker",
            f"the image {image} has no usable `python` with pytest ({cause(exc)}). Nothing was run. "
            "An image needs Python 3.9 and pytest.",
        ) from exc


def _check_platform(client: Any) -> None:
    about = client.info()
    if sys.platform != "linux" or about.get("Architecture") != platform.machine():
        raise RunnerUnavailable(
            "docker",
            f"this machine's Python ({sys.platform}, {platform.machine()}) does not run on the engine "
            f"({about.get('OSType')}, {about.get('Architecture')}), so no image can be made from it. Nothing "
            "was run. Let the engine reach a registry, or name an image that it has.",
        )


def _import(client: Any, folder: Path, name: str) -> None:
    root, packed = folder / "root", folder / "root.tar"
    rootfs.fill(root)
    with tarfile.open(packed, "w") as tar:
        for entry in sorted(root.iterdir()):
            tar.add(entry, entry.name, filter=rootfs.plain)
    repository, _, tag = name.partition(":")
    changes = [f"ENV PATH={rootfs.PATH}", f"LABEL {LABEL}={RECIPE}"]
    client.api.import_image_from_file(str(packed), repository, tag, changes=changes)
