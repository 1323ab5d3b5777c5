"""A Lightning callback: which variables are alive while anybody's LightningModule trains."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from lightning.pytorch import Callback, LightningModule, Trainer

from polarised.adapters.arrays import ScaleKind
from polarised.adapters.batches import batches_of
from polarised.adapters.callables import Reading, encode_batches, gathered
from polarised.adapters.models import model_of, tensors_for
from polarised.errors import ConfigError, PolarisedError
from polarised.regime import Encodings
from polarised.regime.encodings import Axis
from polarised.regime.timeline import Timeline

__all__ = ["RegimeCallback"]

# Inputs that are enough to ask questions with.
LOOK = 256


class RegimeCallback(Callback):
    """Type the variables on fixed inputs every `every` optimiser steps, and log how many are active, mixed, passive.

    What can be read in two ways is asked about when fitting starts; afterwards whatever goes wrong is a warning, and
    training goes on. What was seen is in `timeline`; a total collapse gives a warning as soon as it shows.

    >>> callback = RegimeCallback(lambda module, x: module.encoder(x), [], scale_kind="log_variance", every=500)
    >>> callback.every
    500
    """

    def __init__(
        self,
        encode: Callable[[Any, Any], Any] | None,
        batches: Any,
        *,
        scale_kind: ScaleKind | None = None,
        axis: Axis = None,
        every: int = 500,
        examples: int | None = None,
        trust_scale: bool = False,
        timeline: Timeline | None = None,
    ) -> None:
        """Take what to look at.

        Args:
            encode: From module and batch to mean and scale of q(z|x), in any form `polarised.diagnose` reads; None
                takes the module's own encoder.
            batches: The inputs to look at each time: an array, a list of batches or a loader of x or (x, y).
            scale_kind: What the second output is, where its name does not tell.
            axis: Which axis of the latents is the variable, where there are more than two.
            every: Optimiser steps from one look to the next.
            examples: At most so many inputs.
            trust_scale: Take the scale as said, however its numbers look.
            timeline: Where to keep what was seen.

        Raises:
            ConfigError: If `every` is below 1, or the inputs could be gone through only once.
        """
        super().__init__()
        if every < 1:
            raise ConfigError(f"expected every of at least 1 step, got {every}")
        if hasattr(batches, "__next__"):
            raise ConfigError("expected inputs that can be gone through again and again, got an iterator; give a list")
        self.encode, self.batches, self.every, self.examples = encode, batches, every, examples
        self.reading = Reading(scale_kind, trust_scale, axis)
        self.timeline = Timeline() if timeline is None else timeline

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Ask what has to be asked before any time is spent."""
        if len(self.timeline) == 0:
            self._encodings(pl_module, self.reading, most=2 * LOOK)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Look at the model after every `every`-th update."""
        step = trainer.global_step
        if step and step % self.every == 0 and step not in self.timeline.steps:
            self._look(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at the model a last time."""
        if trainer.global_step not in self.timeline.steps:
            self._look(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """Return what a Lightning checkpoint must carry."""
        return {name: array.tolist() for name, array in self.timeline.state().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go back to a saved state."""
        self.timeline.restore({name: np.asarray(values) for name, values in state_dict.items()})

    def _look(self, trainer: Trainer, module: LightningModule) -> None:
        # What the numbers are was asked about: while training, a network may look like anything.
        reading = self.reading if len(self.timeline) == 0 else replace(self.reading, trust_scale=True)
        try:
            self.timeline.take(trainer.global_step, self._encodings(module, reading))
        except PolarisedError as error:
            if len(self.timeline) == 0 and not trainer.global_step:
                raise
            warnings.warn(f"the variables were not looked at after step {trainer.global_step}: {error}", stacklevel=2)
            return
        row = self.timeline.counts().row(-1, named=True)
        numbers = {f"polarised/{name}": float(row[name]) for name in ("active", "mixed", "passive", "kl")}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)

    def _encodings(self, module: LightningModule, reading: Reading, *, most: int | None = None) -> Encodings:
        own = None if self.encode is None else partial(self.encode, module)
        model = replace(model_of(module, encode=own), convert=partial(_brought, module))
        limits = [count for count in (self.examples, most) if count is not None]
        found = batches_of(self.batches, examples=min(limits) if limits else None)
        return gathered(encode_batches(model, found, reading, named=found.named))


def _brought(module: LightningModule, batch: Any) -> Any:
    if (
        isinstance(batch, np.ndarray)
        and type(module).transfer_batch_to_device is LightningModule.transfer_batch_to_device
    ):
        batch = tensors_for(module)(batch)
    return module.transfer_batch_to_device(batch, module.device, 0)
