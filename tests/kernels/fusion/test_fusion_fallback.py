"""Names of kernels as Nsight Compute prints them, and what they say of a compiled variant."""

import pytest

from fusion import space
from fusion.fallback import fell_back, is_library_kernel, plain_name

INDUCTOR = "triton_poi_fused_add_cos_maximum_mul_0"
REDUCTION = "triton_red_fused__softmax_0"
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<(int)4, at::native::cos_kernel_cuda"
    "(at::TensorIteratorBase &)::[lambda() (instance 2)]>(int, T2, T3)"
)
SOFTMAX = (
    "void at::native::<unnamed>::cunn_SoftMaxForwardReg<float, float, float, "
    "at::native::<unnamed>::SoftMaxForwardEpilogue, long, (int)8>(T3 *, const T1 *, T5)"
)
NAMED_AFTER_A_LIBRARY = "void at::native::elementwise_kernel<(int)128, gemm_and_convolution>(int)"
GEMMS = [
    "nvjet_sm90_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
    "sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_kernel",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nn_align1>(T1::Params)",
    "void cublasLt::splitKreduce_kernel<(int)32, (int)16, int, float>(T4)",
    "void gemv2T_kernel_val<int, int, float, float, float, float, (int)128>(T13)",
]
CONVOLUTIONS = [
    "sm90_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x32",
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, (bool)0, (bool)1>(T1)",
    "void implicit_convolve_sgemm<float, float, (int)128, (int)5, (int)5>(int)",
]
ATTENTIONS = [
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<(int)128>>(Flash_fwd_params)",
    "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel::Params)",
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_kernel0_0",
]


@pytest.mark.parametrize("name", [*GEMMS, *CONVOLUTIONS, *ATTENTIONS])
def test_kernels_of_libraries(name):
    assert is_library_kernel(name)
    assert not fell_back("compile", [name]), "inductor may call a library and nothing else"
    assert not fell_back("compile", [name, INDUCTOR])
    assert fell_back("compile", [name, ELEMENTWISE]), "an epilogue that eager code ran"


@pytest.mark.parametrize("name", [ELEMENTWISE, SOFTMAX, NAMED_AFTER_A_LIBRARY])
def test_kernels_of_eager_code(name):
    assert not is_library_kernel(name)
    assert fell_back("compile", [name])
    assert fell_back("compile", [name] * 4)
    assert not fell_back("eager", [name])


@pytest.mark.parametrize("name", [INDUCTOR, REDUCTION, f"{INDUCTOR}(float *, float *, int)"])
def test_kernels_of_inductor(name):
    assert not is_library_kernel(name)
    assert not fell_back("compile", [name])
    # A random number or a sort stays eager beside what was generated.
    assert not fell_back("compile", [ELEMENTWISE, name])


def test_plain_names():
    assert plain_name(SOFTMAX) == "at::native::cunn_SoftMaxForwardReg"
    profiled = "void (anonymous namespace)::softmax_warp_forward<float, float>(float*, int)"
    assert plain_name(profiled) == "softmax_warp_forward"
    assert plain_name(GEMMS[0]) == GEMMS[0]


def test_a_library_alone_is_enough_for_some_operators_only():
    compiled = {"implementation": "compile"}
    product = {"operator": "matmul_add", "dim0": 64, "dim1": 64}
    assert space.check_kernels(compiled, product, GEMMS[:1]) is None
    images = {"operator": "conv_batch_norm", "dim0": 64, "dim1": 64}
    eager = [CONVOLUTIONS[0], "void cudnn::bn_fw_inf_1C11_kernel_NCHW<float, float>(float)"]
    assert "fell back" in space.check_kernels(compiled, images, eager)
    assert space.check_kernels(compiled, images, [*eager, INDUCTOR]) is None


def test_without_names_nothing_is_told():
    assert not fell_back("compile", [])


def test_the_hook_gives_a_reason():
    problem = {"operator": "softmax", "dim0": 128, "dim1": 128}
    compiled = {"implementation": "compile"}
    assert space.check_kernels(compiled, problem, [INDUCTOR]) is None
    assert space.check_kernels({"implementation": "eager"}, problem, [SOFTMAX]) is None
    reason = space.check_kernels(compiled, problem, [ELEMENTWISE, SOFTMAX])
    assert reason == (
        "fell back: softmax was compiled, but of its 2 kernels none is inductor's; the first is "
        "at::native::vectorized_elementwise_kernel"
    )
