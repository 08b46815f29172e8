"""Mistakes with files and data: weights, checkpoints, tables, images, batches, ONNX."""

from __future__ import annotations

from tests.mistakes.mistake import mistake
from vkgrad.errors import ArgumentError, DataError, DataNotFoundError, DTypeError, ShapeError, UnsupportedError

MISTAKES = [
    # ---- weights
    mistake(
        "weights of another model",
        """
        saved = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).state_dict()
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        before = model[0].weight.tolist()
        model.load_state_dict(saved)  # <-
        """,
        DataError,
        ("load_state_dict", "Sequential", "1.weight", "1.bias", "2.weight", "2.bias"),
        "strict=False",
        then="assert model[0].weight.tolist() == before",
    ),
    mistake(
        "weights under a prefix",
        """
        model = nn.Linear(4, 3)
        saved = {f"module.{name}": value for name, value in model.state_dict().items()}
        model.load_state_dict(saved)  # <-
        """,
        DataError,
        ("load_state_dict", "Linear", "weight", "module.weight"),
        "prefix 'module.'",
    ),
    mistake(
        "weights with a key misspelled",
        """
        model = nn.Linear(4, 3)
        state = model.state_dict()
        model.load_state_dict({"wieght": state["weight"], "bias": state["bias"]})  # <-
        """,
        DataError,
        ("load_state_dict", "'wieght'"),
        "did you mean 'weight'",
    ),
    mistake(
        "weights of other shapes",
        """
        model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
        saved = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 2)).state_dict()
        model.load_state_dict(saved)  # <-
        """,
        ShapeError,
        ("load_state_dict", "0.weight", "(8, 4)", "(16, 4)", "0.bias", "(8,)", "1.weight", "(2, 16)"),
        "make the model as it was",
        longest=420,
    ),
    mistake(
        "model instead of its weights",
        """
        model = nn.Linear(4, 3)
        vg.save(model, folder / "model.safetensors")  # <-
        """,
        ArgumentError,
        ("save", "Linear"),
        "state_dict()",
    ),
    mistake(
        "path and weights the other way round",
        """
        vg.save(folder / "model.safetensors", nn.Linear(4, 3).state_dict())  # <-
        """,
        ArgumentError,
        ("save", "Path"),
        "first",
    ),
    mistake(
        "path instead of weights",
        """
        model = nn.Linear(4, 3)
        vg.save(model.state_dict(), folder / "model.safetensors")
        model.load_state_dict(folder / "model.safetensors")  # <-
        """,
        ArgumentError,
        ("load_state_dict", "Path"),
        "vg.load(path)",
    ),
    mistake(
        "weights that are not there",
        """
        vg.load(folder / "absent.safetensors")  # <-
        """,
        DataNotFoundError,
        "absent.safetensors",
        "no such",
    ),
    mistake(
        "file cut off",
        """
        path = folder / "model.safetensors"
        vg.save(nn.Linear(4, 3).state_dict(), path)
        path.write_bytes(path.read_bytes()[:-20])
        vg.load(path)  # <-
        """,
        DataError,
        "model.safetensors",
        ("cut off", "again"),
    ),
    mistake(
        "file of nothing",
        """
        path = folder / "model.safetensors"
        path.write_bytes(b"")
        vg.load(path)  # <-
        """,
        DataError,
        "model.safetensors",
        "empty",
    ),
    mistake(
        "file that PyTorch has pickled",
        """
        path = folder / "model.pt"
        path.write_bytes(bytes.fromhex("504b0304") + b"archive/data.pkl" * 20)
        vg.load(path)  # <-
        """,
        DataError,
        "model.pt",
        ("torch.save", "safetensors.torch.save_file"),
    ),
    mistake(
        "folder that is not there",
        """
        vg.save(nn.Linear(4, 3).state_dict(), folder / "runs" / "model.safetensors")  # <-
        """,
        DataNotFoundError,
        "runs",
        "make the folder",
    ),
    mistake(
        "folder instead of a file",
        """
        vg.load(folder)  # <-
        """,
        DataError,
        "folder",
        "file in it",
    ),
    # ---- checkpoints
    mistake(
        "checkpoint taken for weights",
        """
        path = folder / "run.safetensors"
        model = nn.Linear(4, 3)
        vg.save_checkpoint(path, model=model, optimizer=optim.Adam(model, lr=0.1))
        model.load_state_dict(vg.load(path))  # <-
        """,
        DataError,
        ("load_state_dict", "Linear", "model/weight"),
        "vg.load_checkpoint(path, model=model)",
        longest=420,
    ),
    mistake(
        "optimiser of the model and of its parameters",
        """
        path = folder / "run.safetensors"
        model = nn.Linear(4, 3)
        vg.save_checkpoint(path, optimizer=optim.Adam(model.parameters(), lr=0.1))
        vg.load_checkpoint(path, optimizer=optim.Adam(model, lr=0.1))  # <-
        """,
        DataError,
        ("optimizer", "weight.exp_avg"),
        "one was made of model, the other of model.parameters()",
        longest=420,
    ),
    mistake(
        "batches of what can be read once",
        """
        x, y = np.zeros((8, 4), np.float32), np.zeros(8, np.int32)
        vg.data.DataLoader(zip(x, y), batch_size=4)  # <-
        """,
        DataError,
        ("DataLoader", "zip"),
        "list(...)",
    ),
    mistake(
        "checkpoint of another model",
        """
        path = folder / "run.safetensors"
        vg.save_checkpoint(path, model=nn.Linear(4, 3), step=7)
        model = nn.Linear(4, 5)
        vg.load_checkpoint(path, model=model)  # <-
        """,
        ShapeError,
        ("run.safetensors", "model", "weight", "(5, 4)", "(3, 4)"),
        "as it was",
    ),
    mistake(
        "checkpoint with another optimiser",
        """
        path = folder / "run.safetensors"
        model = nn.Linear(4, 3)
        vg.save_checkpoint(path, model=model, optimizer=optim.SGD(model, lr=0.1))
        vg.load_checkpoint(path, model=model, optimizer=optim.Adam(model, lr=0.1))  # <-
        """,
        DataError,
        ("run.safetensors", "optimizer"),
        "as it was",
        longest=420,
    ),
    mistake(
        "checkpoint without the part",
        """
        path = folder / "run.safetensors"
        model = nn.Linear(4, 3)
        vg.save_checkpoint(path, model=model)
        vg.load_checkpoint(path, net=model)  # <-
        """,
        DataError,
        ("run.safetensors", "'net'"),
        "model",
    ),
    mistake(
        "weights instead of a checkpoint",
        """
        path = folder / "model.safetensors"
        model = nn.Linear(4, 3)
        vg.save(model.state_dict(), path)
        vg.load_checkpoint(path, model=model)  # <-
        """,
        DataError,
        ("model.safetensors", "checkpoint"),
        "vg.load",
    ),
    # ---- batches
    mistake(
        "batch of nothing",
        """
        vg.data.DataLoader(np.zeros((10, 3)), batch_size=0)  # <-
        """,
        DataError,
        ("DataLoader", "batch_size", "0"),
        "at least 1",
    ),
    mistake(
        "arrays of unequal lengths",
        """
        vg.data.DataLoader(np.zeros((10, 3)), np.zeros(9), batch_size=2)  # <-
        """,
        DataError,
        ("DataLoader", "10", "9"),
        "first axis",
    ),
    mistake(
        "fewer examples than a batch",
        """
        vg.data.DataLoader(np.zeros((10, 3)), batch_size=32, drop_last=True)  # <-
        """,
        DataError,
        ("DataLoader", "10", "32"),
        "smaller batch_size",
    ),
    mistake(
        "arrays in a list",
        """
        x, y = np.zeros((10, 3)), np.zeros(10)
        vg.data.DataLoader((x, y), batch_size=2)  # <-
        """,
        DataError,
        ("DataLoader", "tuple"),
        "DataLoader(*arrays",
    ),
    mistake(
        "PyTorch's workers",
        """
        vg.data.DataLoader(np.zeros((10, 3)), batch_size=2, num_workers=4)  # <-
        """,
        TypeError,
        ("DataLoader", "'num_workers'"),
        "did you mean 'workers'",
    ),
    mistake(
        "examples of different sizes",
        """
        class Lines:
            def __len__(self):
                return 4

            def __getitem__(self, index):
                return np.zeros(index + 1, np.float32)

        loader = vg.data.DataLoader(Lines(), batch_size=2, shuffle=False)
        for batch in loader:  # <-
            pass
        """,
        DataError,
        ("DataLoader", "(1,)", "(2,)"),
        ("one size", "collate"),
        longest=340,
    ),
    # ---- tables, images, data sets
    mistake(
        "column of text",
        """
        path = folder / "houses.csv"
        path.write_text("rooms,street\\n3,Main\\n")
        vg.data.read_csv(path)  # <-
        """,
        DataError,
        ("houses.csv", "line 2", "street", "'Main'"),
        "columns=",
    ),
    mistake(
        "column misspelled",
        """
        path = folder / "houses.csv"
        path.write_text("rooms,price\\n3,1.5\\n")
        vg.data.read_csv(path, ["prize"])  # <-
        """,
        DataError,
        ("houses.csv", "'prize'"),
        "did you mean 'price'",
    ),
    mistake(
        "line too short",
        """
        path = folder / "houses.csv"
        path.write_text("rooms,price\\n3,1.5\\n4\\n")
        vg.data.read_csv(path)  # <-
        """,
        DataError,
        ("houses.csv", "line 3", "1", "2"),
        "fields",
    ),
    mistake(
        "table that is not there",
        """
        vg.data.read_csv(folder / "absent.csv")  # <-
        """,
        DataNotFoundError,
        "absent.csv",
        "no such",
    ),
    mistake(
        "images without classes",
        """
        (folder / "cats.png").write_bytes(b"")
        vg.data.ImageFolder(folder)  # <-
        """,
        DataNotFoundError,
        "folder",
        "CLASS",
    ),
    mistake(
        "images that are not there",
        """
        vg.data.ImageFolder(folder / "absent")  # <-
        """,
        DataNotFoundError,
        "absent",
        "no such",
    ),
    mistake(
        "images of different sizes",
        """
        from PIL import Image

        for name, size in (("a", (8, 8)), ("b", (8, 9))):
            (folder / "cats").mkdir(exist_ok=True)
            Image.new("RGB", size).save(folder / "cats" / f"{name}.png")
        loader = vg.data.DataLoader(vg.data.ImageFolder(folder), batch_size=2)
        for images, labels in loader:  # <-
            pass
        """,
        DataError,
        ("(3, 8, 8)", "(3, 9, 8)"),
        "size=",
        longest=340,
    ),
    mistake(
        "damaged image",
        """
        (folder / "cats").mkdir()
        (folder / "cats" / "a.png").write_bytes(b"no image")
        pictures = vg.data.ImageFolder(folder)
        pictures[0]  # <-
        """,
        DataError,
        "a.png",
        "not an image, or damaged",
    ),
    mistake(
        "archive of digits cut off",
        """
        path = folder / "train-images-idx3-ubyte"
        path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 100]) + bytes(50))
        vg.data.read_idx(path)  # <-
        """,
        DataError,
        ("train-images-idx3-ubyte", "100", "50"),
        "again",
    ),
    # ---- ONNX
    mistake(
        "export of random numbers",
        """
        model = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
        vg.onnx.export(model, [vg.zeros((1, 4))], folder / "model.onnx")  # <-
        """,
        UnsupportedError,
        "onnx.export",
        ".eval()",
    ),
    mistake(
        "network that is not there",
        """
        vg.onnx.load(folder / "absent.onnx")  # <-
        """,
        DataNotFoundError,
        "absent.onnx",
        "no such",
    ),
    mistake(
        "network that is no ONNX",
        """
        (folder / "model.onnx").write_bytes(b"weights")
        vg.onnx.load(folder / "model.onnx")  # <-
        """,
        DataError,
        "model.onnx",
        "export or fetch it again",
    ),
    mistake(
        "numbers beside the weights",
        """
        model = nn.Linear(2, 1)
        vg.save({'epoch': 3, 'model': model.state_dict()}, folder / 'run.safetensors')  # <-
        """,
        DataError,
        ("save", "epoch", "int"),
        "vg.save_checkpoint",
    ),
    mistake(
        "loader of nothing",
        """
        vg.data.DataLoader(batch_size=2)  # <-
        """,
        DataError,
        "DataLoader",
        "DataLoader(x, y, batch_size=32)",
    ),
    mistake(
        "labels as text",
        """
        names = np.array(['cat', 'dog', 'cat', 'dog'])
        loader = vg.data.DataLoader(np.zeros((4, 2), np.float32), names, batch_size=2)
        for x, y in loader:  # <-
            pass
        """,
        DTypeError,
        "text",
        "convert the array",
    ),
    mistake(
        "data set that is not there",
        """
        vg.data.mnist(folder)  # <-
        """,
        DataNotFoundError,
        "MNIST",
        ("VKGRAD_DATA", "vkgrad.data.digits()"),
    ),
    mistake(
        "one argument without a list for ONNX",
        """
        vg.onnx.export(nn.Linear(4, 2), vg.zeros((1, 4)), folder / 'model.onnx')  # <-
        """,
        ArgumentError,
        ("onnx.export", "Tensor"),
        "[x]",
    ),
]
