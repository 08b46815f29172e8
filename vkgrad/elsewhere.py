"""What other libraries call things that have another name here, or that need none: what to write instead.

Each entry is said in an error, after "there is no such attribute"; the tests write what is suggested. This module must
not know who asks.
"""

from __future__ import annotations

# Of the package: functions and types of PyTorch, NumPy and JAX.
FUNCTIONS = {
    "cat": "write vg.concat(tensors, axis=0)",
    "array": "write vg.tensor(data)",
    "as_tensor": "write vg.asarray(data)",
    "from_numpy": "write vg.tensor(array)",
    "FloatTensor": "write vg.tensor(data, vg.float32)",
    "LongTensor": "write vg.tensor(data, vg.int32)",
    "unsqueeze": "write vg.expand_dims(x, axis)",
    "view": "write vg.reshape(x, shape)",
    "mm": "write a @ b",
    "bmm": "write a @ b",
    "mul": "write a * b",
    "sub": "write a - b",
    "div": "write a / b",
    "clamp": "write vg.clip(x, low, high)",
    "chunk": "write vg.split(x, count, axis)",
    "gather": "write vg.take_along_axis(x, index, axis)",
    "index_select": "write vg.take(x, index, axis)",
    "permute": "write vg.permute_dims(x, axes)",
    "expand": "write vg.broadcast_to(x, shape)",
    "put_slice": "write x.at[index].set(values)",
    "scatter": "write x.at[index].set(values)",
    "iota": "write vg.arange(count)",
    "masked_fill": "write vg.where(mask, value, x)",
    "repeat_interleave": "write vg.repeat(x, repeats, axis)",
    "numel": "write x.size",
    "rand": "write vg.random.uniform(vg.random.key(0), shape)",
    "randn": "write vg.random.normal(vg.random.key(0), shape)",
    "randint": "write vg.random.randint(vg.random.key(0), shape, low, high)",
    "randperm": "write vg.random.permutation(vg.random.key(0), count)",
    "PRNGKey": "write vg.random.key(0)",
    "inv": "write vg.linalg.inv(a)",
    "det": "write vg.linalg.det(a)",
    "svd": "write vg.linalg.svd(a)",
    "compile": "write vg.jit(function)",
    "inference_mode": "write vg.no_grad()",
    "cross_entropy": "write vg.nn.cross_entropy(logits, labels)",
    "mse_loss": "write vg.nn.mse_loss(prediction, target)",
    "dropout": "write vg.nn.functional.dropout(x, p)",
    "device": "write vg.set_device(name), once, or VKGRAD_DEVICE",
    "is_available": "write vg.devices() for what there is",
    "cuda": "write vg.set_device(name), once, or VKGRAD_DEVICE",
    "long": "write vg.int32, or vg.int64 where the device has it",
    "half": "write vg.float16",
    "double": "write vg.float64",
    "float": "write vg.float32",
    "int": "write vg.int32",
    "tree_map": "write vg.tree.transform(function, value)",
    "DataLoader": "write vg.data.DataLoader(x, y, batch_size=32)",
    "Module": "write vg.nn.Module",
    "Parameter": "write vg.nn.parameter(value)",
    "SGD": "write vg.optim.SGD",
    "Adam": "write vg.optim.Adam",
}

# Of a tensor.
METHODS = {
    "view": "write x.reshape(...)",
    "unsqueeze": "write x.expand_dims(axis)",
    "dim": "write x.ndim",
    "numel": "write x.size",
    "nelement": "write x.size",
    "t": "write x.T",
    "contiguous": "leave it out: every layout works",
    "clone": "leave it out: values never change, so x is its own copy",
    "copy": "leave it out: values never change, so x is its own copy",
    "data": "write x.detach()",
    "expand": "write x.broadcast_to(shape)",
    "masked_fill": "write vg.where(mask, value, x)",
    "gather": "write vg.take_along_axis(x, index, axis)",
    "index_select": "write x.take(index, axis)",
    "clamp": "write x.clip(low, high)",
    "mm": "write x @ y",
    "bmm": "write x @ y",
    "dot": "write vg.dot(x, y)",
    "pow": "write x ** y",
    "chunk": "write x.split(count, axis)",
    "type": "write x.astype(dtype)",
    "float": "write x.astype(vg.float32)",
    "double": "write x.astype(vg.float64)",
    "half": "write x.astype(vg.float16)",
    "int": "write x.astype(vg.int32)",
    "long": "write x.astype(vg.int32), or vg.int64 where the device has it",
    "bool": "write x.astype(vg.bool_)",
    "to": "write x.astype(dtype) for another type, vg.set_device(name), once, for another device",
    "cuda": "leave it out: vg.set_device(name), once, or VKGRAD_DEVICE says where tensors are",
    "cpu": "write x.numpy() for the value on the host",
    "block_until_ready": "write vg.eval(x)",
    "requires_grad_": "write x.requires_grad = True",
    "eq": "write x == y",
    "ne": "write x != y",
    "lt": "write x < y",
    "le": "write x <= y",
    "gt": "write x > y",
    "ge": "write x >= y",
    "values": "write x.max(axis) for values, x.argmax(axis) for places",
    "indices": "write x.max(axis) for values, x.argmax(axis) for places",
}

# Of `vkgrad.random`.
RANDOM = {
    "rand": "write vg.random.uniform(key, shape)",
    "randn": "write vg.random.normal(key, shape)",
    "random": "write vg.random.uniform(key, shape)",
    "seed": "write vg.manual_seed(0), or vg.random.key(0) for a key of one's own",
    "PRNGKey": "write vg.random.key(0)",
    "shuffle": "write vg.random.permutation(key, x)",
}

# Of `vkgrad.data`.
DATA = {
    "TensorDataset": "give the arrays to vg.data.DataLoader(x, y, batch_size=32)",
}

# Of `vkgrad.nn`, beside the functions that `vkgrad.nn.functional` has.
LAYERS = {
    "Dense": "write vg.nn.Linear(in_features, out_features)",
}

IN_PLACE = "tensors do not change in place: write x = x{}, or parameter.assign(value) for a parameter"
IN_PLACE_AS = {"add_": " + y", "sub_": " - y", "mul_": " * y", "div_": " / y", "pow_": " ** y"}

# Of a module.
MODULES = {
    "cuda": "leave it out: vg.set_device(name), once, or VKGRAD_DEVICE says where tensors are",
    "cpu": "leave it out: vg.set_device('cpu'), once, or VKGRAD_DEVICE says where tensors are",
    "fit": "write vg.fit(model, optimizer, loss, loader, epochs)",
    "compile": "write vg.jit(step)",
    "predict": "call it: model(x)",
    "summary": "write print(model)",
    "save": "write vg.save(model.state_dict(), path)",
    "load": "write model.load_state_dict(vg.load(path))",
}


def of_tensor(name: str) -> str:
    """What to write instead of a method that a tensor does not have."""
    if name.endswith("_") and not name.startswith("_") and name not in METHODS:
        return IN_PLACE.format(IN_PLACE_AS.get(name, f".{name.removesuffix('_')}(...)"))
    return METHODS.get(name, "")
