"""Small VAP models with weights of no meaning, and their tensors under the names of published files."""

import torch

from spear_ray.networks.vap import Vap
from spear_ray.networks.vap_layers import VapSizes

TINY = {"encoder_width": 16, "width": 16, "feed_forward": 24, "heads": 2}


def tiny(seed: int = 0, **sizes) -> Vap:
    torch.manual_seed(seed)
    model = Vap(VapSizes(**(TINY | sizes))).eval()
    for parameter in model.parameters():
        parameter.data += 0.05 * torch.randn_like(parameter)
    with torch.no_grad():
        for layer in [*model.transformer.ar_channel.layers, *model.transformer.ar.layers]:
            layer.mha.m.copy_(layer.mha.m.abs())
    return model


def tensors(model: Vap) -> dict[str, torch.Tensor]:
    from spear_ray.networks.vap import codebook

    found = {key: value.clone() for key, value in model.state_dict().items()}
    found["objective.codebook.emb.weight"] = codebook()
    return found


def noise(seconds: float, batch: int | None = None, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (2, round(seconds * 16_000)) if batch is None else (batch, 2, round(seconds * 16_000))
    return 0.3 * torch.randn(shape, generator=generator)
