// One of the kernels of the library of the fastest: the same sources, under names of its own.
// No stamps in them: a library has one place for those.
#undef PROFILER_TIMELINE
#define DTYPE 5
#define CONSUMERS 2
#define BLOCK_COLS 128
#define flash_attention_hopper flash_attention_hopper_fp16_128x128
#define flash_attention_hopper_launch flash_attention_hopper_fp16_128x128_launch
#define flash_attention_hopper_error_string flash_attention_hopper_fp16_128x128_error_string
#include "flash_attention_hopper.cu"
