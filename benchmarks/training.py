"""Steps per second of `polarised.training.train` compared with a bare loop, a plain loop and pythae.

The processes take turns, so that other work on the machine affects all of them; one thread is measured in CPU time,
several in wall-clock time:

    ours     train(): channels_last, fused Adam, freed memory kept
    bfloat16 the same with precision="bfloat16"
    bare     the same settings in the shortest possible loop: the cost of the loop itself
    plain    NCHW, default Adam, memory returned at every step, written by hand
    pythae   the network of `plain` as a BetaVAE of pythae, trained by its BaseTrainer with images in memory
             (left out if pythae is not installed)

Run: python benchmarks/training.py [--rounds 8] [--steps 30] [--threads 2]
"""

import argparse
import contextlib
import importlib.util
import io
import multiprocessing
import statistics
import tempfile
import time

BATCH = 64
LATENTS = 10
# Multiply-adds of locatello_conv, forward and twice backward, batch 64, without the input's gradient.
LAYERS = (
    ("conv 1-32", 32 * 32 * 32 * 16 * 1, 2),
    ("conv 32-32", 16 * 16 * 32 * 16 * 32, 3),
    ("conv 32-64", 8 * 8 * 64 * 4 * 32, 3),
    ("conv 64-64", 4 * 4 * 64 * 4 * 64, 3),
    ("dense", 1024 * 256 + 2 * 256 * LATENTS + LATENTS * 256 + 256 * 1024, 3),
    ("deconv 64-64", 4 * 4 * 64 * 16 * 64, 3),
    ("deconv 64-32", 8 * 8 * 64 * 16 * 32, 3),
    ("deconv 32-32", 16 * 16 * 32 * 16 * 32, 3),
    ("deconv 32-1", 32 * 32 * 32 * 16 * 1, 3),
)
FLOP = 2 * BATCH * sum(work * passes for _, work, passes in LAYERS)


def setup(threads):
    import torch

    from polarised.data import dsprites
    from polarised.models import build_vae
    from polarised.objectives import BetaVAE

    torch.set_num_threads(threads)
    return torch, dsprites(), build_vae({"latents": LATENTS}, (1, 64, 64)), BetaVAE(beta=4.0)


def ours(threads, precision="float32"):
    from polarised.training import keep_freed_memory, train

    keep_freed_memory()
    _, data, vae, objective = setup(threads)
    return lambda steps: train(vae, objective, data, steps=steps, precision=precision, progress=False)


def bfloat16(threads):
    return ours(threads, "bfloat16")


def bare(threads):
    from polarised.objectives.step import take_step
    from polarised.training import keep_freed_memory

    keep_freed_memory()
    torch, data, vae, objective = setup(threads)
    vae.to(memory_format=torch.channels_last)
    optimiser = torch.optim.Adam(vae.parameters(), lr=1e-4, fused=True)

    def loop(steps):
        for step in range(steps):
            x = torch.from_numpy(data.batch(step, BATCH, 0).images).to(memory_format=torch.channels_last)
            loss = sum(objective(take_step(vae, x, number=step, dataset_size=len(data))).values())
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()

    return loop


def network():
    """Return encoder, heads and decoder as other libraries write them: NCHW, nothing in place."""
    from torch import nn

    encoder = nn.Sequential(
        *(nn.Conv2d(1, 32, 4, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 4, 2, 1), nn.ReLU()),
        *(nn.Conv2d(32, 64, 2, 2), nn.ReLU(), nn.Conv2d(64, 64, 2, 2), nn.ReLU()),
        *(nn.Flatten(), nn.Linear(1024, 256), nn.ReLU()),
    )
    heads = nn.ModuleList([nn.Linear(256, LATENTS), nn.Linear(256, LATENTS)])
    decoder = nn.Sequential(
        *(nn.Linear(LATENTS, 256), nn.ReLU(), nn.Linear(256, 1024), nn.ReLU(), nn.Unflatten(1, (64, 4, 4))),
        *(nn.ConvTranspose2d(64, 64, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU()),
        *(nn.ConvTranspose2d(32, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 1, 4, 2, 1)),
    )
    return encoder, heads, decoder


def plain(threads):
    """The loop as people write it by hand."""
    torch, data, _, _ = setup(threads)
    encoder, heads, decoder = network()
    parameters = [*encoder.parameters(), *heads.parameters(), *decoder.parameters()]
    optimiser = torch.optim.Adam(parameters, lr=1e-4)
    cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits

    def loop(steps):
        for step in range(steps):
            x = torch.from_numpy(data.batch(step, BATCH, 0).images)
            hidden = encoder(x)
            mean, log_variance = heads[0](hidden), heads[1](hidden)
            z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
            distortion = cross_entropy(decoder(z), x, reduction="none").flatten(1).sum(1).mean()
            rate = -0.5 * (1 + log_variance - mean.pow(2) - log_variance.exp()).sum(1).mean()
            loss = distortion + 4.0 * rate
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            loss.item()

    return loop


def pythae(threads):
    """pythae's own model and trainer; an epoch has as many batches as are asked for."""
    torch, data, _, _ = setup(threads)
    from pythae.data.datasets import BaseDataset
    from pythae.models import BetaVAE, BetaVAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig

    layers, heads, decoder = network()

    class Encoder(BaseEncoder):
        def __init__(self):
            super().__init__()
            self.layers, self.heads = layers, heads

        def forward(self, x):
            hidden = self.layers(x)
            return ModelOutput(embedding=self.heads[0](hidden), log_covariance=self.heads[1](hidden))

    class Decoder(BaseDecoder):
        def __init__(self):
            super().__init__()
            self.layers = decoder

        def forward(self, z):
            return ModelOutput(reconstruction=self.layers(z).sigmoid())

    config = BetaVAEConfig(input_dim=(1, 64, 64), latent_dim=LATENTS, beta=4.0, reconstruction_loss="bce")
    images = torch.from_numpy(data.sample(64 * BATCH, 0).images)

    def drawn(steps):
        rows = torch.arange(steps * BATCH) % len(images)
        return BaseDataset(images[rows], torch.zeros(len(rows)))

    settings = BaseTrainerConfig(
        output_dir=tempfile.mkdtemp(), learning_rate=1e-4, per_device_train_batch_size=BATCH, no_cuda=True
    )
    trainer = BaseTrainer(BetaVAE(config, Encoder(), Decoder()), drawn(1), training_config=settings)
    trainer.prepare_training()

    def loop(steps):
        trainer.train_loader = trainer.get_train_dataloader(drawn(steps))
        with contextlib.redirect_stderr(io.StringIO()):
            trainer.train_step(1)

    return loop


def serve(kind, threads, connection):
    loop = {"ours": ours, "bfloat16": bfloat16, "bare": bare, "plain": plain, "pythae": pythae}[kind](threads)
    loop(5)
    connection.send("ready")
    now = clock(threads)
    while steps := connection.recv():
        start = now()
        loop(steps)
        connection.send(steps / (now() - start))


def clock(threads):
    """CPU time for one thread, which other work on the machine lengthens little; wall-clock time for several."""
    return time.process_time if threads == 1 else time.perf_counter


def matrix_peak(threads):
    """Best GFLOP/s of a 2048-cubed float32 matrix product."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    best, now = 0.0, clock(threads)
    for _ in range(12):
        start = now()
        a @ b
        best = max(best, 2 * 2048**3 / (now() - start) / 1e9)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    workers = {}
    installed = importlib.util.find_spec("pythae") is not None
    for kind in ("plain", *(["pythae"] if installed else []), "bare", "ours", "bfloat16"):
        here, there = context.Pipe()
        context.Process(target=serve, args=(kind, options.threads, there), daemon=True).start()
        here.recv()
        workers[kind] = here
    rates = {kind: [] for kind in workers}
    for _ in range(options.rounds):
        for kind, connection in workers.items():
            connection.send(options.steps)
            rates[kind].append(connection.recv())
    for connection in workers.values():
        connection.send(0)
    medians = {kind: statistics.median(values) for kind, values in rates.items()}
    for kind, median in medians.items():
        print(f"{kind:8s} {median:6.1f} steps/s   (best {max(rates[kind]):.1f})")
    if not installed:
        print("pythae is not installed: pip install --no-deps pythae")
    goals = [("ours", "bare", 0.97), ("ours", "plain", 1.5), ("bfloat16", "plain", 1.5)]
    goals += [("ours", "pythae", 1.5), ("bfloat16", "pythae", 1.5)] if installed else []
    missed = []
    for kind, other, goal in goals:
        ratio = statistics.median(a / b for a, b in zip(rates[kind], rates[other], strict=True))
        missed += [f"{kind} / {other}"] if ratio < goal else []
        print(f"{kind} / {other}  {ratio:.2f}   (goal {goal})")
    peak = matrix_peak(options.threads)
    reached = max(rates["ours"]) * FLOP / 1e9 / peak
    print(f"matrix-multiply peak {peak:.0f} GFLOP/s; ours reaches {reached:.2f} of it (goal 0.45)")
    missed += ["of the peak"] if reached < 0.45 else []
    if missed:
        raise SystemExit(f"short of the goal: {', '.join(missed)}")


if __name__ == "__main__":
    main()
