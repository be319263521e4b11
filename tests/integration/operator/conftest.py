"""The stage of the NodeSet controller's tests, with all of the operator that concerns Nodes and Pods on it."""

from tests.integration.nodeset.conftest import installed, stage, staging

__all__ = ["installed", "stage", "staging"]
