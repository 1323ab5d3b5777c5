"""One of several processes that want the same run, over and over, and write down when they had it.

Arguments: the place, the log, a seed, and settings as JSON: seconds, hold, and constants of `polarised.study.leases`.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

from polarised.study import leases


def main(place: str, log: str, seed: str, settings: str) -> None:
    asked = json.loads(settings)
    seconds, hold, told = asked.pop("seconds"), asked.pop("hold"), os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for name, value in asked.items():
        setattr(leases, name, (lambda *_, value=value: value) if callable(getattr(leases, name)) else value)
    chance, deadline = random.Random(int(seed)), time.monotonic() + seconds

    def note(turn: int, kind: str, moment: float) -> None:
        # One write of few bytes to a file opened for appending is whole.
        os.write(told, f"{os.getpid()} {turn} {kind} {moment:.9f}\n".encode())

    turn = 0
    while time.monotonic() < deadline:
        turn += 1
        try:
            with leases.leased(place, "run", step=lambda: 0) as tenure:
                note(turn, "begun", time.monotonic())
                until = time.monotonic() + chance.uniform(0, hold)
                while time.monotonic() < until:
                    # Seen to be the owner after this moment, so nobody else can have been it before.
                    moment = time.monotonic()
                    tenure.check()
                    note(turn, "owner", moment)
                    time.sleep(chance.uniform(0, 0.01))
                note(turn, "left", time.monotonic())
        except leases.BusyError:
            time.sleep(chance.uniform(0, 0.02))


if __name__ == "__main__":
    if "://" not in sys.argv[1]:
        (Path(sys.argv[1]) / "run").mkdir(parents=True, exist_ok=True)
    main(*sys.argv[1:])
