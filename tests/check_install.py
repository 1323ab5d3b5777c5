"""Fail if installing the project brought, or would bring, a CUDA package or a second torch.

On a machine that has the CPU build of torch every package of ours must be content with it.
"""

import importlib.metadata
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
EXTRAS = "train,lightning,ray,dev"


def unwanted(names):
    return sorted(name for name in names if name.lower().startswith(("nvidia-", "cuda-", "triton")))


def planned():
    """Names of the packages an install of the project would bring to this environment."""
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--dry-run", "--quiet"]
    options = ["--report", "-", "--constraint", str(ROOT / "constraints.txt"), f"{ROOT}[{EXTRAS}]"]
    plan = subprocess.run([*pip, *options], capture_output=True, text=True, check=False)
    if plan.returncode != 0:
        sys.exit(f"the install plan failed:\n{plan.stderr}")
    return [item["metadata"]["name"] for item in json.loads(plan.stdout)["install"]]


def main():
    installed = [distribution.metadata["Name"] for distribution in importlib.metadata.distributions()]
    coming = [name for name in planned() if name.lower() != "polarised"]
    if cuda := unwanted(installed + coming):
        sys.exit(f"an install brings CUDA packages: {', '.join(cuda)}; pin what pulls them in constraints.txt")
    if "torch" in coming:
        sys.exit("an install would bring a second torch; pin what asks for it in constraints.txt")
    if coming:
        sys.exit(f"constraints.txt and the environment disagree on: {', '.join(coming)}")
    print(f"install: {len(installed)} packages, one torch, no CUDA")


if __name__ == "__main__":
    main()
