"""The C program of a bench, compiled where our binding is: in the stage of our image that has gcc and slurm.h."""

import shutil
from pathlib import Path

from sunk.local.artifacts import cache, images
from sunk.local.artifacts.buildah import Build, storage
from sunk.local.progress import step

SOURCE = Path(__file__).with_name("submit.c")
# A build's last stage has only what is copied into it, so that its files are the one program.
STAGES = """
FROM {base} AS made
COPY submit.c /submit.c
RUN gcc -O2 -Wall -Werror -o /submit /submit.c -lslurm -lpthread
FROM scratch
COPY --from=made /submit /submit
"""


def submit(slurm: str) -> Path:
    """Give the program that `submit.c` is, for the image with this Slurm."""
    stands_on = images.archive("sunk", slurm=slurm).parent.name
    base = images.reference("sunk-dependencies", slurm=slurm)

    def make(folder: Path) -> None:
        with step("Compile the same calls in C"), storage() as kept:
            if not kept.has(base):
                raise SystemExit(
                    f"{base} is not in the storage of layers. Remove {stands_on} from the cache and repeat."
                )
            context = kept.scratch / "context"
            context.mkdir()
            shutil.copy(SOURCE, context)
            (containerfile := kept.scratch / "stages").write_text(STAGES.format(base=base))
            name = images.reference("bench-submit", slurm=slurm)
            kept.build(Build(containerfile=containerfile, context=context, name=name))
            kept.export(name, archive=kept.scratch / "submit.tar")
            kept.unpack(kept.scratch / "submit.tar", folder=folder)

    return cache.entry(f"bench-submit-{slurm}", make, key=cache.key(files=[SOURCE])) / "submit"
