"""Mistakes with recording and devices: values read too early, devices that meet, and use after the end."""

from __future__ import annotations

from tests.mistakes.mistake import mistake
from vkgrad.errors import (
    ArgumentError,
    ConfigError,
    DifferentiationError,
    DTypeError,
    NoDeviceError,
    NoValueError,
    OptionError,
    ShapeError,
    UnsupportedError,
    VkgradError,
)

MISTAKES = [
    # ---- recording
    mistake(
        "if on a value inside jit",
        """
        @vg.jit
        def step(x):
            if x.sum() > 0:  # <-
                return x
            return -x

        step(vg.ones((3,)))
        """,
        NoValueError,
        ("bool()", "vg.jit"),
        "vg.where",
    ),
    mistake(
        "NumPy inside jit",
        """
        @vg.jit
        def step(x):
            return np.log(x.numpy())  # <-

        step(vg.ones((3,)))
        """,
        NoValueError,
        ("numpy()", "vg.jit"),
        "after the call",
    ),
    mistake(
        "NumPy's function inside jit",
        """
        @vg.jit
        def step(x):
            return np.sort(x)  # <-

        step(vg.ones((3,)))
        """,
        NoValueError,
        "vg.jit",
        "vg.",
    ),
    mistake(
        "loss printed inside jit",
        """
        @vg.jit
        def step(x):
            loss = (x * x).sum()
            print(f"loss {loss.item():.3f}")  # <-
            return loss

        step(vg.ones((3,)))
        """,
        NoValueError,
        ("item()", "vg.jit"),
        "after the call",
    ),
    mistake(
        "print of a tensor inside jit",
        """
        @vg.jit
        def step(x):
            print(x)  # <-
            return x

        step(vg.ones((3,)))
        """,
        NoValueError,
        "vg.jit",
        "after the call",
    ),
    mistake(
        "loop over a value inside jit",
        """
        @vg.jit
        def power(x, count):
            for _ in range(count):  # <-
                x = x * x
            return x

        power(vg.ones((3,)), vg.tensor(3))
        """,
        NoValueError,
        "vg.jit",
        "Python number",
    ),
    mistake(
        "mask inside jit",
        """
        @vg.jit
        def positive(x):
            return x[x > 0]  # <-

        positive(vg.ones((3,)))
        """,
        NoValueError,
        "vg.jit",
        "vg.where",
    ),
    mistake(
        "assignment to an argument inside jit",
        """
        @vg.jit
        def step(w):
            w.assign(w - 0.1)
            return w

        step(vg.ones((3,)))  # <-
        """,
        VkgradError,
        ("jit", "argument"),
        "return the new value",
    ),
    mistake(
        "tensor kept from inside jit",
        """
        kept = []

        @vg.jit
        def step(x):
            y = x * 2
            kept.append(y)
            return y.sum()

        step(vg.ones((3,)))
        kept[0].numpy()  # <-
        """,
        NoValueError,
        "vg.jit",
        "return it",
    ),
    mistake(
        "jit of a result",
        """
        model = nn.Linear(4, 3)
        vg.jit(model(vg.zeros((1, 4))))  # <-
        """,
        ArgumentError,
        ("jit", "Tensor"),
        "function",
    ),
    mistake(
        "wrong shape inside jit",
        """
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(6, 2))

        @vg.jit
        def predict(x):
            return model(x)  # <-

        predict(np.zeros((5, 4), np.float32))
        """,
        ShapeError,
        ("Sequential.1 (Linear)", "(5, 8)", "6"),
        "Linear(8, 2)",
        then="assert vg.jit(lambda x: model[0](x))(np.zeros((5, 4), np.float32)).shape == (5, 8)",
    ),
    mistake(
        "strange argument inside jit",
        """
        step = vg.jit(lambda x: x + 1)
        step(np.array(["a"]))  # <-
        """,
        DTypeError,
        "jit",
        ".astype(",
    ),
    # ---- devices
    mistake(
        "device that is not there",
        """
        vg.set_device("cuda:0")  # <-
        """,
        NoDeviceError,
        "'cuda:0'",
        "'cpu'",
    ),
    mistake(
        "tensor on a device that is not there",
        """
        vg.zeros((3,), device="gpu9")  # <-
        """,
        NoDeviceError,
        "'gpu9'",
        "'cpu'",
    ),
    mistake(
        "policy misspelled",
        """
        with vg.host_policy("rais"):  # <-
            pass
        """,
        ConfigError,
        ("VKGRAD_HOST", "'rais'"),
        "raise",
    ),
    mistake(
        "listener after its end",
        """
        x, y = np.zeros((8, 4), np.float32), np.zeros((8, 3), np.float32)
        model = nn.Linear(4, 3)
        loader = vg.data.DataLoader(x, y, batch_size=4)
        board = vg.TensorBoard(folder / "runs")
        board.close()
        vg.fit(model, optim.SGD(model, lr=0.1), nn.mse_loss, loader, epochs=1, listeners=[board])  # <-
        """,
        OptionError,
        ("TensorBoard", "closed"),
        "make another",
    ),
    mistake(
        "thing that is no device",
        """
        vg.ones((3,), device=vg.float32)  # <-
        """,
        NoDeviceError,
        "vkgrad.float32",
        "vg.devices()",
    ),
]

# Those that need a Vulkan device beside the one that is always there.
BETWEEN_DEVICES = [
    mistake(
        "tensors of two devices",
        """
        here = vg.asarray([1.0, 2.0], device=vg.devices()[0])
        there = vg.asarray([1.0, 2.0], device="cpu")
        here + there  # <-
        """,
        VkgradError,
        ("different devices", "cpu"),
        "to_device",
        then="assert (here.to_device('cpu') + there).tolist() == [2.0, 4.0]",
    ),
    mistake(
        "tensors of two devices, behind other operations",
        """
        here = vg.asarray([1.0, 2.0], device=vg.devices()[0]) * 2
        there = vg.exp(vg.asarray([1.0, 2.0], device="cpu")).sum()
        more = here * vg.ones((2,))
        more @ there.broadcast_to((2,))  # <-
        """,
        VkgradError,
        ("different devices", "cpu"),
        "to_device",
        then="assert more.tolist() == [2.0, 4.0]",
    ),
    mistake(
        "model of one device, data of another",
        """
        model = nn.Sequential(nn.Linear(4, 3))
        vg.eval(list(model.parameters()))
        other = next(name for name in vg.devices() if name != model[0].weight.device.name)
        model(vg.asarray(np.ones((2, 4), np.float32), device=other))  # <-
        """,
        VkgradError,
        ("Sequential.0 (Linear)", "different devices"),
        "to_device",
    ),
    mistake(
        "tensors of two devices inside jit",
        """
        here = vg.asarray([1.0, 2.0], device=vg.devices()[0])
        there = vg.asarray([1.0, 2.0], device="cpu")
        vg.eval(here, there)
        step = vg.jit(lambda x, y: x + y)
        step(here, there)  # <-
        """,
        VkgradError,
        ("jit", "different devices"),
        "to_device",
    ),
    mistake(
        "gradient between devices",
        """
        w = vg.tensor([1.0, 2.0], requires_grad=True)
        w.to_device(next(name for name in vg.devices() if name != w.device.name))  # <-
        """,
        DifferentiationError,
        "to_device",
        "detach()",
    ),
    mistake(
        "type that the device lacks",
        """
        from vkgrad.config import config

        with config.override(device=vg.devices()[0], f64=False):
            vg.exp(vg.tensor(np.ones(3)))  # <-
        """,
        UnsupportedError,
        ("float64", "VKGRAD_F64=0"),
        (".astype(vg.float32)", "VKGRAD_HOST=allow"),
    ),
    mistake(
        "NumPy's doubles into a model, on a device without",
        """
        from vkgrad.config import config

        with config.override(device=vg.devices()[0], f64=False):
            model = nn.Sequential(nn.Linear(4, 2))
            model(np.ones((3, 4)))  # <-
        """,
        UnsupportedError,
        ("Sequential.0 (Linear)", "float64"),
        ".astype(vg.float32)",
        longest=360,
    ),
]
