"""Mistakes with arrays: shapes, axes, indices, element types, and habits of other libraries."""

from __future__ import annotations

from tests.mistakes.mistake import mistake
from vkgrad.errors import ArgumentError, DTypeError, ShapeError

MISTAKES = [
    # ---- shapes
    mistake(
        "column missing in a broadcast",
        """
        x = vg.ones((3, 4))
        row_means = x.mean(axis=1)
        centred = x - row_means  # <-
        """,
        ShapeError,
        ("subtract", "(3, 4)", "(3,)"),
        ("equal or 1", "x[..., None]"),
        then="assert (x - row_means[..., None]).tolist() == [[0.0] * 4] * 3",
    ),
    mistake(
        "factors of a matrix product not turned",
        """
        a, b = vg.ones((3, 4)), vg.ones((5, 4))
        a @ b  # <-
        """,
        ShapeError,
        ("matmul", "(3, 4) @ (5, 4)"),
        "x @ y.mT fits",
        then="assert (a @ b.mT).shape == (3, 5)",
    ),
    mistake(
        "factors of a matrix product that never fit",
        """
        vg.ones((3, 4)) @ vg.ones((5, 2))  # <-
        """,
        ShapeError,
        ("matmul", "(3, 4) @ (5, 2)"),
        ("axis -1 of the left", "axis -2 of the right"),
    ),
    mistake(
        "reshape to another number of elements",
        """
        x = vg.zeros((3, 4))
        x.reshape(3, 5)  # <-
        """,
        ShapeError,
        ("reshape", "(3, 4)", "12", "(3, 5)", "15"),
        "-1",
    ),
    mistake(
        "reshape by an extent that does not divide",
        """
        batch = vg.zeros((10, 3))
        batch.reshape(4, -1)  # <-
        """,
        ShapeError,
        ("reshape", "(10, 3)", "(4, -1)"),
        "30 elements do not divide by 4",
    ),
    mistake(
        "reshape with two open extents",
        """
        vg.zeros((3, 4)).reshape(-1, -1)  # <-
        """,
        ShapeError,
        ("reshape", "(-1, -1)"),
        "only one",
    ),
    mistake(
        "concat of rows with other columns",
        """
        vg.concat([vg.zeros((2, 3)), vg.zeros((2, 4))])  # <-
        """,
        ShapeError,
        ("concat", "(2, 3)", "(2, 4)", "axis 0"),
        "axis=1",
    ),
    mistake(
        "stack of unequal tensors",
        """
        vg.stack([vg.zeros((3,)), vg.zeros((4,))])  # <-
        """,
        ShapeError,
        ("stack", "(3,)", "(4,)"),
        "concat",
    ),
    mistake(
        "einsum with one letter for two extents",
        """
        vg.einsum("ij,jk->ik", vg.zeros((3, 4)), vg.zeros((5, 6)))  # <-
        """,
        ShapeError,
        ("einsum", "'j'", "'ij,jk->ik'", "4", "5"),
        "one extent",
    ),
    mistake(
        "einsum with an operand too few",
        """
        vg.einsum("ij,jk->ik", vg.zeros((3, 4)))  # <-
        """,
        ShapeError,
        ("einsum", "'ij,jk->ik'", "2 operands", "1"),
        "comma",
    ),
    mistake(
        "einsum with a letter from nowhere",
        """
        vg.einsum("ij,jk->iz", vg.zeros((3, 4)), vg.zeros((4, 5)))  # <-
        """,
        ShapeError,
        ("einsum", "'ij,jk->iz'", "'z'"),
        "left of the arrow",
    ),
    mistake(
        "einsum with too few letters",
        """
        vg.einsum("ij,jk->ik", vg.zeros((8, 3, 4)), vg.zeros((4, 5)))  # <-
        """,
        ShapeError,
        ("einsum", "'ij'", "(8, 3, 4)"),
        "...",
    ),
    mistake(
        "axis that is not there",
        """
        x = vg.ones((3, 4))
        x.sum(axis=2)  # <-
        """,
        ShapeError,
        ("sum", "axis 2", "2 axes"),
        "-2 to 1",
    ),
    mistake(
        "axis named twice",
        """
        vg.ones((3, 4)).mean(axis=(1, -1))  # <-
        """,
        ShapeError,
        ("mean", "(1, -1)"),
        "once",
    ),
    mistake(
        "permute that leaves out an axis",
        """
        images = vg.zeros((8, 28, 28, 3))
        images.permute(2, 0, 1)  # <-
        """,
        ShapeError,
        ("permute", "(2, 0, 1)", "(8, 28, 28, 3)"),
        "each of the 4 axes",
    ),
    mistake(
        "squeeze of an axis that holds something",
        """
        vg.zeros((8, 3, 1)).squeeze(axis=1)  # <-
        """,
        ShapeError,
        ("squeeze", "axis 1", "(8, 3, 1)", "3"),
        "only extent 1 can go",
    ),
    mistake(
        "split into unequal parts",
        """
        vg.split(vg.arange(10), 3)  # <-
        """,
        ShapeError,
        ("split", "10", "3"),
        "where to cut",
    ),
    mistake(
        "padding for another number of axes",
        """
        vg.pad(vg.zeros((2, 3, 4)), [(0, 1), (1, 0)])  # <-
        """,
        ShapeError,
        ("pad", "3 axes"),
        "one pair for each",
    ),
    mistake(
        "more than there is in topk",
        """
        vg.topk(vg.arange(5), 6)  # <-
        """,
        ShapeError,
        ("topk", "6", "5"),
        "at most",
    ),
    mistake(
        "maximum of nothing",
        """
        scores = vg.zeros((0,))
        scores.max()  # <-
        """,
        ShapeError,
        ("max", "(0,)", "no elements"),
        "x.size",
    ),
    mistake(
        "inverse of a matrix that is not square",
        """
        vg.linalg.inv(vg.ones((3, 4)))  # <-
        """,
        ShapeError,
        ("inv", "(3, 4)"),
        ("square", "lstsq"),
    ),
    mistake(
        "right-hand side of another size",
        """
        vg.linalg.solve(vg.eye(3), vg.ones((4, 1)))  # <-
        """,
        ShapeError,
        ("solve", "(3, 3)", "(4, 1)"),
        "3 rows",
    ),
    # ---- indices
    mistake(
        "index beyond the end",
        """
        x = vg.arange(5)
        x[5]  # <-
        """,
        (ShapeError),
        ("index 5", "axis 0", "(5,)"),
        "-5 to 4",
    ),
    mistake(
        "more indices than axes",
        """
        image = vg.zeros((28, 28))
        image[0, :, :]  # <-
        """,
        ShapeError,
        ("3 indices", "(28, 28)"),
        "2 axes",
    ),
    mistake(
        "index that came out of a division",
        """
        x = vg.arange(10)
        x[10 / 2]  # <-
        """,
        DTypeError,
        ("float", "5.0"),
        "//",
    ),
    mistake(
        "mask of another shape",
        """
        x = vg.ones((4, 3))
        keep = np.array([True, False, True])
        x[keep]  # <-
        """,
        ShapeError,
        ("mask", "(3,)", "(4, 3)"),
        "x[:, mask]",
    ),
    mistake(
        "take beyond the end",
        """
        vocabulary = vg.zeros((100, 8))
        vg.take(vocabulary, [3, 100], axis=0)  # <-
        """,
        ShapeError,
        ("take", "index 100", "100"),
        "0 to 99",
    ),
    mistake(
        "take beyond the end, by a tensor",
        """
        vocabulary = vg.zeros((100, 8))
        vg.take(vocabulary, vg.tensor([3, 100]), axis=0)  # <-
        """,
        ShapeError,
        ("take", "index 100"),
        "0 to 99",
    ),
    mistake(
        "take by floats",
        """
        vg.take(vg.zeros((10, 2)), vg.tensor([1.0, 2.0]), axis=0)  # <-
        """,
        DTypeError,
        ("take", "float32"),
        ".astype(vg.int32)",
    ),
    mistake(
        "assignment to elements",
        """
        x = vg.zeros((3,))
        x[0] = 1.0  # <-
        """,
        TypeError,
        "in place",
        "x = x.at[index].set(value)",
        then="assert x.at[0].set(1.0).tolist() == [1.0, 0.0, 0.0]",
    ),
    mistake(
        "method that changes in place",
        """
        x = vg.zeros((3,))
        x.add_(1.0)  # <-
        """,
        AttributeError,
        ("add_", "in place"),
        "x = x + ",
    ),
    # ---- reading values
    mistake(
        "number out of many elements",
        """
        losses = vg.ones((8,))
        float(losses)  # <-
        """,
        ShapeError,
        ("(8,)", "8 elements"),
        (".tolist()", ".mean()"),
    ),
    mistake(
        "if on many elements",
        """
        x = vg.tensor([1.0, -1.0])
        if x > 0:  # <-
            x = -x
        """,
        ShapeError,
        ("(2,)", "true or false"),
        ("vg.any", "vg.where"),
    ),
    mistake(
        "range of a float",
        """
        count = vg.tensor(3.0)
        for _ in range(count):  # <-
            pass
        """,
        TypeError,
        "float32",
        "int(",
    ),
    mistake(
        "length of a number",
        """
        len(vg.tensor(1.0))  # <-
        """,
        TypeError,
        "no axes",
        "x.reshape(1)",
    ),
    # ---- element types
    mistake(
        "lists of unequal lengths",
        """
        vg.tensor([[1.0, 2.0], [3.0]])  # <-
        """,
        ShapeError,
        ("tensor", "unequal lengths", "2 and 1"),
        "pad",
    ),
    mistake(
        "text as numbers",
        """
        vg.tensor(["3.5", "4.5"])  # <-
        """,
        DTypeError,
        ("dtype", "text"),
        "array.astype(np.float32)",
    ),
    mistake(
        "array of objects",
        """
        rows = np.array([[1, 2], None], dtype=object)
        vg.tensor(rows)  # <-
        """,
        DTypeError,
        ("dtype", "Python objects"),
        ".astype(",
    ),
    mistake(
        "complex numbers",
        """
        vg.tensor([1 + 2j])  # <-
        """,
        DTypeError,
        "complex",
        "last axis of extent 2",
    ),
    mistake(
        "integers that int32 does not hold",
        """
        vg.tensor([3_000_000_000])  # <-
        """,
        DTypeError,
        ("tensor", "int32"),
        "dtype=vg.int64",
    ),
    mistake(
        "element type misspelled",
        """
        vg.zeros((3,), dtype="flaot32")  # <-
        """,
        DTypeError,
        "'flaot32'",
        "did you mean 'float32'",
    ),
    mistake(
        "tensors in a list",
        """
        parts = [vg.ones((2,)), vg.zeros((2,))]
        vg.tensor(parts)  # <-
        """,
        TypeError,
        ("tensor", "list of tensors"),
        "vg.stack",
    ),
    mistake(
        "extents instead of a shape",
        """
        vg.zeros(2, 3)  # <-
        """,
        DTypeError,
        "3",
        "vg.zeros((2, 3))",
    ),
    mistake(
        "bits of floats",
        """
        x = vg.ones((3,))
        (x > 0) & x  # <-
        """,
        DTypeError,
        ("bitwise_and", "float32"),
        "integers or bools",
    ),
    mistake(
        "one_hot of floats",
        """
        labels = vg.tensor([0.0, 2.0])
        vg.one_hot(labels, 3)  # <-
        """,
        DTypeError,
        ("one_hot", "float32"),
        ".astype(vg.int32)",
    ),
    mistake(
        "random numbers without a key",
        """
        vg.random.normal((3, 4))  # <-
        """,
        DTypeError,
        ("random", "key", "tuple"),
        "vg.random.key(",
    ),
    # ---- habits of other libraries
    mistake(
        "PyTorch's cat",
        """
        vg.cat([vg.ones((2,)), vg.ones((2,))])  # <-
        """,
        AttributeError,
        "'cat'",
        "vg.concat",
    ),
    mistake(
        "name misspelled",
        """
        vg.sofmax(vg.ones((2, 3)))  # <-
        """,
        AttributeError,
        "'sofmax'",
        "did you mean 'softmax'",
    ),
    mistake(
        "PyTorch's view",
        """
        images = vg.zeros((8, 28, 28))
        images.view(8, -1)  # <-
        """,
        AttributeError,
        ("Tensor", "'view'"),
        ".reshape",
    ),
    mistake(
        "PyTorch's cuda",
        """
        x = vg.ones((3,))
        x.cuda()  # <-
        """,
        AttributeError,
        ("Tensor", "'cuda'"),
        "vg.set_device",
    ),
    mistake(
        "PyTorch's dim",
        """
        x = vg.ones((3, 4))
        x.sum(dim=1)  # <-
        """,
        TypeError,
        ("sum", "'dim'"),
        "'axis'",
    ),
    mistake(
        "PyTorch's dim in a function",
        """
        vg.mean(vg.ones((3, 4)), dim=0, keepdims=True)  # <-
        """,
        TypeError,
        ("mean", "'dim'"),
        "'axis'",
    ),
    mistake(
        "PyTorch's keepdim",
        """
        vg.ones((3, 4)).sum(axis=1, keepdim=True)  # <-
        """,
        TypeError,
        ("sum", "'keepdim'"),
        "'keepdims'",
    ),
    mistake(
        "class called as a function",
        """
        vg.Tensor([1.0, 2.0])  # <-
        """,
        TypeError,
        "Tensor",
        "vg.tensor(",
    ),
    mistake(
        "PyTorch's dim in a function that joins",
        """
        a, b = vg.ones((2, 3)), vg.ones((2, 3))
        vg.concat([a, b], dim=1)  # <-
        """,
        TypeError,
        ("concat", "'dim'"),
        "'axis'",
        then="assert vg.concat([a, b], axis=1).shape == (2, 6)",
    ),
    mistake(
        "NumPy's axis where PyTorch has dim",
        """
        F.softmax(vg.ones((2, 3)), axis=1)  # <-
        """,
        TypeError,
        ("softmax", "'axis'"),
        "did you mean 'dim'",
    ),
    mistake(
        "keyword of a loss misspelled",
        """
        nn.cross_entropy(vg.zeros((2, 3)), [0, 1], label_smooting=0.1)  # <-
        """,
        TypeError,
        ("cross_entropy", "'label_smooting'"),
        "did you mean 'label_smoothing'",
    ),
    mistake(
        "NumPy's random numbers",
        """
        vg.random.randn(3, 4)  # <-
        """,
        AttributeError,
        ("vkgrad.random", "'randn'"),
        "vg.random.normal(key, shape)",
    ),
    mistake(
        "function of linalg misspelled",
        """
        vg.linalg.pinvh(vg.ones((3, 4)))  # <-
        """,
        AttributeError,
        ("vkgrad.linalg", "'pinvh'"),
        "did you mean 'pinv'",
    ),
    mistake(
        "extent that came out of a division",
        """
        vg.ones((2.5, 3))  # <-
        """,
        ShapeError,
        ("extents", "2.5"),
        "//",
    ),
    mistake(
        "reshape by a quotient",
        """
        x = vg.ones((4, 6))
        x.reshape(4 / 2, -1)  # <-
        """,
        ShapeError,
        ("reshape", "2.0"),
        "//",
    ),
    mistake(
        "axis as text",
        """
        vg.ones((3, 4)).sum('rows')  # <-
        """,
        ArgumentError,
        ("sum", "'rows'"),
        "whole number",
    ),
    mistake(
        "axes of transpose one by one",
        """
        x = vg.ones((3, 4, 5))
        x.transpose(1, 2)  # <-
        """,
        ArgumentError,
        ("transpose", "(1, 2)"),
        (".swapaxes", "one sequence"),
        then="assert x.swapaxes(1, 2).shape == (3, 5, 4)",
    ),
    mistake(
        "None as an array",
        """
        rows = {'x': [1.0]}
        vg.tensor(rows.get('y'))  # <-
        """,
        ArgumentError,
        ("tensor", "None"),
        "what should have given it",
    ),
    mistake(
        "dict as an array",
        """
        vg.tensor({'x': [1.0]})  # <-
        """,
        ArgumentError,
        ("tensor", "dict"),
        "entries",
    ),
    mistake(
        "seed as text",
        """
        vg.random.key('seed')  # <-
        """,
        ArgumentError,
        ("seed", "'seed'"),
        "whole number",
    ),
]
