"""A Lightning callback: which variables are alive while anybody's LightningModule trains."""

from collections.abc import Callable
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from polarised.adapters.arrays import ScaleKind
from polarised.adapters.callables import from_callable
from polarised.errors import ConfigError
from polarised.models.networks import evaluating
from polarised.regime.timeline import Timeline

__all__ = ["RegimeCallback"]


class RegimeCallback(Callback):
    """Type the variables on fixed inputs every `every` optimiser steps, and log how many are active, mixed, passive.

    `encode(module, batch)` returns (mean, second) of q(z|x); `batches` are the evaluation inputs, a list that is gone
    through each time and brought to the module's device. What was seen is in `timeline`; a total collapse gives a
    warning as soon as it shows. `trust_scale` is that of `from_callable`.

    >>> callback = RegimeCallback(lambda module, x: module.encoder(x), [], scale_kind="log_variance", every=500)
    >>> callback.every
    500
    """

    def __init__(
        self,
        encode: Callable[[LightningModule, Any], tuple[Any, Any]],
        batches: list[Any],
        *,
        scale_kind: ScaleKind,
        every: int = 500,
        trust_scale: bool = False,
        timeline: Timeline | None = None,
    ) -> None:
        super().__init__()
        if every < 1:
            raise ConfigError(f"expected every of at least 1 step, got {every}")
        self.encode, self.batches, self.scale_kind, self.every, self.trust_scale = (
            encode,
            batches,
            scale_kind,
            every,
            trust_scale,
        )
        self.timeline = Timeline() if timeline is None else timeline

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
        import numpy as np

        self.timeline.restore({name: np.asarray(values) for name, values in state_dict.items()})

    def _look(self, trainer: Trainer, module: LightningModule) -> None:
        def encode(batch: Any) -> tuple[Any, Any]:
            return self.encode(module, module.transfer_batch_to_device(batch, module.device, 0))

        # What the numbers are is asked about once: while training, a network may look like anything.
        trust_scale = self.trust_scale or len(self.timeline) > 0
        with evaluating(module):
            encodings = from_callable(encode, self.batches, scale_kind=self.scale_kind, trust_scale=trust_scale)
        self.timeline.take(trainer.global_step, encodings)
        row = self.timeline.counts().row(-1, named=True)
        numbers = {f"polarised/{name}": float(row[name]) for name in ("active", "mixed", "passive", "kl")}
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step=trainer.global_step)
