"""The training loop, for any VAE, objective, dataset and device; an interrupted run resumes exactly."""

import ctypes
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any, Protocol, get_args

import numpy as np
import torch
from torch import Tensor, nn

from polarised import registry
from polarised._io.terminal import console
from polarised.data.dataset import Batch, Dataset
from polarised.errors import ConfigError, TrainingError
from polarised.models._dense_pass import plan_pass
from polarised.models.networks import seeded_weights
from polarised.models.vae import VAE
from polarised.objectives.schedules import Schedule, cut_short
from polarised.objectives.step import Objective, Precision, take_step
from polarised.random import seeds_for
from polarised.training.history import (
    CHECKPOINT,
    Checkpoint,
    History,
    Records,
    damaged,
    load_checkpoint,
    save_checkpoint,
)
from polarised.training.pace import Pace, Settling, check_settling, never_settles

__all__ = ["Hook", "Reporter", "keep_freed_memory", "reporting", "train"]


class Hook(Protocol):
    """A callback that observes the model during training: at step 0, every `every` steps and at the end."""

    every: int

    def __call__(self, step: int, vae: VAE) -> None:
        """Observe the model after `step` updates."""

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays to save in a checkpoint."""

    def restore(self, state: dict[str, np.ndarray[Any, Any]]) -> None:
        """Restore a saved state.

        Args:
            state: The arrays that `state` returned.
        """


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
    schedule: registry.Spec = "constant",
    settling: Settling | None = None,
    compiled: bool = False,
    directory: str | Path | None = None,
    checkpoint_every: int = 1000,
    log_every: int = 50,
    hooks: Sequence[Hook] = (),
    progress: bool = True,
) -> History:
    """Minimise the sum of the objective's terms over `steps` batches with Adam; `vae` is trained in place.

    Batch t and noise t are pure functions of (seed, t), so an interrupted run resumes exactly: on a CPU, the weights
    are bit-identical to those of an uninterrupted run. Between two log points the loop does not wait for the device.

    Args:
        vae: The model.
        objective: The objective to minimise.
        dataset: The images, drawn with replacement.
        steps: The number of updates; with `settling`, the maximum.
        batch_size: The number of images in a batch.
        learning_rate: The learning rate of Adam, before the schedule.
        betas: The decay rates of Adam's moments.
        amsgrad: Whether Adam uses the maximum of all second moments.
        seed: The seed of batches, noise and critic.
        device: The torch device to train on.
        precision: "bfloat16" runs the layers in half precision, which is faster on processors that support it; weights
            and loss stay in single precision.
        schedule: The learning rate schedule, by name or as a mapping with its settings.
        settling: When to end a run before its last step: see `Settling`.
        compiled: Whether to compile the two networks with torch.compile, which takes about a minute at the start; the
            results then differ in their last digits.
        directory: Where to write the checkpoint; the same call resumes from a checkpoint found there.
        checkpoint_every: Number of steps between checkpoints; one is also written on Ctrl-C and at the end.
        log_every: The number of steps over which the terms are averaged.
        hooks: Callbacks that observe the model during training.
        progress: Whether to show a progress bar in a terminal.

    Returns:
        The terms over the run, its duration, and the step at which it settled.

    Raises:
        ConfigError: If a setting is out of range.
        TrainingError: If the checkpoint belongs to another run; a `DivergedError` if a term is no longer finite.

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
    rates = registry.complete("schedule", schedule)
    factor_at: Schedule = registry.build("schedule", rates, steps)
    if settling is not None:
        check_settling(settling, rates, steps)
    _warn(
        vae,
        objective,
        dataset,
        steps,
        batch_size,
        seed,
        [*_too_long(factor_at, steps), *never_settles(settling, steps)],
    )
    if vae.prior.awaits_data:
        vae.prior.fit(torch.from_numpy(dataset.sample(min(len(dataset), 2000), seed).images))
    vae.to(device).to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    with seeded_weights(seed, "critic"):
        critic = objective.critic(vae.latents)
    modules: dict[str, nn.Module] = {"vae": vae} if critic is None else {"vae": vae, "critic": critic.to(device)}
    memory = objective.memory()
    if memory is not None:
        modules["memory"] = memory.to(device)
    optimiser = _adam(modules, objective, learning_rate, betas, amsgrad)
    records = Records(log_every)
    pace = Pace(factor_at, settling, dataset, steps=steps, seed=seed)
    # Settings that depend on the length of the run fix it; at a constant rate, a later call may ask for more steps.
    bound = settling is not None or rates != registry.complete("schedule", "constant")
    identity: dict[str, Any] = {
        "objective": repr(objective),
        "dataset": dataset.name,
        "batch size": batch_size,
        "learning rate": learning_rate,
        "seed": seed,
        "precision": precision,
        "schedule": rates if bound else None,
        "settling": None if settling is None else asdict(settling),
        "steps": steps if bound else None,
        "compiled": compiled or None,
    }
    folder = Path(directory) if directory is not None else None
    start = 0
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        found = load_checkpoint(folder, identity, modules, optimiser)
        if found is not None:
            start = found.step
            try:
                records.restore(found.arrays, start)
                pace.restore(_with_prefix("pace.", found.arrays), device)
                for i, hook in enumerate(hooks):
                    hook.restore(_with_prefix(f"hooks.{i}.", found.arrays))
            except (LookupError, TypeError, ValueError) as error:
                raise damaged(folder / CHECKPOINT, error) from error
    if start >= pace.end:
        return records.history(pace.settled_step)
    if start == 0:
        for hook in hooks:
            hook(0, vae)

    kept = start

    def save(step: int) -> None:
        nonlocal kept
        records.flush()
        if folder is not None:
            arrays = records.state() | {f"pace.{k}": v for k, v in pace.state().items()}
            arrays |= {f"hooks.{i}.{k}": v for i, h in enumerate(hooks) for k, v in h.state().items()}
            save_checkpoint(folder, Checkpoint(step, identity, arrays), modules, optimiser)
            kept = step

    generator, one = torch.Generator(device), torch.ones((), device=device)
    # Objectives of other packages may differentiate inside a step, which the faster pass does not allow.
    simple = precision == "float32" and not compiled and type(objective).__module__.startswith("polarised.")
    plan = plan_pass(vae) if simple else None
    groups = [(group, float(group["lr"])) for group in optimiser.param_groups]
    parameters = [parameter for group, _ in groups for parameter in group["params"]]
    with (
        _interruptible() as interrupted,
        _adding_last_checkpoint(lambda: kept),
        _compiling(vae, wanted=compiled),
        reporting(start, steps, visible=progress) as report,
    ):
        # On a CPU the training step uses every core: drawing the next batch at the same time would slow it down.
        drawn = dataset.batches(range(start, pace.end), batch_size, seed)
        seeds = seeds_for(seed, "noise", range(start, pace.end))
        for step, batch in enumerate(drawn if generator.device.type == "cpu" else _prefetched(drawn), start):
            x = _to_device(batch.images, generator.device)
            u = None if batch.u is None else _to_device(batch.u, generator.device)
            generator.manual_seed(next(seeds))
            taken = take_step(
                vae,
                x,
                u,
                number=step,
                dataset_size=len(dataset),
                steps=steps,
                generator=generator,
                critic=critic,
                memory=memory,
                precision=precision,
                plan=plan,
            )
            terms = objective(taken)
            stacked = torch.stack(list(terms.values())).detach()
            for parameter in parameters:
                parameter.grad = None
            # The loss is the sum of the terms, so backward starts from each of them.
            roots = [term for term in terms.values() if term.requires_grad]
            torch.autograd.backward(roots, [one] * len(roots))
            if plan is not None:
                plan.backward()
            factor = pace.factor(step)
            for group, rate in groups:
                group["lr"] = factor * rate
            optimiser.update()
            done = step + 1
            records.take(done, list(terms), stacked)
            pace.take(done, stacked, vae)
            report(done, records.latest)
            end = pace.end
            for hook in hooks:
                if done % hook.every == 0 or done == end:
                    hook(done, vae)
                    # A hook may change the modules.
                    plan = plan_pass(vae) if simple else None
            if done % checkpoint_every == 0 or done == end or interrupted.is_set():
                save(done)
            if done == end:
                break
            if interrupted.is_set():
                where = f"; {folder} holds step {done}, run the same command to resume" if folder else ""
                raise Interrupted(f"stopped after step {done} of {steps}{where}", interrupted.number)
    vae.eval()
    return records.history(pace.settled_step)


def _too_long(schedule: Schedule, steps: int) -> list[str]:
    share = cut_short(schedule, steps)
    if share is None:
        return []
    return [f"the learning rate reaches {share:.3g} of its value in this run: its warm-up takes longer."]


def _warn(
    vae: VAE, objective: Objective, dataset: Dataset, steps: int, batch_size: int, seed: int, own: Sequence[str]
) -> None:
    sentences = [*own, *objective.warnings(steps=steps, dataset_size=len(dataset))]
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
) -> "_Adam":
    groups: list[dict[str, Any]] = [{"params": list(modules["vae"].parameters()), "lr": learning_rate, "betas": betas}]
    if "critic" in modules:
        own = {"lr": getattr(objective, "critic_learning_rate"), "betas": getattr(objective, "critic_betas")}  # noqa: B009
        groups.append({"params": list(modules["critic"].parameters()), **own})
    return _Adam(groups, lr=learning_rate, amsgrad=amsgrad, fused=True)


class _Adam(torch.optim.Adam):
    """Adam with an update that calls torch's fused kernel directly: the same results without the overhead of `step`.

    The overhead is a third of the update of a small network: `step` looks up at every step what never changes here.
    """

    _ready: "_States | None" = None
    _counts: Tensor
    _flushes: bool

    @torch.no_grad()
    def update(self) -> None:
        """Perform the same update as `step`."""
        ready = self._ready if self._ready is not None else self._collect_states()
        gradients = [[p.grad for p in parameters if p.grad is not None] for _, parameters, _ in ready]
        if not ready or any(len(own) < len(part[1]) for own, part in zip(gradients, ready, strict=True)):
            self.step()
            return
        self._counts.add_(1)
        # The means of unused weights decay to numbers below 1e-38, with which a CPU computes more slowly. Rounding them
        # to zero concerns the calling thread alone, which does all the work for a small network.
        if self._flushes:
            torch.set_flush_denormal(True)
        try:
            self._update_groups(ready, gradients)
        finally:
            if self._flushes:
                torch.set_flush_denormal(False)

    @staticmethod
    def _update_groups(ready: "_States", gradients: list[list[Tensor]]) -> None:
        for (group, parameters, (means, squares, largest, steps)), own in zip(ready, gradients, strict=True):
            torch._fused_adam_(
                parameters,
                own,
                means,
                squares,
                largest,
                steps,
                amsgrad=group["amsgrad"],
                lr=group["lr"],
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=group["maximize"],
                grad_scale=None,
                found_inf=None,
            )

    def _collect_states(self) -> "_States":
        """Return the state of every parameter; empty if there is none yet or one kernel call cannot update them all."""
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        alike = len({(parameter.device, parameter.dtype) for parameter in every}) == 1
        if not alike or any("exp_avg" not in self.state.get(parameter, {}) for parameter in every):
            return []
        self._flushes = every[0].device.type == "cpu" and _keeps_denormals()
        # Store the step counts in one tensor, with a view per parameter, so that one addition updates all.
        self._counts = torch.stack([self.state[parameter]["step"] for parameter in every])
        for parameter, count in zip(every, self._counts.unbind(), strict=True):
            self.state[parameter]["step"] = count
        self._ready = []
        for group in self.param_groups:
            states = [self.state[parameter] for parameter in group["params"]]
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step")
            lists = [[state[name] for state in states if name in state] for name in names]
            self._ready.append((group, group["params"], lists))
        return self._ready


# Each group of parameters with their states: means, squares, largest squares, step counts.
_States = list[tuple[dict[str, Any], list[Tensor], list[list[Tensor]]]]


def _keeps_denormals() -> bool:
    """Return whether this thread computes with numbers below 1e-38, the default, instead of rounding them to zero."""
    return bool(torch.tensor(1e-39) * 1)


def _prefetched(batches: Iterator[Batch]) -> Iterator[Batch]:
    """Yield the batches, drawing the next one in a thread while the current one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="batches") as worker:
        coming = worker.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = worker.submit(next, batches, None)
            yield batch


def _to_device(values: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Copy an array to the device of the model, images in channels-last layout, without waiting for a GPU."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    if values.ndim == 4 and values.shape[1] == 1 and tensor.is_contiguous():
        # With one channel both layouts are the same in memory, so nothing is copied.
        rows, _, height, width = values.shape
        tensor = tensor.as_strided((rows, 1, height, width), (height * width, 1, width, 1))
        return tensor if device.type == "cpu" else tensor.to(device, non_blocking=True)
    layout = torch.channels_last if values.ndim == 4 else torch.contiguous_format
    return tensor.to(device, memory_format=layout, non_blocking=True)


def _with_prefix(prefix: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


@contextmanager
def _compiling(vae: VAE, *, wanted: bool) -> Iterator[None]:
    """Compile the two networks inside the block; the names of their weights do not change."""
    networks = (vae.encoder, vae.decoder) if wanted else ()
    for network in networks:
        network.compile()
    try:
        yield
    finally:
        for network in networks:
            network._compiled_call_impl = None


@contextmanager
def _adding_last_checkpoint(step: Callable[[], int]) -> Iterator[None]:
    """Add the step of the last checkpoint to the error of a diverged run."""
    try:
        yield
    except TrainingError as error:
        kept = f"the checkpoint of step {step()} is kept" if step() else "no checkpoint was written"
        raise type(error)(f"{error}; {kept}") from error


class Interrupted(KeyboardInterrupt):
    """Training was interrupted after saving a checkpoint; `signal` is the signal received."""

    def __init__(self, words: str, number: int) -> None:
        super().__init__(words)
        self.signal = number


class _Flag(threading.Event):
    """An event that records the signal that set it."""

    number: int = signal.SIGINT

    def receive(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        self.set()


@contextmanager
def _interruptible() -> Iterator[_Flag]:
    """Turn Ctrl-C and the signals of a queue into a flag that the loop checks between steps, so that it can save."""
    flag = _Flag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGUSR1") if hasattr(signal, name)]
    # A shell makes background commands ignore Ctrl-C; respect this.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        numbers.remove(signal.SIGINT)
    before = {number: signal.signal(number, flag.receive) for number in numbers}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


_M_TRIM_THRESHOLD = -1


_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """Raise glibc's memory thresholds for the rest of this process; return whether this was possible.

    Call this only in processes of the library (the command line, workers of a study), never on import: the change is
    permanent. Set both thresholds: setting only the trim threshold fixes the other at its small default.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, 2**30)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))


class Reporter(Protocol):
    """A function called with the number of completed steps and the latest mean of each term."""

    def __call__(self, done: int, terms: Mapping[str, float]) -> None:
        """Show the progress of training."""


@contextmanager
def reporting(start: int, steps: int, *, visible: bool) -> Iterator[Reporter]:
    """Yield a reporter that draws a progress bar on standard error while the block runs."""
    if not visible or not sys.stderr.isatty():
        yield lambda done, terms: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("[bold]training"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}", style="cyan"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[terms]}", style="dim", markup=False),
    )
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
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
