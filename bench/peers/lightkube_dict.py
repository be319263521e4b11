"""lightkube has no store. A dict of what it lists is the least that one would write oneself."""

import sys

from lightkube import Client, KubeConfig  # type: ignore[import-not-found]
from lightkube.resources.core_v1 import Pod  # type: ignore[import-not-found]

from bench.kube.effort import Effort


def main(kubeconfig: str, namespace: str, expected: int) -> None:
    effort = Effort()
    client = Client(KubeConfig.from_file(kubeconfig))
    pods = {(pod.metadata.namespace, pod.metadata.name): pod for pod in client.list(Pod, namespace=namespace)}
    effort.tell(len(pods))
    sys.exit(0 if len(pods) == expected else 1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
