"""Examples of public names whose docstrings have none: what functions return, errors, and what needs files.

One example may show several names; the page of the interface prints it under each, and a test runs all of them.
"""

_CODES = """
>>> import numpy as np
>>> import polarised as po
>>> draw = np.random.default_rng(0)
>>> factors = draw.integers([3, 4], size=(600, 2))
>>> codes = factors + 0.01 * draw.normal(size=(600, 2))
"""
_STUDY = """
>>> import tempfile
>>> import polarised as po
>>> folder = tempfile.mkdtemp()
>>> settings = ["training.steps=20"]
>>> outcome = po.study.run("learning_dynamics", scale="smoke", settings=settings, out=folder, progress=False)
>>> outcome.done, outcome.failed
(1, 0)
"""
_FILES = """
>>> import polarised as po
>>> about = next(each for each in po.data.describe() if each.name == "{name}")
>>> about.images, about.shape
({images}, {shape})
>>> data = po.data.{name}()          # after: polarised datasets prepare {name}  # doctest: +SKIP
"""

EXAMPLES: dict[tuple[str, ...], str] = {
    ("MissingFileError",): """
>>> import polarised as po
>>> try:
...     po.diagnose("nowhere.npz")
... except po.MissingFileError as error:
...     print(str(error).split(",")[1].strip())
a file of arrays or a model
""",
    ("PolarisedError", "ConfigError", "DataError", "DownloadError"): """
>>> import numpy as np
>>> import polarised as po
>>> try:
...     po.Encodings(np.zeros((10, 2)), variance=-np.ones((10, 2)))
... except po.PolarisedError as error:
...     print(type(error).__name__)
DataError
""",
    ("Diagnosis", "Regime"): """
>>> import numpy as np
>>> import polarised as po
>>> mean = np.random.default_rng(0).normal(size=(2000, 2)) * [1.0, 0.05]
>>> diagnosis = po.diagnose(po.Encodings(mean, variance=np.tile([0.02, 0.99], (2000, 1))))
>>> diagnosis.headline
'1 of 2 latent variables is active, none mixed, 1 passive.'
>>> diagnosis.regime.types, diagnosis.regime.passive
(('active', 'passive'), [1])
""",
    ("Cure",): """
>>> import polarised as po
>>> config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 2, "likelihood": "Gaussian"}
>>> data = po.data.linear_gaussian(points=400)
>>> found = po.cure(po.build_vae(config, (8,)), data, variance=20.0, steps=40)
>>> found.cause, found.to_dict()["cause"]
('spectrum', 'spectrum')
""",
    ("Forecast",): """
>>> import numpy as np
>>> import polarised as po
>>> data = np.random.default_rng(0).normal(size=(500, 4)) * [4.0, 2.0, 0.5, 0.1]
>>> expected = po.forecast(data, variance=1.0, latents=4)
>>> expected.case, expected.alive, expected.at(variance=0.01).alive
('linear', 2, 3)
""",
    ("demo", "Demonstration"): """
>>> import polarised as po
>>> shown = po.demo("runs", steps=1600)  # doctest: +SKIP
>>> print(shown.to_dict()["headline"])  # doctest: +SKIP
""",
    ("load_vae",): """
>>> import tempfile
>>> import polarised as po
>>> config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 4}
>>> file = po.save_vae(po.build_vae(config, (1, 8, 8)), f"{tempfile.mkdtemp()}/model.safetensors", config=config)
>>> po.load_vae(file).latents
4
""",
    ("PruningReport",): """
>>> import numpy as np
>>> import polarised as po
>>> from polarised.pruning import pruning_report
>>> vae = po.build_vae({"architecture": "mlp", "latents": 4}, (1, 16, 16))
>>> report = pruning_report(vae, po.prune(vae, [0, 3]), np.zeros((2, 1, 16, 16)), keep=[0, 3])
>>> report.dropped, report.encodings < 1e-6
((1, 2), True)
""",
    ("Description",): """
>>> import polarised as po
>>> about = next(each for each in po.data.describe() if each.name == "dsprites")
>>> about.images, about.shape, about.ready
(737280, (1, 64, 64), True)
""",
    ("cars3d",): _FILES.format(name="cars3d", images="17568", shape="(3, 64, 64)"),
    ("celeba",): _FILES.format(name="celeba", images="202599", shape="(3, 64, 64)"),
    ("fashion_mnist",): _FILES.format(name="fashion_mnist", images="60000", shape="(1, 32, 32)"),
    ("mnist",): _FILES.format(name="mnist", images="60000", shape="(1, 32, 32)"),
    ("shapes3d",): _FILES.format(name="shapes3d", images="480000", shape="(3, 64, 64)"),
    ("smallnorb",): _FILES.format(name="smallnorb", images="48600", shape="(1, 64, 64)"),
    ("from_folder",): """
>>> import tempfile
>>> from PIL import Image
>>> import polarised as po
>>> folder = tempfile.mkdtemp()
>>> for i in range(3):
...     Image.new("L", (20, 20), i).save(f"{folder}/{i}.png")
>>> data = po.data.from_folder(path=folder, size=16, channels=1)
>>> len(data), data.shape
(3, (1, 16, 16))
""",
    ("LinearOptimum",): """
>>> import polarised as po
>>> best = po.data.probabilistic_pca((8.0, 2.0, 0.5), latents=4, noise_variance=1.0)
>>> best.variance
array([0.125, 0.5  , 1.   , 1.   ])
""",
    ("Objective", "Step"): """
>>> from dataclasses import dataclass
>>> from polarised.objectives import Objective, Step
>>> from polarised.objectives.terms import distortion, rate
>>> @dataclass(frozen=True, kw_only=True)
... class Mine(Objective):
...     weight: float = 2.0
...
...     def __call__(self, step: Step):
...         return {"distortion": distortion(step), "rate": self.weight * rate(step)}
>>> Mine(weight=3.0)
Mine(weight=3.0)
""",
    ("History", "Hook", "keep_freed_memory"): """
>>> import polarised as po
>>> from polarised.training import keep_freed_memory
>>> kept = keep_freed_memory()      # whether this system lets it
>>> data = po.data.dsprites(size=32)
>>> vae = po.build_vae({"architecture": {"name": "mlp", "widths": [16]}, "latents": 2}, data.shape)
>>> history = po.train(vae, po.objectives.BetaVAE(beta=4.0), data, steps=3, batch_size=8, progress=False)
>>> "rate" in history.table().columns
True
""",
    ("Target",): """
>>> import tempfile
>>> import numpy as np
>>> import polarised as po
>>> file = f"{tempfile.mkdtemp()}/codes.npz"
>>> np.savez(file, mean=np.zeros((10, 2)), variance=np.ones((10, 2)))
>>> target = po.adapters.open_target(file)
>>> type(target).__name__
'Target'
""",
    ("Estimate",): _CODES
    + """
>>> estimate = po.metrics.total_correlation(codes, errors=True)
>>> estimate.error < 0.01
True
""",
    ("DCI", "SAP", "Explicitness", "InfoMEC", "IRS", "MCC"): _CODES
    + """
>>> po.metrics.dci(codes, factors).informativeness
1.0
>>> round(po.metrics.mcc(codes, factors).score, 2)
1.0
""",
    ("Downstream", "Prediction"): _CODES
    + """
>>> po.metrics.logistic_regression(codes, factors, strengths=(1.0,)).accuracy > 0.5
True
""",
    ("FactorVAEScore", "BetaVAEScore", "Represent"): """
>>> import numpy as np
>>> import polarised as po
>>> grid = np.indices((3, 4)).reshape(2, -1).T
>>> represent, sizes = po.metrics.represent_by_lookup(grid + 0.5, grid)
>>> po.metrics.factor_vae_score(represent, sizes, train_votes=100, test_votes=100).score
1.0
""",
    ("StudyOutcome", "StudyStatus", "collect", "execute", "load_run", "retry", "status", "verify"): _STUDY
    + """
>>> po.study.status(folder).counts["done"]
1
>>> po.study.collect(folder).name
'results.parquet'
>>> po.study.retry(folder, progress=False).done
1
>>> run = po.study.load_run(next(each for each in __import__("pathlib").Path(folder).iterdir() if each.is_dir()))
>>> run.training.steps
20
>>> verification = po.study.verify(folder)
""",
    ("plan",): """
>>> import polarised as po
>>> expected = po.study.plan("learning_dynamics", scale="smoke")  # doctest: +SKIP
""",
    ("Record", "Output"): """
>>> from polarised.registry import record
>>> entry = record("metric", "mig")
>>> entry.title, entry.reference_keys[0]
('MIG', 'Chen2018')
""",
}


def example_of(name: str) -> str:
    """The example that shows a name, or nothing."""
    return next((text.strip() for names, text in EXAMPLES.items() if name in names), "")
