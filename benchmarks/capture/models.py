"""Programs to capture: each function makes a model and returns its step; `size` scales widths.

Where a program has no optimizer, its caller ends the steps (`profiler.capture(...).step()`).
"""

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention with a cache, where one is given, and a network of two layers."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x, cache=None, position=0):
        """Hidden states (batch, length, width); `cache`: (2, batch, heads, most, width / heads)."""
        batch, length, width = x.shape
        qkv = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind()
        if cache is not None:
            cache[0, :, :, position : position + length] = k
            cache[1, :, :, position : position + length] = v
            k, v = cache[:, :, :, : position + length]
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(
            q, k, v, is_causal=length > 1, dropout_p=dropout
        )
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.second(x))


class Transformer(nn.Module):
    """Blocks between an embedding and a linear layer to the words."""

    def __init__(self, words, width, layers, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 4, dropout) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, tokens, caches=None, position=0):
        """Logits (batch, length, words) of tokens (batch, length)."""
        x = self.embed(tokens)
        for number, block in enumerate(self.blocks):
            x = block(x, None if caches is None else caches[number], position)
        return self.head(x)


def trained(model, loss, optimizer):
    """A step of training."""

    def step():
        optimizer.zero_grad()
        loss(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return step


def transformer_training(size):
    """Dropout, causal attention, cross entropy, AdamW."""
    model = Transformer(64 * size, 16 * size, layers=2, dropout=0.1)
    tokens = torch.randint(64 * size, (4, 8 * size + 1))

    def loss(model):
        logits = model(tokens[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())

    return trained(model, loss, torch.optim.AdamW(model.parameters(), 1e-3))


def transformer_decoding(size):
    """One token a step, the most likely one, with keys and values written into a cache."""
    model = Transformer(64 * size, 16 * size, layers=2).eval()
    caches = torch.zeros(2, 2, 4, 4, 64, 4 * size)
    state = {"tokens": torch.randint(64 * size, (4, 8)), "position": 0}

    @torch.no_grad()
    def step():
        logits = model(state["tokens"], caches, state["position"])
        state["position"] += state["tokens"].shape[1]
        state["tokens"] = logits[:, -1:].argmax(-1)

    return step


class Residual(nn.Module):
    """Two convolutions with batch norm, and a way around them."""

    def __init__(self, channels):
        super().__init__()
        layers = [nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2)]
        self.first, self.second = layers
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        """Images (batch, channels, height, width)."""
        inner = functional.relu(self.norms[0](self.first(x)), inplace=True)
        return functional.relu(x + self.norms[1](self.second(inner)), inplace=True)


def resnet_training(size):
    """Images in channels-last order, SGD with momentum."""
    channels = 4 * size
    model = nn.Sequential(
        nn.Conv2d(3, channels, 7, stride=2, padding=3),
        nn.MaxPool2d(3, 2, 1),
        *(Residual(channels) for _ in range(2)),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10),
    ).to(memory_format=torch.channels_last)
    images = torch.randn(4, 3, 8 * size, 8 * size).to(memory_format=torch.channels_last)
    labels = torch.randint(10, (4,))
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, foreach=True)
    return trained(model, lambda m: functional.cross_entropy(m(images), labels), optimizer)


class Experts(nn.Module):
    """Each token goes to the two experts of eight that its router likes most."""

    def __init__(self, width, experts=8):
        super().__init__()
        self.router = nn.Linear(width, experts)
        with torch.no_grad():  # most tokens to few experts, as trained routers have it
            self.router.bias.copy_(torch.linspace(2, -2, experts))
        self.up = nn.Parameter(torch.randn(experts, width, 2 * width) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * width, width) / width**0.5)

    def forward(self, x):
        """Tokens (count, width)."""
        weights, chosen = self.router(x).softmax(-1).topk(2)
        order = chosen.flatten().argsort(stable=True)
        sizes = torch.bincount(chosen.flatten(), minlength=len(self.up)).tolist()
        rows = (order // 2).split(sizes)
        shares = weights.flatten()[order].split(sizes)
        out = torch.zeros_like(x)
        for number, (row, share) in enumerate(zip(rows, shares, strict=True)):
            hidden = functional.silu(x[row] @ self.up[number]) @ self.down[number]
            out = out.index_add(0, row, hidden * share[:, None])
        return out


def experts_training(size):
    """A mixture of experts with skewed routing, Adam."""
    model = nn.Sequential(Experts(16 * size), nn.LayerNorm(16 * size))
    x = torch.randn(64 * size, 16 * size)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, foreach=True)
    return trained(model, lambda m: (m(x) - x).square().mean(), optimizer)


class UNet(nn.Module):
    """One level down and up again, with group norm and a skip."""

    def __init__(self, channels):
        super().__init__()
        self.enter = nn.Conv2d(4, channels, 3, padding=1)
        self.time = nn.Linear(16, channels)
        self.norm = nn.GroupNorm(4, channels)
        self.down = nn.Conv2d(channels, channels, 3, stride=2, padding=1)
        self.middle = nn.Conv2d(channels, channels, 3, padding=1)
        self.leave = nn.Conv2d(2 * channels, 4, 3, padding=1)

    def forward(self, x, time):
        """Noise in images (batch, 4, height, width) at times (batch,)."""
        angles = time[:, None] * torch.arange(1, 9, device=x.device)
        features = torch.cat([angles.sin(), angles.cos()], 1)
        first = functional.silu(self.norm(self.enter(x) + self.time(features)[..., None, None]))
        inner = functional.silu(self.middle(functional.silu(self.down(first))))
        up = functional.interpolate(inner, scale_factor=2, mode="nearest")
        return self.leave(torch.cat([first, up], 1))


def diffusion_training(size):
    """Noise predicted by a small U-Net, with a running mean of its weights."""
    model = UNet(8 * size)
    mean = [parameter.detach().clone() for parameter in model.parameters()]
    images = torch.randn(2, 4, 4 * size, 4 * size)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)

    def loss(model):
        noise, time = torch.randn_like(images), torch.rand(len(images))
        share = (time * torch.pi / 2).cos()[:, None, None, None]
        noisy = share * images + (1 - share.square()).sqrt() * noise
        return functional.mse_loss(model(noisy, time), noise)

    train = trained(model, loss, optimizer)

    def step():
        with torch.no_grad():
            torch._foreach_lerp_(mean, list(model.parameters()), 0.01)
        train()

    return step


class Recommender(nn.Module):
    """Bags of embeddings, their products with each other, a network on top."""

    def __init__(self, rows, width, tables=3):
        super().__init__()
        self.bags = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.dense = nn.Linear(8, width)
        self.top = nn.Linear(width + (tables + 1) ** 2, 1)

    def forward(self, dense, indices, offsets):
        """A logit for each row of `dense`, with its bags of each table."""
        features = [self.dense(dense)]
        features += [bag(i, o) for bag, i, o in zip(self.bags, indices, offsets, strict=True)]
        stacked = torch.stack(features, 1)
        products = torch.bmm(stacked, stacked.transpose(1, 2)).flatten(1)
        return self.top(torch.cat([features[0], products], 1)).squeeze(1)


def recommender_training(size):
    """Few items are most of all clicks; Adagrad."""
    batch, rows = 32 * size, 256 * size
    model = Recommender(rows, 8 * size)
    dense, clicked = torch.randn(batch, 8), torch.randint(2, (batch,)).float()
    lengths = [torch.randint(1, 8, (batch,)) for _ in range(3)]
    offsets = [length.cumsum(0) - length for length in lengths]
    indices = [(rows * torch.rand(int(each.sum())) ** 4).long() for each in lengths]

    def loss(model):
        logits = model(dense, indices, offsets)
        return functional.binary_cross_entropy_with_logits(logits, clicked)

    return trained(model, loss, torch.optim.Adagrad(model.parameters(), 0.01))


MODELS = (
    *(transformer_training, transformer_decoding, resnet_training),
    *(experts_training, diffusion_training, recommender_training),
)
