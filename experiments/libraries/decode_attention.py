"""Attention of one new token on a cache, 4 heads a key. Packages: torch, flashinfer-python."""

import torch
import torch.nn.functional as F

import profiler

decode = profiler.Experiment("decode-attention", problems={"length": [1024, 8192, 65536]})

@decode.inputs
def normal_bfloat16(length):
    q, cache = torch.randn(32, 128).bfloat16(), torch.randn(2, length, 8, 128).bfloat16()
    return q, *cache.unbind()

@decode.variant(baseline=True, tags="torch", tolerance={"bfloat16": {"absolute": 1e-2}})
def eager(q, k, v):
    keys, values = k.transpose(0, 1)[None], v.transpose(0, 1)[None]
    return F.scaled_dot_product_attention(q[None, :, None], keys, values, enable_gqa=True)[0, :, 0]

@decode.variant(setup=True, tags="torch", tolerance={"bfloat16": {"absolute": 1e-2}})
def compiled_by_hand(q, k, v):
    def attention(q, k, v):
        weights = torch.einsum("hgd,lhd->hgl", q.view(8, 4, 128).float(), k.float()) / 128**0.5
        return torch.einsum("hgl,lhd->hgd", weights.softmax(-1), v.float()).reshape(q.shape).to(q)
    return lambda run=torch.compile(attention, dynamic=False): run(q, k, v)

@decode.variant(setup=True, tags="library")
def flashinfer(q, k, v):
    from flashinfer.decode import single_decode_with_kv_cache
    return lambda: single_decode_with_kv_cache(q, k, v)
