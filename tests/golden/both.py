"""Networks and trainings written once for both frameworks: what is handed in is PyTorch's or vkgrad's, and the text is
the same.

Names are those of torchvision's ResNet and of the usual small GPT. This module imports neither framework.
"""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any


def networks(nn: Any) -> SimpleNamespace:
    """The classes `LeNet5`, `ResNet18`, `Block` (of a transformer) and `GPT`, and the function `lenet`."""
    F = nn.functional

    def lenet() -> Any:
        """LeNet-5 as a sequence of layers."""
        return nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
            nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip

    class LeNet5(nn.Module):
        """LeCun et al. 1998, with ReLU and max pooling."""

        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
            self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x.flatten(1))))))

    class BasicBlock(nn.Module):
        """Two 3x3 convolutions and what they are added to.

        Source: He, Zhang, Ren and Sun (2015), arXiv:1512.03385, figure 2.
        """

        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
                self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

        def forward(self, x: Any) -> Any:
            y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
            return F.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet18(nn.Module):
        """ResNet-18; `width` is 64 in the paper, and every number of channels is a multiple of it."""

        def __init__(self, num_classes: int = 1000, width: int = 64) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            channels = [width, width, 2 * width, 4 * width, 8 * width]
            for number, (before, after) in enumerate(pairwise(channels), 1):
                blocks = BasicBlock(before, after, 1 + (before != after)), BasicBlock(after, after, 1)
                setattr(self, f"layer{number}", nn.Sequential(*blocks))
            self.fc = nn.Linear(8 * width, num_classes)

        def forward(self, x: Any) -> Any:
            x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
            x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
            return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))

    class Attention(nn.Module):
        """Causal self-attention with queries, keys and values from one product."""

        def __init__(self, features: int, heads: int) -> None:
            super().__init__()
            self.heads = heads
            self.c_attn = nn.Linear(features, 3 * features)
            self.c_proj = nn.Linear(features, features)

        def forward(self, x: Any) -> Any:
            batch, time, features = x.shape
            parts = self.c_attn(x).reshape(batch, time, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
            return self.c_proj(mixed.permute(0, 2, 1, 3).reshape(batch, time, features))

    class Block(nn.Module):
        """A transformer block that normalises first.

        Source: Radford et al. (2019), Language models are unsupervised multitask learners, section 2.3.
        """

        def __init__(self, features: int, heads: int) -> None:
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
            self.attn = Attention(features, heads)
            self.mlp = nn.Module()
            self.mlp.c_fc, self.mlp.c_proj = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

        def forward(self, x: Any) -> Any:
            x = x + self.attn(self.ln_1(x))
            return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))

    class GPT(nn.Module):
        """A small GPT: (B, T) integers -> (B, T, vocabulary)."""

        def __init__(
            self, vocabulary: int = 65, context: int = 16, layers: int = 2, heads: int = 4, features: int = 32
        ) -> None:
            super().__init__()
            self.transformer = nn.Module()
            self.transformer.wte = nn.Embedding(vocabulary, features)
            self.transformer.wpe = nn.Embedding(context, features)
            self.transformer.h = nn.ModuleList([Block(features, heads) for _ in range(layers)])
            self.transformer.ln_f = nn.LayerNorm(features)
            self.lm_head = nn.Linear(features, vocabulary, bias=False)

        def forward(self, tokens: Any) -> Any:
            parts = self.transformer
            x = parts.wte(tokens) + parts.wpe.weight[: tokens.shape[1]]
            for block in parts.h:
                x = block(x)
            return self.lm_head(parts.ln_f(x))

    return SimpleNamespace(lenet=lenet, LeNet5=LeNet5, ResNet18=ResNet18, Block=Block, GPT=GPT)


TRAININGS = ("convolutions", "transformer", "recurrent")
TRAINING_STEPS = 20


def training(name: str, nn: Any, optim: Any) -> tuple[Any, Any, Any]:
    """A model, a function that takes a training step on (x, y) and returns the loss, and the schedule of its rate.

    `eps` is large: a quotient of two numbers near 0 would show how single precision rounds, and no mistake.
    """
    if name == "convolutions":
        model = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.GELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
        )  # fmt: skip
        criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
        optimiser = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-3)
        schedule = optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=TRAINING_STEPS)
    elif name == "transformer":
        model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 2))
        criterion = nn.MSELoss()
        optimiser = optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)
        schedule = optim.lr_scheduler.OneCycleLR(optimiser, max_lr=0.01, total_steps=TRAINING_STEPS)
    else:

        class Reader(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.table = nn.Embedding(7, 4)
                self.lstm = nn.LSTM(4, 5, batch_first=True)
                self.last = nn.utils.parametrizations.weight_norm(nn.Linear(5, 7))

            def forward(self, tokens: Any) -> Any:
                return nn.functional.log_softmax(self.last(self.lstm(self.table(tokens))[0]), dim=-1).permute(0, 2, 1)

        model, criterion = Reader(), nn.NLLLoss()
        optimiser = optim.RMSprop(model.parameters(), lr=0.01, eps=1e-3, momentum=0.5)
        schedule = optim.lr_scheduler.ExponentialLR(optimiser, 0.9)

    def step(x: Any, y: Any) -> Any:
        optimiser.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        return loss

    return model, step, schedule
