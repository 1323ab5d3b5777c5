"""A Lightning callback that records which variables are alive while a LightningModule trains."""

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

# Number of inputs for the checks at the start.
LOOK = 256


class RegimeCallback(Callback):
    """Classify the variables on fixed inputs every `every` optimiser steps; log how many are active, mixed and passive.

    Ambiguous outputs raise an error when fitting starts; later errors are only warnings, and training
    continues. The results are in `timeline`; a total collapse gives a warning as soon as it is found.

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
        """Set the encoder and the inputs.

        Args:
            encode: Maps module and batch to mean and scale of q(z|x), in any form `polarised.diagnose` accepts; None
                uses the module's own encoder.
            batches: The inputs: an array, a list of batches or a loader of x or (x, y).
            scale_kind: The meaning of the second output, if its name does not give it.
            axis: The axis of the latent variables, if there are more than two axes.
            every: Optimiser steps between two evaluations.
            examples: The largest number of inputs.
            trust_scale: Skip the check whether the values of the scale are plausible.
            timeline: The timeline that receives the results.

        Raises:
            ConfigError: If `every` is below 1, or the inputs can be iterated only once.
        """
        super().__init__()
        if every < 1:
            raise ConfigError(f"expected every of at least 1 step, got {every}")
        if hasattr(batches, "__next__"):
            raise ConfigError("expected inputs that can be iterated repeatedly, got an iterator; give a list")
        self.encode, self.batches, self.every, self.examples = encode, batches, every, examples
        self.reading = Reading(scale_kind, trust_scale, axis)
        self.timeline = Timeline() if timeline is None else timeline

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the outputs of the encoder before training starts."""
        if len(self.timeline) == 0:
            self._encodings(pl_module, self.reading, most=2 * LOOK)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: Any) -> None:
        """Evaluate the model after every `every`-th update."""
        step = trainer.global_step
        if step and step % self.every == 0 and step not in self.timeline.steps:
            self._evaluate(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate the model at the end."""
        if trainer.global_step not in self.timeline.steps:
            self._evaluate(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a Lightning checkpoint."""
        return {name: array.tolist() for name, array in self.timeline.state().items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.timeline.restore({name: np.asarray(values) for name, values in state_dict.items()})

    def _evaluate(self, trainer: Trainer, module: LightningModule) -> None:
        # The outputs were checked at the start; during training, the values may be implausible.
        reading = self.reading if len(self.timeline) == 0 else replace(self.reading, trust_scale=True)
        try:
            self.timeline.take(trainer.global_step, self._encodings(module, reading))
        except PolarisedError as error:
            if len(self.timeline) == 0 and not trainer.global_step:
                raise
            warnings.warn(f"the variables were not evaluated after step {trainer.global_step}: {error}", stacklevel=2)
            return
        row = self.timeline.counts().row(-1, named=True)
        numbers = {f"polarised/{name}": float(row[name]) for name in ("active", "mixed", "passive", "kl")}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)

    def _encodings(self, module: LightningModule, reading: Reading, *, most: int | None = None) -> Encodings:
        own = None if self.encode is None else partial(self.encode, module)
        model = replace(model_of(module, encode=own), convert=partial(_on_device, module))
        limits = [count for count in (self.examples, most) if count is not None]
        found = batches_of(self.batches, examples=min(limits) if limits else None)
        return gathered(encode_batches(model, found, reading, named=found.named))


def _on_device(module: LightningModule, batch: Any) -> Any:
    if (
        isinstance(batch, np.ndarray)
        and type(module).transfer_batch_to_device is LightningModule.transfer_batch_to_device
    ):
        batch = tensors_for(module)(batch)
    return module.transfer_batch_to_device(batch, module.device, 0)
