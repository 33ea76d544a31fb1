"""FlashAttention forward for Hopper: wgmma, TMA and warpgroups with roles of their own."""
