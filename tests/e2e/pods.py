"""What tests do to a Pod that has a fixed name."""

from tests.conftest import Kubectl
from tests.waiting import eventually


def replaced(kubectl: Kubectl, name: str) -> None:
    """Delete a Pod, and wait until the one of the same name that takes its place is ready.

    Right after it was deleted the status of its StatefulSet may still count it.
    """
    before = _uid(kubectl, name)
    kubectl("delete", "pod", name)
    eventually(lambda: _uid(kubectl, name) not in {"", before})
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=110s")


def _uid(kubectl: Kubectl, name: str) -> str:
    return kubectl("get", "pod", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
