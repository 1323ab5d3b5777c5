"""The only training loop: any VAE, objective, dataset and device; killed at any moment, it goes on exactly."""

import ctypes
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, get_args

import numpy as np
import torch
from torch import nn

from polarised.data.dataset import Batch, Dataset
from polarised.errors import ConfigError, TrainingError
from polarised.models.networks import seeded_weights
from polarised.models.vae import VAE
from polarised.objectives.step import Objective, Precision, take_step
from polarised.random import seed_for
from polarised.training import checkpoint
from polarised.training.history import History, Records

__all__ = ["Hook", "Reporter", "keep_freed_memory", "reporting", "train"]


class Hook(Protocol):
    """Something that looks at the model while it trains: at step 0, every `every` steps and at the end."""

    every: int

    def __call__(self, step: int, vae: VAE) -> None:
        """Look at the model after `step` updates."""

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what a checkpoint must carry."""

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Go back to a saved state."""


def train(
    vae: VAE,
    objective: Objective,
    dataset: Dataset,
    *,
    steps: int,
    batch_size: int = 64,
    learning_rate: float = 1e-4,
    betas: tuple[float, float] = (0.9, 0.999),
    amsgrad: bool = False,
    seed: int = 0,
    device: str = "cpu",
    precision: Precision = "float32",
    directory: str | Path | None = None,
    checkpoint_every: int = 1000,
    log_every: int = 50,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
) -> History:
    """Minimise the sum of the objective's terms over `steps` batches with Adam; `vae` is trained in place.

    Batch t and noise t are pure functions of (seed, t). With a `directory`, a checkpoint is written every
    `checkpoint_every` steps, on Ctrl-C and at the end, and the same call continues from the one it finds: on a CPU
    with bit-identical weights to a run that was never stopped. `precision` "bfloat16" lets the layers multiply in
    half the bits, which is faster where the processor can; weights and loss stay in single precision.

    >>> from polarised.data import dsprites
    >>> from polarised.models import build_vae
    >>> from polarised.objectives import BetaVAE
    >>> vae = build_vae({"architecture": "mlp", "latents": 3}, shape=(1, 32, 32))
    >>> history = train(vae, BetaVAE(beta=2.0), dsprites(size=32), steps=2, batch_size=8, progress=False)
    >>> sorted(history.terms)
    ['distortion', 'rate']
    """
    if steps < 1 or batch_size < 2 or checkpoint_every < 1 or log_every < 1:
        raise ConfigError(
            "expected steps, checkpoint_every and log_every of at least 1 and batch_size of at least 2, got "
            f"{steps}, {checkpoint_every}, {log_every} and {batch_size}"
        )
    if precision not in get_args(Precision):
        raise ConfigError(f"expected precision as {' or '.join(get_args(Precision))}, got {precision!r}")
    _announce(vae, objective, dataset, steps, batch_size, seed)
    if vae.prior.awaits_data:
        vae.prior.fit(torch.from_numpy(dataset.sample(min(len(dataset), 2000), seed).images))
    vae.to(device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    with seeded_weights(seed, "critic"):
        critic = objective.critic(vae.latents)
    modules: dict[str, nn.Module] = {"vae": vae} if critic is None else {"vae": vae, "critic": critic.to(device)}
    optimiser = _adam(modules, objective, learning_rate, betas, amsgrad)
    records = Records(log_every)
    identity = {
        "objective": repr(objective),
        "dataset": dataset.name,
        "batch size": batch_size,
        "learning rate": learning_rate,
        "seed": seed,
        "precision": precision,
    }
    folder = Path(directory) if directory is not None else None
    start = 0
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        found = checkpoint.load(folder, identity, modules, optimiser)
        if found is not None:
            start = found.step
            records.restore(found.arrays, start)
            for i, hook in enumerate(hooks):
                prefix = f"hooks.{i}."
                own = {k.removeprefix(prefix): v for k, v in found.arrays.items() if k.startswith(prefix)}
                hook.restore(own)
    if start >= steps:
        return records.history()
    if start == 0:
        for hook in hooks:
            hook(0, vae)

    kept = start

    def save(step: int) -> None:
        nonlocal kept
        records.flush()
        if folder is not None:
            arrays = records.state() | {f"hooks.{i}.{k}": v for i, h in enumerate(hooks) for k, v in h.state().items()}
            checkpoint.save(folder, checkpoint.Checkpoint(step, identity, arrays), modules, optimiser)
            kept = step

    generator = torch.Generator(device)
    with (
        _interruptible() as interrupted,
        _saying_what_is_kept(lambda: kept),
        reporting(start, steps, visible=progress) as report,
    ):
        # On a CPU the threads of the step are busy on every core: a batch drawn beside them would hold them up.
        for step, batch in _batches(
            dataset, range(start, steps), batch_size, seed, ahead=generator.device.type != "cpu"
        ):
            x = torch.from_numpy(batch.images).to(device, memory_format=_layout(batch.images), non_blocking=True)
            u = None if batch.u is None else torch.from_numpy(batch.u).to(device)
            generator.manual_seed(seed_for(seed, "noise", step))
            taken = take_step(
                vae,
                x,
                u,
                number=step,
                dataset_size=len(dataset),
                generator=generator,
                critic=critic,
                precision=precision,
            )
            terms = objective(taken)
            optimiser.zero_grad(set_to_none=True)
            torch.autograd.backward(torch.stack(list(terms.values())).sum())
            optimiser.step()
            done = step + 1
            records.take(done, terms)
            report(done, records.latest)
            for hook in hooks:
                if done % hook.every == 0 or done == steps:
                    hook(done, vae)
            if done % checkpoint_every == 0 or done == steps or interrupted.is_set():
                save(done)
            if interrupted.is_set():
                where = f"; {folder} holds step {done}, the same command continues" if folder else ""
                raise Interrupted(f"stopped after step {done} of {steps}{where}", interrupted.number)
    vae.eval()
    return records.history()


def _announce(vae: VAE, objective: Objective, dataset: Dataset, steps: int, batch_size: int, seed: int) -> None:
    sentences = objective.warnings(steps=steps, dataset_size=len(dataset))
    first = torch.from_numpy(dataset.batch(0, batch_size, seed).images)
    sentences += vae.likelihood.check(first)
    for sentence in sentences:
        warnings.warn(sentence, stacklevel=3)


def _adam(
    modules: dict[str, nn.Module],
    objective: Objective,
    learning_rate: float,
    betas: tuple[float, float],
    amsgrad: bool,
) -> torch.optim.Optimizer:
    groups: list[dict[str, Any]] = [{"params": list(modules["vae"].parameters()), "lr": learning_rate, "betas": betas}]
    if "critic" in modules:
        own = {"lr": getattr(objective, "critic_learning_rate"), "betas": getattr(objective, "critic_betas")}  # noqa: B009
        groups.append({"params": list(modules["critic"].parameters()), **own})
    return torch.optim.Adam(groups, lr=learning_rate, amsgrad=amsgrad, fused=True)


def _batches(dataset: Dataset, steps: range, batch_size: int, seed: int, *, ahead: bool) -> Iterator[tuple[int, Batch]]:
    """Yield (step, batch); `ahead` draws the next batch while the current one is used."""
    if not ahead:
        for step in steps:
            yield step, dataset.batch(step, batch_size, seed)
        return
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as worker:
        coming = worker.submit(dataset.batch, steps.start, batch_size, seed)
        for step in steps:
            batch = coming.result()
            if step + 1 < steps.stop:
                coming = worker.submit(dataset.batch, step + 1, batch_size, seed)
            yield step, batch


def _layout(images: np.ndarray[Any, Any]) -> torch.memory_format:
    return torch.channels_last if images.ndim == 4 else torch.contiguous_format


@contextmanager
def _saying_what_is_kept(step: Callable[[], int]) -> Iterator[None]:
    """Add to the error of a diverged run from which step it could go on."""
    try:
        yield
    except TrainingError as error:
        kept = f"the checkpoint of step {step()} is kept" if step() else "no checkpoint had been written yet"
        raise TrainingError(f"{error}; {kept}") from error


class Interrupted(KeyboardInterrupt):
    """Training was asked to stop and has saved; `signal` is what asked for it."""

    def __init__(self, words: str, number: int) -> None:
        super().__init__(words)
        self.signal = number


class _Flag(threading.Event):
    """A flag that remembers which signal raised it."""

    number: int = signal.SIGINT

    def hear(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self.set()


@contextmanager
def _interruptible() -> Iterator[_Flag]:
    """Turn Ctrl-C, and what a queue sends, into a flag the loop reads between two steps, so that it can save first."""
    flag = _Flag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    before = {number: signal.signal(number, flag.hear) for number in numbers}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_M_TRIM_THRESHOLD = -1


_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """Raise glibc's thresholds for the rest of this process; return whether that was possible.

    Only for processes of our own (the command line, workers of a study), never on import: it changes the whole
    process for good. Both thresholds belong together: the trim threshold alone fixes the other at its small default.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 2**30)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


class Reporter(Protocol):
    """Takes the number of steps done and the latest mean of each term."""

    def __call__(self, done: int, terms: Mapping[str, float]) -> None:
        """Show where training stands."""


@contextmanager
def reporting(start: int, steps: int, *, visible: bool) -> Iterator[Reporter]:
    """Give a reporter that draws a bar on standard error while the block runs."""
    if not visible or not sys.stderr.isatty():
        yield lambda done, terms: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="cyan"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[terms]}", style="dim"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps, completed=start, rate="", terms="")
        began = shown = time.monotonic()

        def report(done: int, terms: Mapping[str, float]) -> None:
            nonlocal shown
            now = time.monotonic()
            if now - shown < 0.1 and done < steps:
                return
            shown = now
            rate = (done - start) / max(now - began, 1e-9)
            text = "  ".join(f"{name} {value:.1f}" for name, value in terms.items())
            bar.update(task, completed=done, rate=f"{rate:.0f} steps/s", terms=text)

        yield report
