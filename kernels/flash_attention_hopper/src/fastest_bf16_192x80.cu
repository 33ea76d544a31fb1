// One of the kernels of the library of the fastest: the same sources, under names of its own.
// No stamps in them: a library has one place for those.
#undef PROFILER_TIMELINE
#define DTYPE 15
#define CONSUMERS 3
#define BLOCK_COLS 80
#define flash_attention_hopper flash_attention_hopper_bf16_192x80
#define flash_attention_hopper_launch flash_attention_hopper_bf16_192x80_launch
#define flash_attention_hopper_error_string flash_attention_hopper_bf16_192x80_error_string
#include "flash_attention_hopper.cu"
