import numpy as np
import torch

from polarised.adapters.published import as_torch

GENERATOR = np.random.default_rng(0)
HEIGHT, WIDTH, CHANNELS = IMAGE = (3, 2, 4)


def test_dense_layers_read_and_draw_the_same_image():
    image, code = GENERATOR.normal(size=IMAGE), GENERATOR.normal(size=5)
    reading, drawing = GENERATOR.normal(size=(24, 5)), GENERATOR.normal(size=(5, 24))
    bias = GENERATOR.normal(size=24)
    variables = {"r/kernel": reading, "d/kernel": drawing, "d/bias": bias}
    layers = {k: v.double() for k, v in as_torch(variables, image=IMAGE, reading="r", drawing="d").items()}
    first = torch.from_numpy(image.transpose(2, 0, 1).ravel())
    np.testing.assert_allclose(layers["r.weight"] @ first, image.ravel() @ reading, rtol=1e-5, atol=1e-6)
    drawn = (layers["d.weight"] @ torch.from_numpy(code) + layers["d.bias"]).reshape(CHANNELS, HEIGHT, WIDTH)
    expected = (code @ drawing + bias).reshape(IMAGE).transpose(2, 0, 1)
    np.testing.assert_allclose(drawn, expected, rtol=1e-5, atol=1e-6)


def test_a_convolution_is_the_convolution():
    kernel, image = GENERATOR.normal(size=(2, 3, CHANNELS, 5)), GENERATOR.normal(size=(4, 6, CHANNELS))
    weight = as_torch({"c/kernel": kernel}, image=IMAGE, reading="", drawing="")["c.weight"].double()
    found = torch.nn.functional.conv2d(torch.from_numpy(image.transpose(2, 0, 1))[None], weight)[0]
    patch = image[1:3, 2:5]
    np.testing.assert_allclose(found[:, 1, 2], np.einsum("hwc,hwco->o", patch, kernel), rtol=1e-5)
