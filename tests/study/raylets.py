"""Real Ray clusters of several nodes on this machine, each node a process with its own environment."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import polarised

SOURCE = Path(polarised.__file__).parents[1]
TESTS = Path(__file__).parents[1]
STORE = 80 << 20


# What `ray start` does, without its refusal to join others where a cluster serves one machine alone.
NODE = """
import json, signal, sys, time
from ray._private.node import Node
from ray._private.parameter import RayParams
kind, address, port, cpus, store, folder = json.loads(sys.argv[1]), *sys.argv[2:]
head = kind.pop("head")
place = {"gcs_server_port": int(port), "temp_dir": folder, **kind} if head else {"gcs_address": address}
parameters = RayParams(
    node_ip_address="127.0.0.1", num_cpus=int(cpus), object_store_memory=int(store), min_worker_port=0,
    max_worker_port=0, **place
)
parameters.update_if_absent(redis_password=None)
node = Node(parameters, head=head, shutdown_at_exit=True, spawn_reaper=False)
print("Ray runtime started", flush=True)
signal.pause()
"""


class Raylets:
    """A cluster that listens on loopback alone; every process of it bears a mark by which it is found."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.mark = folder, secrets.token_hex(8)
        self._nodes: list[Node] = []
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{one.getsockname()[1]}"
        # Without the second, Ray serves every network of the machine, also where its node is 127.0.0.1.
        self.environment = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            # Workers have a low priority by default, and hardly run on a busy machine.
            "RAY_worker_niceness": "0",
            "MARK": self.mark,
        }

    def add(
        self,
        *,
        path: list[Path] | None = None,
        cpus: int = 1,
        head: bool = False,
        below: Sequence[str] = (),
        **more: str,
    ) -> "Node":
        """Start a node and wait until it has joined; `path` is where it finds its code, `below` a command to run it."""
        number = len(list(self.folder.glob("node*.txt")))
        said = self.folder / f"node{number}.txt"
        kind = {"head": True, "include_dashboard": False} if head else {"head": False}
        port = self.address.rpartition(":")[2]
        asked = [json.dumps(kind), self.address, port, str(cpus), str(STORE), str(self.folder / "r")]
        mark = f"{self.mark}-{number}"
        places = os.pathsep.join(map(str, path or [SOURCE, TESTS]))
        environment = {**os.environ, **self.environment, "PYTHONPATH": places, "MARK": mark, **more}
        with said.open("w") as file:
            process = subprocess.Popen(
                [*below, sys.executable, "-c", NODE, *asked],
                env=environment,
                stdout=file,
                stderr=file,
                cwd=self.folder,
                start_new_session=True,
            )
        self._nodes.append(Node(process, mark))
        deadline = time.monotonic() + 180
        while "Ray runtime started" not in said.read_text():
            assert process.poll() is None, said.read_text()
            assert time.monotonic() < deadline, "waited in vain for a node"
            time.sleep(0.2)
        return self._nodes[-1]

    def adopt(self, process: "subprocess.Popen[bytes]") -> "Node":
        """Register a session of processes that was started in another way."""
        self._nodes.append(Node(process, self.mark))
        return self._nodes[-1]

    def end(self) -> None:
        """End every process of the cluster."""
        for node in self._nodes:
            node.kill()
        for _ in range(50):
            # A process that has ended remains as a zombie until its parent waits for it.
            left = {pid for pid in self.processes() if Path(f"/proc/{pid}/exe").exists()}
            if not left:
                return
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    def processes(self) -> set[int]:
        return _marked(self.mark).union(*(node.processes() for node in self._nodes))


class Node:
    def __init__(self, process: "subprocess.Popen[bytes]", mark: str) -> None:
        self._process, self._mark = process, mark

    def processes(self) -> set[int]:
        """Return the processes of this node: raylet, agents and workers."""
        return _marked(self._mark) | of_session(self._process.pid)

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        return self._process.wait(timeout=400)

    def kill(self) -> None:
        """Kill the node at once, like a power failure."""
        for pid in self.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()


@contextmanager
def raylets() -> Iterator[Raylets]:
    """Yield an empty cluster, whose processes are all ended afterwards."""
    # Ray's sockets live below its folder, and their paths may be no longer than 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="ray"))
    cluster = Raylets(folder)
    try:
        yield cluster
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)


def _marked(mark: str) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            # A prefix of the cluster's mark finds the processes of all its nodes.
            if entry.name.isdigit() and f"\0MARK={mark}".encode() in b"\0" + (entry / "environ").read_bytes():
                found.add(int(entry.name))
    return found - {os.getpid()}


def of_session(leader: int) -> set[int]:
    """Return the processes of a session: Ray's agents write their titles over the variables they were started with."""
    found = set()
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[3]) == leader:
                found.add(int(entry.name))
    return found


def listening(processes: set[int]) -> set[str]:
    """Return the addresses that processes listen on, as the system lists them (hexadecimal)."""
    inodes = set()
    for pid in processes:
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(str(link.readlink()).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.add(words[1].rpartition(":")[0])
    return found


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
