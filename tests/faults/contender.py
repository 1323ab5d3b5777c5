"""One of several processes that repeatedly try to own the same run, and log when they own it.

Arguments: the place, the log, a seed, and settings as JSON: seconds, hold, turns, and constants of
`polarised.study.leases`.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

from polarised.study import leases

PATIENCE = 200.0


def changed_hands(log: str, turns: int) -> bool:
    """Return whether there were so many turns, of more than one process."""
    begun = [line.split()[0] for line in Path(log).read_text().splitlines() if " begun " in line]
    return not turns or (len(begun) >= turns and len(set(begun)) > 1)


def main(place: str, log: str, seed: str, settings: str) -> None:
    asked = json.loads(settings)
    seconds, hold, turns = asked.pop("seconds"), asked.pop("hold"), asked.pop("turns", 0)
    told = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for name, value in asked.items():
        setattr(leases, name, (lambda *_, value=value: value) if callable(getattr(leases, name)) else value)
    chance, deadline = random.Random(int(seed)), time.monotonic() + seconds

    def note(turn: int, kind: str, moment: float) -> None:
        # A short write to a file opened for appending is atomic.
        os.write(told, f"{os.getpid()} {turn} {kind} {moment:.9f}\n".encode())

    turn = 0
    while (now := time.monotonic()) < deadline or (now < deadline + PATIENCE and not changed_hands(log, turns)):
        turn += 1
        try:
            with leases.leased(place, "run", step=lambda: 0) as tenure:
                note(turn, "begun", time.monotonic())
                until = time.monotonic() + chance.uniform(0, hold)
                while time.monotonic() < until:
                    # The owner is checked after this moment, so nobody else can have owned it before.
                    moment = time.monotonic()
                    tenure.check()
                    note(turn, "owner", moment)
                    time.sleep(chance.uniform(0, 0.01))
                note(turn, "left", time.monotonic())
            # Wait after leaving, so that the others get a turn.
            written, until = os.fstat(told).st_size, time.monotonic() + 1.0
            while os.fstat(told).st_size == written and time.monotonic() < until:
                time.sleep(0.01)
        except leases.BusyError:
            time.sleep(chance.uniform(0, 0.02))


if __name__ == "__main__":
    if "://" not in sys.argv[1]:
        (Path(sys.argv[1]) / "run").mkdir(parents=True, exist_ok=True)
    main(*sys.argv[1:])
