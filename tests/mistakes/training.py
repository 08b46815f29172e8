"""Mistakes in a training loop: losses, gradients, optimisers, schedules and transforms."""

from __future__ import annotations

from tests.mistakes.mistake import mistake
from vkgrad.errors import (
    ArgumentError,
    DataError,
    DifferentiationError,
    DTypeError,
    NonFiniteError,
    NoValueError,
    OptionError,
    ShapeError,
)

MISTAKES = [
    # ---- losses
    mistake(
        "one-hot integers as labels",
        """
        logits = vg.zeros((4, 3))
        labels = np.eye(3, dtype=np.int32)[[0, 1, 2, 0]]
        nn.cross_entropy(logits, labels)  # <-
        """,
        ShapeError,
        ("cross_entropy", "(4, 3)", "(4,)"),
        "argmax",
    ),
    mistake(
        "labels as floats",
        """
        nn.cross_entropy(vg.zeros((4, 3)), vg.tensor([0.0, 1.0, 2.0, 0.0]))  # <-
        """,
        DTypeError,
        ("cross_entropy", "float32"),
        ".astype(vg.int32)",
    ),
    mistake(
        "labels from 1",
        """
        labels = np.array([1, 2, 3, 1])
        nn.cross_entropy(vg.zeros((4, 3)), labels)  # <-
        """,
        ShapeError,
        ("cross_entropy", "label 3", "[2]"),
        ("0 to 2", "ignore_index"),
    ),
    mistake(
        "labels from 1, as a tensor",
        """
        labels = vg.tensor([1, 2, 3, 1])
        nn.cross_entropy(vg.zeros((4, 3)), labels)  # <-
        """,
        ShapeError,
        ("cross_entropy", "label 3", "[2]"),
        ("0 to 2", "ignore_index"),
    ),
    mistake(
        "labels from 1, in a loss layer",
        """
        criterion = nn.CrossEntropyLoss()
        criterion(vg.zeros((4, 3)), vg.tensor([1, 2, 3, 1]))  # <-
        """,
        ShapeError,
        ("CrossEntropyLoss", "label 3"),
        "0 to 2",
    ),
    mistake(
        "labels of another batch",
        """
        nn.cross_entropy(vg.zeros((4, 3)), np.array([0, 1, 2]))  # <-
        """,
        ShapeError,
        ("cross_entropy", "(4, 3)", "(3,)"),
        "(4,)",
    ),
    mistake(
        "target without the column",
        """
        prediction = vg.zeros((8, 1))
        nn.mse_loss(prediction, np.zeros(8, np.float32))  # <-
        """,
        ShapeError,
        ("mse_loss", "(8, 1)", "(8,)"),
        "target[:, None]",
    ),
    mistake(
        "logits as probabilities",
        """
        nn.functional.binary_cross_entropy(vg.tensor([2.5, -1.0]), np.array([1.0, 0.0], np.float32))  # <-
        """,
        OptionError,
        ("binary_cross_entropy", "2.5"),
        "binary_cross_entropy_with_logits",
    ),
    mistake(
        "reduction misspelled",
        """
        nn.mse_loss(vg.zeros((3,)), vg.zeros((3,)), reduction="avg")  # <-
        """,
        OptionError,
        ("mse_loss", "reduction", "'avg'"),
        '"mean"',
    ),
    mistake(
        "logits of integers",
        """
        nn.cross_entropy(vg.tensor([[1, 2, 3]]), [0])  # <-
        """,
        DTypeError,
        ("cross_entropy", "int32"),
        ".astype(",
    ),
    # ---- gradients
    mistake(
        "gradient of many numbers",
        """
        vg.grad(lambda x: x * x)(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("grad", "float32[3]"),
        ("sum", "vg.jacobian"),
    ),
    mistake(
        "gradient by integers",
        """
        vg.grad(lambda x: (x * x).sum())(vg.tensor([1, 2, 3]))  # <-
        """,
        DifferentiationError,
        ("grad", "argument 0", "int32"),
        ".astype(vg.float32)",
    ),
    mistake(
        "number out of a loss",
        """
        def loss(w):
            return float((w * w).sum())

        vg.grad(loss)(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("grad", "float"),
        "return the tensor",
    ),
    mistake(
        "loss forgotten",
        """
        def loss(w):
            (w * w).sum()

        vg.grad(loss)(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("grad", "None"),
        "return",
    ),
    mistake(
        "metrics beside the loss",
        """
        def loss(w):
            value = (w * w).sum()
            return value, {"loss": value}

        vg.value_and_grad(loss)(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("value_and_grad", "tuple"),
        "has_aux=True",
    ),
    mistake(
        "argument that there is not",
        """
        vg.grad(lambda w: w.sum(), argnums=1)(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("grad", "argnums", "1"),
        "0",
    ),
    mistake(
        "backward from many numbers",
        """
        w = vg.tensor([1.0, 2.0], requires_grad=True)
        (w * w).backward()  # <-
        """,
        DifferentiationError,
        ("backward", "(2,)"),
        ("reduce it", "gradient="),
    ),
    mistake(
        "backward without parameters",
        """
        x = vg.ones((3,))
        x.sum().backward()  # <-
        """,
        DifferentiationError,
        "backward",
        "requires_grad",
    ),
    mistake(
        "backward twice",
        """
        w = vg.tensor([1.0, 2.0], requires_grad=True)
        loss = (w * w).sum()
        loss.backward()
        loss.backward()  # <-
        """,
        DifferentiationError,
        "backward",
        "retain_graph=True",
        then="assert w.grad.tolist() == [2.0, 4.0]",
    ),
    mistake(
        "integers that ask for a gradient",
        """
        vg.tensor([1, 2, 3], requires_grad=True)  # <-
        """,
        DifferentiationError,
        ("requires_grad", "int32"),
        "float",
    ),
    mistake(
        "tangent of another shape",
        """
        vg.jvp(vg.sin, (vg.ones((3,)),), (vg.ones((4,)),))  # <-
        """,
        ShapeError,
        ("jvp", "(4,)"),
        "(3,)",
    ),
    mistake(
        "cotangents of another nesting",
        """
        value, pull = vg.vjp(lambda x: {"y": x * 2}, vg.ones((3,)))
        pull(vg.ones((3,)))  # <-
        """,
        DifferentiationError,
        ("vjp", "cotangents"),
        "{'y'",
    ),
    mistake(
        "mapped extents that differ",
        """
        vg.vmap(lambda x, y: x @ y)(vg.ones((4, 3)), vg.ones((5, 3)))  # <-
        """,
        ShapeError,
        ("vmap", "4", "5"),
        "in_axes",
    ),
    mistake(
        "nothing to map",
        """
        vg.vmap(lambda x: x * 2, in_axes=None)(vg.ones((4, 3)))  # <-
        """,
        ShapeError,
        "vmap",
        "in_axes",
    ),
    mistake(
        "number to map over",
        """
        vg.vmap(lambda w, x: w * x)(vg.tensor(2.0), vg.ones((4,)))  # <-
        """,
        ShapeError,
        ("vmap", "argument [0]", "()"),
        "in_axes=None",
    ),
    mistake(
        "if inside vmap",
        """
        def relu(x):
            return x if x > 0 else 0 * x  # <-

        vg.vmap(relu)(vg.ones((4,)))
        """,
        NoValueError,
        "vg.vmap",
        "where",
    ),
    # ---- optimisers
    mistake(
        "optimiser of nothing",
        """
        optim.SGD([], lr=0.1)  # <-
        """,
        OptionError,
        ("SGD", "no parameter"),
        "pass a module",
    ),
    mistake(
        "generator of parameters used twice",
        """
        model = nn.Linear(4, 3)
        parameters = model.parameters()
        count = sum(p.size for p in parameters)
        optim.Adam(parameters, lr=0.1)  # <-
        """,
        OptionError,
        ("Adam", "no parameter"),
        "pass a module",
    ),
    mistake(
        "parameters not called",
        """
        model = nn.Linear(4, 3)
        optim.Adam(model.parameters, lr=0.1)  # <-
        """,
        ArgumentError,
        ("Adam", "method"),
        "parameters()",
    ),
    mistake(
        "optimiser of a loss",
        """
        optim.SGD(nn.CrossEntropyLoss(), lr=0.1)  # <-
        """,
        OptionError,
        ("SGD", "no parameter"),
        "pass a module",
    ),
    mistake(
        "rate as text",
        """
        optim.SGD(nn.Linear(4, 3), lr="1e-3")  # <-
        """,
        ArgumentError,
        ("SGD", "lr", "'1e-3'"),
        "number",
    ),
    mistake(
        "negative rate",
        """
        optim.Adam(nn.Linear(4, 3), lr=-0.1)  # <-
        """,
        OptionError,
        ("Adam", "lr", "-0.1"),
        "at least 0",
    ),
    mistake(
        "option misspelled",
        """
        optim.SGD(nn.Linear(4, 3), lr=0.1, momentun=0.9)  # <-
        """,
        TypeError,
        ("SGD", "'momentun'"),
        "did you mean 'momentum'",
    ),
    mistake(
        "betas beyond 1",
        """
        optim.Adam(nn.Linear(4, 3), lr=0.1, betas=(9.0, 0.999))  # <-
        """,
        OptionError,
        ("Adam", "betas", "9.0"),
        "below 1",
    ),
    mistake(
        "step without backward",
        """
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model, lr=0.1)
        loss = nn.mse_loss(model(vg.zeros((2, 4))), vg.zeros((2, 3)))
        optimizer.step()  # <-
        """,
        DifferentiationError,
        "step",
        "backward()",
    ),
    mistake(
        "gradients of another nesting",
        """
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model, lr=0.1)
        optimizer.update(model, {"weight": vg.zeros((3, 4))})  # <-
        """,
        ShapeError,
        ("update", "bias"),
        "grad",
    ),
    mistake(
        "gradients of another shape",
        """
        w = vg.ones((3,))
        optim.SGD(w, lr=0.1).update(w, vg.ones((4,)))  # <-
        """,
        ShapeError,
        ("update", "(3,)", "(4,)"),
        "grad",
    ),
    mistake(
        "optimiser of another model",
        """
        model, other = nn.Linear(4, 3), nn.Linear(4, 3)
        optimizer = optim.SGD(other, lr=0.1)
        gradients = vg.grad(lambda m: m(vg.ones((2, 4))).sum())(model)
        optimizer.update(model, gradients)  # <-
        """,
        ShapeError,
        ("update", "weight", "(3, 4)"),
        "made with",
    ),
    mistake(
        "value and gradients not taken apart",
        """
        model = nn.Linear(4, 3)
        optimizer = optim.SGD(model, lr=0.1)
        result = vg.value_and_grad(lambda m: m(vg.ones((2, 4))).sum())(model)
        optimizer.update(model, result)  # <-
        """,
        ShapeError,
        ("update", "weight"),
        "value, gradients =",
    ),
    mistake(
        "schedule of no steps",
        """
        optimizer = optim.SGD(nn.Linear(4, 3), lr=0.1)
        optim.StepLR(optimizer, step_size=0)  # <-
        """,
        OptionError,
        ("StepLR", "step_size", "0"),
        "at least 1",
    ),
    mistake(
        "schedule of a model",
        """
        model = nn.Linear(4, 3)
        optim.StepLR(model, step_size=10)  # <-
        """,
        ArgumentError,
        ("StepLR", "Linear"),
        "optimiser",
    ),
    mistake(
        "cycle without its length",
        """
        optimizer = optim.SGD(nn.Linear(4, 3), lr=0.1)
        optim.OneCycleLR(optimizer, max_lr=0.1)  # <-
        """,
        OptionError,
        ("OneCycleLR", "total_steps"),
        "epochs",
    ),
    mistake(
        "norm to clip to below 0",
        """
        vg.optim.clip_grad_norm({"w": vg.ones((3,))}, -1.0)  # <-
        """,
        OptionError,
        ("clip_grad_norm", "-1.0"),
        "at least 0",
    ),
    mistake(
        "autocast to a type that is no half",
        """
        with vg.autocast(vg.int8):  # <-
            pass
        """,
        DTypeError,
        ("autocast", "int8"),
        "float16 or bfloat16",
    ),
    # ---- fit
    mistake(
        "arrays instead of a loader",
        """
        x, y = np.zeros((8, 4), np.float32), np.zeros((8, 3), np.float32)
        model = nn.Linear(4, 3)
        vg.fit(model, optim.SGD(model, lr=0.1), nn.mse_loss, (x, y), epochs=1)  # <-
        """,
        OptionError,
        ("fit", "tuple"),
        "vg.data.DataLoader",
    ),
    mistake(
        "loss that is no number any more",
        """
        x, y = np.ones((8, 4), np.float32), np.ones((8, 3), np.float32)
        model = nn.Linear(4, 3)
        loader = vg.data.DataLoader(x, y, batch_size=4)
        vg.fit(model, optim.SGD(model, lr=1e30), nn.mse_loss, loader, epochs=3)  # <-
        """,
        NonFiniteError,
        ("fit", "loss", "epoch"),
        ("learning rate", "vg.detect_anomaly"),
    ),
    mistake(
        "logarithm of nothing, found",
        """
        class Surprise(nn.Module):
            def forward(self, p):
                return -vg.log(p)

        model = nn.Sequential(nn.ReLU(), Surprise())
        with vg.detect_anomaly():
            model(vg.tensor([0.5, -1.0]))  # <-
        """,
        NonFiniteError,
        ("Sequential.1 (Surprise)", "inf", "(2,)"),
        "input is finite",
    ),
    mistake(
        "gradient that is no number, found",
        """
        model = nn.Linear(2, 1)
        with vg.detect_anomaly():
            vg.grad(lambda m: vg.sqrt(0 * m(vg.ones((1, 2)))).sum())(model)  # <-
        """,
        NonFiniteError,
        ("gradient", "weight", "nan"),
        "finite",
    ),
    mistake(
        "loss called with one argument",
        """
        loader = vg.data.DataLoader(np.zeros((8, 4), np.float32), batch_size=4)
        model = nn.Linear(4, 3)
        vg.fit(model, optim.SGD(model, lr=0.1), nn.mse_loss, loader, epochs=1)  # <-
        """,
        DataError,
        ("fit", "1"),
        "(x, y)",
    ),
    mistake(
        "optimiser by its name",
        """
        loader = vg.data.DataLoader(np.zeros((8, 4), np.float32), np.zeros(8, np.int32), batch_size=4)
        vg.fit(nn.Linear(4, 3), "adam", nn.cross_entropy, loader, epochs=1)  # <-
        """,
        ArgumentError,
        ("fit", "a str"),
        "vg.optim.Adam(model)",
    ),
    mistake(
        "function looked for among the layers",
        """
        nn.max_pool2d(vg.ones((1, 1, 4, 4)), 2)  # <-
        """,
        AttributeError,
        ("vkgrad.nn", "max_pool2d"),
        "vg.nn.functional.max_pool2d",
    ),
    mistake(
        "NumPy's random functions",
        """
        vg.random.randn(2, 3)  # <-
        """,
        AttributeError,
        ("vkgrad.random", "randn"),
        "vg.random.normal(key, shape)",
    ),
    mistake(
        "switches of the module instead of the object",
        """
        vg.config.override(fuse=False)  # <-
        """,
        AttributeError,
        ("config", "override"),
        "from vkgrad.config import config",
    ),
    mistake(
        "number that nobody measures",
        """
        x, y = np.zeros((8, 4), np.float32), np.zeros((8, 3), np.float32)
        model = nn.Linear(4, 3)
        loader = vg.data.DataLoader(x, y, batch_size=4)
        stopping = vg.EarlyStopping("val_loss")
        vg.fit(model, optim.SGD(model, lr=0.1), nn.mse_loss, loader, epochs=1, listeners=[stopping])  # <-
        """,
        OptionError,
        ("EarlyStopping", "'val_loss'"),
        "validation=",
    ),
    mistake(
        "gradient of a value instead of a function",
        """
        w = vg.ones((3,))
        loss = (w * w).sum()
        vg.grad(loss)(w)  # <-
        """,
        ArgumentError,
        ("grad", "Tensor"),
        "vg.grad(f)(x)",
    ),
    mistake(
        "vmap of a value instead of a function",
        """
        vg.vmap(vg.ones((3,)))  # <-
        """,
        ArgumentError,
        ("vmap", "Tensor"),
        "vg.vmap(f)(x)",
    ),
    mistake(
        "primals without a tuple",
        """
        vg.jvp(vg.sin, vg.ones((2,)), vg.ones((2,)))  # <-
        """,
        ArgumentError,
        ("jvp", "primals", "Tensor"),
        "(x,)",
    ),
    mistake(
        "option of a group misspelled",
        """
        model = nn.Linear(2, 1)
        optim.Adam([{'params': model, 'learning_rate': 0.1}], lr=0.1)  # <-
        """,
        OptionError,
        ("Adam", "learning_rate"),
        "did you mean 'lr'",
    ),
    mistake(
        "one beta",
        """
        optim.Adam(nn.Linear(2, 1), lr=0.1, betas=0.9)  # <-
        """,
        OptionError,
        ("Adam", "betas", "0.9"),
        "two numbers",
    ),
    mistake(
        "model and optimiser of another in fit",
        """
        loader = vg.data.DataLoader(np.zeros((4, 2), np.float32), np.zeros((4, 1), np.float32), batch_size=2)
        other = nn.Linear(2, 1)
        vg.fit(nn.Linear(2, 1), optim.SGD(other, lr=0.1), nn.mse_loss, loader, epochs=1)  # <-
        """,
        ShapeError,
        ("update", "weight (1, 2)", "SGD"),
        "make one for this model",
    ),
    mistake(
        "labels and scores of other counts in a metric",
        """
        vg.metrics.accuracy(vg.zeros((4, 3)), vg.tensor([0, 1, 2]))  # <-
        """,
        ShapeError,
        ("accuracy", "(4, 3)", "(3,)"),
        "labels (B,)",
    ),
]
