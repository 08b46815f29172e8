"""Mistakes with layers and models: what goes in, how they are built, and what is assigned to them."""

from __future__ import annotations

from tests.mistakes.mistake import mistake
from vkgrad.errors import ArgumentError, DTypeError, OptionError, ShapeError

NET = """
class Net(nn.Module):
    def __init__(self):
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 16, 3))
        self.fc1 = nn.Linear(16 * 24 * 24, 10)

    def forward(self, x):
        x = self.encoder(x)
        return self.fc1(x)  # <-
"""

MISTAKES = [
    # ---- shapes of what goes in
    mistake(
        "no Flatten before Linear",
        """
        model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Linear(8 * 26 * 26, 10))
        images = vg.zeros((4, 1, 28, 28))
        model(images)  # <-
        """,
        ShapeError,
        ("Sequential.2 (Linear)", "(4, 8, 26, 26)", "5408"),
        "Flatten",
    ),
    mistake(
        "no flatten inside a model of one's own",
        NET
        + """
        model = Net()
        model(vg.zeros((4, 1, 28, 28)))
        """.replace("\n        ", "\n"),
        ShapeError,
        ("Net.fc1 (Linear)", "(4, 16, 24, 24)", "9216"),
        "Flatten",
        then="assert model.fc1(vg.nn.Flatten()(model.encoder(vg.zeros((4, 1, 28, 28))))).shape == (4, 10)",
    ),
    mistake(
        "features of another number",
        """
        model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(64, 10))
        model(vg.zeros((4, 784)))  # <-
        """,
        ShapeError,
        ("Sequential.2 (Linear)", "(4, 128)", "64"),
        "Linear(128, 10) takes that",
    ),
    mistake(
        "channels last",
        """
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
        model(np.zeros((4, 32, 32, 3), np.float32))  # <-
        """,
        ShapeError,
        ("Sequential.0 (Conv2d)", "(4, 32, 32, 3)", "3 channels"),
        "permute(0, 3, 1, 2)",
    ),
    mistake(
        "image without a batch",
        """
        conv = nn.Conv2d(3, 8, 3)
        image = vg.zeros((3, 32, 32))
        conv(image)  # <-
        """,
        ShapeError,
        ("Conv2d", "(3, 32, 32)", "(B, 3, H, W)"),
        "x[None]",
        then="assert conv(image[None]).shape == (1, 8, 30, 30)",
    ),
    mistake(
        "images without a channel",
        """
        conv = nn.Conv2d(1, 8, 3)
        images = vg.zeros((4, 28, 28))
        conv(images)  # <-
        """,
        ShapeError,
        ("Conv2d", "(4, 28, 28)", "(B, 1, H, W)"),
        "x[:, None]",
        then="assert conv(images[:, None]).shape == (4, 8, 26, 26)",
    ),
    mistake(
        "channels of another number, deep inside",
        NET.replace("nn.Conv2d(8, 16, 3)", "nn.Conv2d(6, 16, 3)")
        .replace("  # <-", "")
        .replace("self.encoder(x)", "self.encoder(x)  # <-")
        + """
        Net()(vg.zeros((4, 1, 28, 28)))
        """.replace("\n        ", "\n"),
        ShapeError,
        ("Net.encoder.2 (Conv2d)", "(4, 8, 26, 26)", "6 channels"),
        "in_channels=8",
    ),
    mistake(
        "kernel larger than the image",
        """
        conv = nn.Conv2d(1, 8, kernel_size=5)
        conv(vg.zeros((1, 1, 3, 3)))  # <-
        """,
        ShapeError,
        ("Conv2d", "5", "3", "(1, 1, 3, 3)"),
        "padding",
    ),
    mistake(
        "pooling of what is left too small",
        """
        model = nn.Sequential(nn.MaxPool2d(2), nn.MaxPool2d(2), nn.MaxPool2d(2))
        model(vg.zeros((1, 1, 7, 7)))  # <-
        """,
        ShapeError,
        ("Sequential.2 (MaxPool2d)", "(1, 1, 1, 1)", "2"),
        "smaller window",
    ),
    mistake(
        "BatchNorm2d behind Flatten",
        """
        model = nn.Sequential(nn.Flatten(), nn.BatchNorm2d(16))
        model(vg.zeros((4, 16, 1, 1)))  # <-
        """,
        ShapeError,
        ("Sequential.1 (BatchNorm2d)", "(4, 16)", "(B, 16, H, W)"),
        "BatchNorm1d",
    ),
    mistake(
        "batch of one in training",
        """
        norm = nn.BatchNorm1d(8)
        norm(vg.zeros((1, 8)))  # <-
        """,
        ShapeError,
        ("BatchNorm1d", "(1, 8)", "one value per channel"),
        (".eval()", "drop_last"),
        then="assert norm.running_var.tolist() == [1.0] * 8 and norm.num_batches_tracked.item() == 0",
    ),
    mistake(
        "features of another number in BatchNorm",
        """
        nn.BatchNorm2d(16)(vg.zeros((4, 8, 5, 5)))  # <-
        """,
        ShapeError,
        ("BatchNorm2d", "(4, 8, 5, 5)", "(B, 16, H, W)"),
        "num_features=8",
    ),
    mistake(
        "LayerNorm over other axes",
        """
        nn.LayerNorm(64)(vg.zeros((4, 10, 32)))  # <-
        """,
        ShapeError,
        ("LayerNorm", "(4, 10, 32)", "(64,)"),
        "normalized_shape",
    ),
    mistake(
        "words as floats",
        """
        embedding = nn.Embedding(100, 8)
        words = vg.tensor([1.0, 2.0])
        embedding(words)  # <-
        """,
        DTypeError,
        ("Embedding", "float32"),
        ".astype(vg.int32)",
    ),
    mistake(
        "word that is not in the table",
        """
        model = nn.Sequential(nn.Embedding(100, 8), nn.Linear(8, 2))
        model(np.array([[1, 2, 100]]))  # <-
        """,
        ShapeError,
        ("Sequential.0 (Embedding)", "100"),
        "0 to 99",
    ),
    mistake(
        "inputs of another number in LSTM",
        """
        lstm = nn.LSTM(10, 20, batch_first=True)
        lstm(vg.zeros((4, 7, 12)))  # <-
        """,
        ShapeError,
        ("LSTM", "(4, 7, 12)", "10"),
        "input_size=12",
    ),
    mistake(
        "state of another batch in LSTM",
        """
        lstm = nn.LSTM(10, 20)
        state = (vg.zeros((1, 3, 20)), vg.zeros((1, 3, 20)))
        lstm(vg.zeros((5, 4, 10)), state)  # <-
        """,
        ShapeError,
        ("LSTM", "(1, 3, 20)"),
        "(1, 4, 20)",
    ),
    mistake(
        "one state for LSTM",
        """
        lstm = nn.LSTM(10, 20)
        lstm(vg.zeros((5, 4, 10)), vg.zeros((1, 4, 20)))  # <-
        """,
        ShapeError,
        "LSTM",
        "(h, c)",
    ),
    mistake(
        "state of another width in a cell",
        """
        cell = nn.GRUCell(10, 20)
        cell(vg.zeros((4, 10)), vg.zeros((4, 10)))  # <-
        """,
        ShapeError,
        ("GRUCell", "(4, 10)"),
        "(4, 20)",
    ),
    mistake(
        "mask turned around in attention",
        """
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        q, k = vg.zeros((1, 3, 8)), vg.zeros((1, 5, 8))
        attention(q, k, k, attn_mask=vg.zeros((5, 3)))  # <-
        """,
        ShapeError,
        ("MultiheadAttention", "attn_mask", "(5, 3)"),
        "(3, 5)",
    ),
    mistake(
        "mask of integers in attention",
        """
        attention = nn.MultiheadAttention(8, 2)
        x = vg.zeros((3, 1, 8))
        attention(x, x, x, attn_mask=np.zeros((3, 3), np.int32))  # <-
        """,
        DTypeError,
        ("MultiheadAttention", "attn_mask", "int32"),
        ".astype(vg.bool_)",
    ),
    mistake(
        "rest of another shape",
        """
        class Block(nn.Module):
            def __init__(self):
                self.conv = nn.Conv2d(8, 16, 3, padding=1)

            def forward(self, x):
                return x + self.conv(x)  # <-

        nn.Sequential(Block())(vg.zeros((1, 8, 5, 5)))
        """,
        ShapeError,
        ("Sequential.0 (Block)", "add", "(1, 8, 5, 5)", "(1, 16, 5, 5)"),
        "equal or 1",
    ),
    # ---- how layers are made
    mistake(
        "layers in a list",
        """
        layers = [nn.Linear(4, 3), nn.ReLU()]
        nn.Sequential(layers)  # <-
        """,
        TypeError,
        ("Sequential", "list"),
        "Sequential(*layers)",
    ),
    mistake(
        "class instead of a layer",
        """
        nn.Sequential(nn.Linear(4, 3), nn.ReLU)  # <-
        """,
        TypeError,
        ("Sequential.1", "ReLU"),
        "ReLU()",
    ),
    mistake(
        "function instead of a layer",
        """
        nn.Sequential(nn.Linear(4, 3), vg.relu)  # <-
        """,
        TypeError,
        ("Sequential.1", "relu"),
        "nn.",
    ),
    mistake(
        "size that came out of a division",
        """
        nn.Linear(28 * 28 / 2, 10)  # <-
        """,
        ArgumentError,
        ("Linear", "in_features", "392.0"),
        "whole number",
    ),
    mistake(
        "negative size",
        """
        nn.Conv2d(3, -8, 3)  # <-
        """,
        OptionError,
        ("Conv2d", "out_channels", "-8"),
        "at least 1",
    ),
    mistake(
        "argument misspelled",
        """
        nn.Linear(4, 3, biass=False)  # <-
        """,
        TypeError,
        ("Linear", "'biass'"),
        "did you mean 'bias'",
    ),
    mistake(
        "argument of another library",
        """
        nn.Conv2d(3, 8, kernel_size=3, strides=2)  # <-
        """,
        TypeError,
        ("Conv2d", "'strides'"),
        "did you mean 'stride'",
    ),
    mistake(
        "probability in percent",
        """
        nn.Dropout(50)  # <-
        """,
        OptionError,
        ("Dropout", "p", "50"),
        "0 to 1",
    ),
    mistake(
        "groups that do not divide",
        """
        nn.GroupNorm(3, 16)  # <-
        """,
        ShapeError,
        ("GroupNorm", "16", "3"),
        "num_groups must divide num_channels",
    ),
    mistake(
        "groups of a convolution that do not divide",
        """
        nn.Conv2d(6, 8, 3, groups=4)  # <-
        """,
        ShapeError,
        ("Conv2d", "6", "8", "4"),
        "divide",
    ),
    mistake(
        "heads that do not divide",
        """
        nn.MultiheadAttention(embed_dim=100, num_heads=8)  # <-
        """,
        ShapeError,
        ("MultiheadAttention", "100", "8"),
        "multiple",
    ),
    mistake(
        "stride of nothing",
        """
        nn.Conv2d(3, 8, 3, stride=0)  # <-
        """,
        ShapeError,
        ("Conv2d", "stride", "0"),
        "at least 1",
    ),
    mistake(
        "padding misspelled",
        """
        nn.Conv2d(3, 8, 3, padding="SAME")  # <-
        """,
        OptionError,
        ("Conv2d", "padding", "'SAME'"),
        "did you mean 'same'",
    ),
    mistake(
        "window of two extents along a line",
        """
        nn.Conv1d(3, 8, kernel_size=(3, 3))  # <-
        """,
        ShapeError,
        ("Conv1d", "kernel_size", "(3, 3)"),
        "an integer",
    ),
    mistake(
        "layer without forward",
        """
        class Head(nn.Module):
            def __init__(self):
                self.linear = nn.Linear(4, 3)

            def call(self, x):
                return self.linear(x)

        Head()(vg.zeros((2, 4)))  # <-
        """,
        NotImplementedError,
        "Head",
        "forward",
    ),
    mistake(
        "input forgotten",
        """
        model = nn.Sequential(nn.Linear(4, 3))
        model()  # <-
        """,
        TypeError,
        ("Sequential", "forward"),
        "'x'",
    ),
    mistake(
        "list of layers called",
        """
        layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        layers(vg.zeros((2, 4)))  # <-
        """,
        NotImplementedError,
        "ModuleList",
        "Sequential",
    ),
    # ---- what is assigned
    mistake(
        "array in the place of a parameter",
        """
        model = nn.Linear(4, 3)
        model.weight = np.zeros((3, 4), np.float32)  # <-
        """,
        TypeError,
        ("Linear.weight", "ndarray"),
        "weight.assign(",
        then="assert len(list(model.parameters())) == 2",
    ),
    mistake(
        "values of another shape for a parameter",
        """
        model = nn.Linear(4, 3)
        model.weight.assign(np.zeros((4, 3), np.float32))  # <-
        """,
        ShapeError,
        ("assign", "(3, 4)", "(4, 3)"),
        ".mT",
    ),
    mistake(
        "elements of a parameter",
        """
        model = nn.Linear(4, 3)
        model.bias[0] = 1.0  # <-
        """,
        TypeError,
        "in place",
        ".assign(",
    ),
    mistake(
        "model to another device as in PyTorch",
        """
        model = nn.Linear(4, 3)
        model.to("cuda")  # <-
        """,
        DTypeError,
        ("to", "'cuda'"),
        "vg.set_device",
    ),
    mistake(
        "model to the GPU as in PyTorch",
        """
        model = nn.Linear(4, 3)
        model.cuda()  # <-
        """,
        AttributeError,
        ("Linear", "'cuda'"),
        "vg.set_device",
    ),
    mistake(
        "attribute misspelled",
        """
        model = nn.Linear(4, 3)
        model.wieght  # <-
        """,
        AttributeError,
        ("Linear", "'wieght'"),
        "did you mean 'weight'",
    ),
    mistake(
        "layer that is not there",
        """
        nn.Conv2D(3, 8, 3)  # <-
        """,
        AttributeError,
        "'Conv2D'",
        "did you mean 'Conv2d'",
    ),
    mistake(
        "output and state of LSTM into the next layer",
        """
        model = nn.Sequential(nn.LSTM(4, 8), nn.Linear(8, 2))
        model(vg.zeros((5, 3, 4)))  # <-
        """,
        ArgumentError,
        ("Sequential.1 (Linear)", "tuple of tensors"),
        "take one of them",
    ),
    mistake(
        "nothing into a model",
        """
        model = nn.Sequential(nn.Linear(4, 2))
        model(None)  # <-
        """,
        ArgumentError,
        ("Sequential.0 (Linear)", "None"),
        "what should have given it",
    ),
    mistake(
        "layer beyond the last",
        """
        model = nn.Sequential(nn.Linear(4, 2), nn.ReLU())
        model[2]  # <-
        """,
        IndexError,
        ("Sequential", "index 2", "2 layers"),
        "-2 to 1",
    ),
    mistake(
        "table without rows",
        """
        nn.Embedding.from_pretrained(vg.zeros((8,)))  # <-
        """,
        ShapeError,
        ("Embedding", "(8,)"),
        "(rows, features)",
    ),
    mistake(
        "fan of a bias",
        """
        nn.init.xavier_uniform_(nn.Linear(4, 2).bias)  # <-
        """,
        ShapeError,
        ("init", "(2,)"),
        "zeros_",
    ),
    mistake(
        "windows of no extent",
        """
        nn.MaxPool2d(0)  # <-
        """,
        ShapeError,
        ("MaxPool2d", "kernel_size", "0"),
        "at least 1",
    ),
    mistake(
        "flatten of single examples",
        """
        nn.Flatten()(vg.zeros((8,)))  # <-
        """,
        ShapeError,
        ("Flatten", "axis 1"),
        "-1 to 0",
    ),
    mistake(
        "one factor too few for the classes",
        """
        criterion = nn.CrossEntropyLoss(weight=vg.ones((2,)))
        criterion(vg.zeros((4, 3)), [0, 1, 2, 0])  # <-
        """,
        ShapeError,
        ("CrossEntropyLoss", "weight", "(2,)"),
        "each of 3 classes",
    ),
    mistake(
        "channels that do not shuffle",
        """
        nn.PixelShuffle(3)(vg.zeros((1, 8, 4, 4)))  # <-
        """,
        ShapeError,
        ("PixelShuffle", "(1, 8, 4, 4)"),
        "multiple of 3 * 3",
    ),
]
