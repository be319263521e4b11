"""Pods of a generated cluster as boxes: their volumes as files, their containers as processes, no Kubernetes between.

So what is tried is the very command, environment, user and files that a Pod would have.
"""

import os
import re
import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.box import ADDRESS, Box, File, Plan, box

from sunk.operator.slurmcluster.builders import keyfiles
from sunk.operator.slurmcluster.builders.secrets import needed
from sunk.operator.slurmcluster.objects import objects
from sunk.operator.slurmcluster.resolve import ResolvedCluster

ENTRYPOINTS = {"mysql": "/serve"}
NOTHING: Mapping[str, Path] = {}
VARIABLE = re.compile(r"\$\((\w+)\)")


class Mounted(File, frozen=True):
    """A file of a volume: it is root's, and `owner`, the Pod's fsGroup, is its group."""

    def write(self, path: Path) -> None:
        super().write(path)
        os.chown(path, 0, self.owner)


class Folder(File, frozen=True):
    """An empty folder, as an emptyDir is."""

    def write(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        os.chown(path, 0, self.owner)
        path.chmod(0o2777)


class Key(File, frozen=True):
    """A key as the container beside the daemon copies it: the daemon's own, and nobody else's to read."""

    def write(self, path: Path) -> None:
        super().write(path)
        path.chmod(0o400)


class Left(File, frozen=True):
    """A folder as another box has left it, as a claim is when its Pod is gone."""

    source: Path = Path()

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "--archive", str(self.source), str(path)], check=True)


class World(msgspec.Struct, frozen=True):
    """A cluster, and where its Pods run: images by the name of the container, a network, a folder."""

    cluster: ResolvedCluster
    images: Mapping[str, Path]
    network: int
    folder: Path
    contents: Mapping[str, Mapping[str, str]]
    """Of ConfigMaps and Secrets, by name."""

    @contextmanager
    def run(self, name: str, *, as_pod: str = "", left: Mapping[str, Path] = NOTHING, **fields: str) -> Iterator[Box]:
        """Run the Pod of a workload. `fields` are what Kubernetes would fill in from the Node.

        `left` are folders of a Pod before this one, by where they lie in both.
        """
        workload = self._workload(name)
        spec = workload["spec"]["template"]["spec"]
        container = spec["containers"][0]
        user = spec.get("securityContext", {}).get("runAsUser", 0)
        pod = as_pod or spec.get("hostname", name)
        variables = {
            each["name"]: each.get("value") or _field(each, pod=pod, fields=fields) for each in container["env"]
        }
        kept = {place: Left("", source=source) for place, source in left.items()}
        plan = Plan(
            image=self.images[container["name"]],
            # Under the same name, where the last one has been.
            folder=self.folder / (f"{pod}-{secrets.token_hex(4)}" if left else pod),
            network=self.network,
            name=pod,
            user=user,
            files=self._files(spec, container) | {"etc/hosts": self._hosts(pod)} | kept,
        )
        with box(
            plan, "env", *(f"{key}={value}" for key, value in variables.items()), *_command(container, variables)
        ) as it:
            yield it

    @contextmanager
    def probe_pod(self, body: dict[str, Any]) -> Iterator[Box]:
        """Run a Pod that runs one command and ends."""
        spec = body["spec"]
        container = spec["containers"][0]
        name = body["metadata"]["name"]
        user = spec["securityContext"]["runAsUser"]
        plan = Plan(
            image=self.images[container["name"]],
            folder=self.folder / name,
            network=self.network,
            name=name,
            user=user,
            files=self._files(spec, container),
        )
        variables = [f"{each['name']}={each['value']}" for each in container.get("env", ())]
        with box(plan, "env", *variables, *container["command"]) as it:
            yield it

    def hook(self, name: str) -> list[str]:
        """What Kubernetes runs in the first container before it ends it."""
        container = self._workload(name)["spec"]["template"]["spec"]["containers"][0]
        command: list[str] = container["lifecycle"]["preStop"]["exec"]["command"]
        return command

    def probe(self, name: str) -> list[str]:
        """How Kubernetes asks the first container whether it is ready."""
        container = self._workload(name)["spec"]["template"]["spec"]["containers"][0]
        command: list[str] = container["readinessProbe"]["exec"]["command"]
        return command

    def _workload(self, name: str) -> dict[str, Any]:
        kinds = {"Deployment", "StatefulSet", "NodeSet"}
        return next(one for one in objects(self.cluster) if one["kind"] in kinds and one["metadata"]["name"] == name)

    def _hosts(self, pod: str) -> File:
        services = [one["metadata"]["name"] for one in objects(self.cluster) if one["kind"] == "Service"]
        return File(f"127.0.0.1 localhost\n{ADDRESS} {' '.join(dict.fromkeys((pod, *services)))}\n")

    def _files(self, spec: dict[str, Any], container: dict[str, Any]) -> dict[str, File]:
        owner = spec.get("securityContext", {}).get("fsGroup", 0)
        volumes = {one["name"]: one for one in spec["volumes"]}
        found: dict[str, File] = {}
        for mount in container["volumeMounts"]:
            place = mount["mountPath"].lstrip("/")
            volume = volumes.get(mount["name"], {})
            if "emptyDir" in volume:
                found[place] = Folder("", owner=owner)
            if mount["name"] == keyfiles.NAME:
                found |= {f"{place}/{path}": key for path, key in self._keys(spec).items()}
            for path, text, mode in self._contents(volume):
                # One file of a volume has the place itself.
                if mount.get("subPath", path) == path:
                    found[place if "subPath" in mount else f"{place}/{path}"] = Mounted(text, mode=mode, owner=owner)
        return found

    def _keys(self, spec: dict[str, Any]) -> dict[str, File]:
        (beside,) = [one for one in spec["initContainers"] if one["name"] == keyfiles.NAME]
        said = {one["name"]: one["value"] for one in beside["env"]}
        owner = int(said.get("OWNER", spec["securityContext"].get("runAsUser", 0)))
        (secrets,) = [one for one in spec["volumes"] if one["name"] == "secrets"]
        return {path: Key(text, owner=owner) for path, text, _ in self._contents(secrets)}

    def _contents(self, volume: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
        sources = volume["projected"]["sources"] if "projected" in volume else [volume]
        usual = volume.get("projected", {}).get("defaultMode", 0o644)
        # Nobody serves the hook API here. Prologs do not wait for it in Pods that have nothing for it.
        for source in () if volume.get("name") == "hooks" else sources:
            for kind, naming in (("configMap", "name"), ("secret", "secretName")):
                if kind in source:
                    said = source[kind]
                    data = self.contents[said.get(naming) or said["name"]]
                    items = said.get("items") or [{"key": key, "path": key} for key in data]
                    for item in items:
                        mode = item.get("mode", said.get("defaultMode", usual))
                        yield item["path"], data[item["key"]], mode


def contents(cluster: ResolvedCluster) -> dict[str, dict[str, str]]:
    """What is in the ConfigMaps and Secrets of a cluster."""
    maps = {one["metadata"]["name"]: one["data"] for one in objects(cluster) if one["kind"] == "ConfigMap"}
    made = {one.name: {key: secrets.token_urlsafe(32) for key in one.keys} for one in needed(cluster)}
    return maps | made


def _command(container: dict[str, Any], variables: Mapping[str, str]) -> list[str]:
    words = container.get("command") or [ENTRYPOINTS.get(container["name"], "/init")]
    return [VARIABLE.sub(lambda found: variables[found[1]], word) for word in (*words, *container.get("args", ()))]


def _field(variable: dict[str, Any], *, pod: str, fields: Mapping[str, str]) -> str:
    return pod if "fieldRef" in variable["valueFrom"] else fields[variable["name"]]
