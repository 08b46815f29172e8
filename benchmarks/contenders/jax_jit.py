"""JAX with the whole step under `jax.jit`, the parameters donated."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from benchmarks.contenders.contender import serve
from vkgrad.bench import cases
from vkgrad.bench.contender import Contender

jax.config.update("jax_default_matmul_precision", "highest")  # float32, not TF32


def dense(weight: jax.Array, bias: jax.Array, x: jax.Array) -> jax.Array:
    return x @ weight.T + bias


def convolution(weight: jax.Array, bias: jax.Array, x: jax.Array, padding: int) -> jax.Array:
    around = [(padding, padding)] * 2
    return jax.lax.conv_general_dilated(x, weight, (1, 1), around) + bias[:, None, None]


def pool(x: jax.Array) -> jax.Array:
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def mlp(p: list[jax.Array], x: jax.Array) -> jax.Array:
    return dense(p[2], p[3], jax.nn.relu(dense(p[0], p[1], x)))


def lenet(p: list[jax.Array], x: jax.Array) -> jax.Array:
    x = pool(jax.nn.relu(convolution(p[0], p[1], x, 2)))
    x = pool(jax.nn.relu(convolution(p[2], p[3], x, 0))).reshape(x.shape[0], -1)
    x = jax.nn.relu(dense(p[4], p[5], x))
    x = jax.nn.relu(dense(p[6], p[7], x))
    return dense(p[8], p[9], x)


MODELS = {"mlp": mlp, "lenet": lenet}


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def train(name: str, parameters: list[jax.Array], images: jax.Array, labels: jax.Array) -> tuple:
    def loss_of(parameters: list[jax.Array]) -> jax.Array:
        logarithm = jax.nn.log_softmax(MODELS[name](parameters, images))
        return -jnp.take_along_axis(logarithm, labels[:, None], 1).mean()

    loss, gradients = jax.value_and_grad(loss_of)(parameters)
    return [p - cases.LEARNING_RATE * g for p, g in zip(parameters, gradients, strict=True)], loss


class JaxJit(Contender):
    def __init__(self, case: cases.Case, data: cases.Data) -> None:
        self.name = case.model
        self.parameters = [jnp.array(weight) for weight in data.weights]
        self.batches = list(zip(data.images, data.labels, strict=True))
        self.images, self.labels = jnp.array(data.images[0]), jnp.array(data.labels[0])
        self.last = jnp.zeros(())
        self.device = jax.devices()[0].device_kind
        self.versions = {"jax": jax.__version__}

    def step(self) -> None:
        self.parameters, self.last = train(self.name, self.parameters, self.images, self.labels)

    def feed(self, number: int) -> None:
        self.parameters, self.last = train(self.name, self.parameters, *self.batches[number])

    def loss(self) -> float:
        return float(self.last)

    def wait(self) -> None:
        jax.block_until_ready((self.parameters, self.last))


if __name__ == "__main__":
    serve(JaxJit)
