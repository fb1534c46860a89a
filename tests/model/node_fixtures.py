#!/usr/bin/env python3
"""Writes tests/model/node/*.onnx: node tests that libonnx-testdata 1.12 is too old for.

Needs onnx 1.23 and torch 2.9 (CPU). A file is one model whose initializers also hold the
inputs ("input/NAME") and the outputs that are expected ("expected/NAME").
"""
import pathlib
import warnings

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import helper, numpy_helper

warnings.filterwarnings("ignore")
OUT = pathlib.Path(__file__).parent / "node"
OPSET = 23

# Of onnx's own node tests.
CASES = """
attention_3d_gqa_causal attention_4d_attn_mask_bool_4d attention_4d_attn_mask_3d_causal
attention_3d_diff_heads_sizes_scaled attention_4d_softcap attention_4d_gqa_attn_mask
group_normalization_epsilon resize_downsample_scales_linear_antialias
resize_downsample_scales_cubic_antialias resize_downsample_scales_linear_half_pixel_symmetric
resize_upsample_sizes_nearest_axes_3_2 reduce_max_bool_inputs scatternd_max
scatter_elements_with_reduction_max convtranspose_group_2 l1normalization_axis_1
rms_normalization_3d_axis1_epsilon gelu_tanh_1
""".split()


def write(name, model, inputs, outputs):
    for prefix, infos, arrays in (("input", model.graph.input, inputs),
                                  ("expected", model.graph.output, outputs)):
        for info, array in zip(infos, arrays):
            tensor = array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(
                np.asarray(array))
            tensor.name = f"{prefix}/{info.name}"
            model.graph.initializer.append(tensor)
    model.producer_name = ""
    (OUT / f"{name}.onnx").write_bytes(model.SerializeToString())


def of_onnx():
    from onnx.backend.test.case.node import collect_testcases
    wanted = {f"test_{name}": name for name in CASES}
    for case in collect_testcases(None):
        if case.name not in wanted:
            continue
        model = onnx.ModelProto()
        model.CopyFrom(case.model)
        model.opset_import[0].version = min(model.opset_import[0].version, OPSET)
        write(wanted.pop(case.name), model, *case.data_sets[0])
    assert not wanted, wanted


def of_torch(name, op, inputs, outputs, constants=(), opset=17, **attributes):
    """One node; `constants` follow the inputs as initializers."""
    arrays = [x.numpy() if isinstance(x, torch.Tensor) else x for x in inputs]
    results = [y.numpy() for y in outputs]
    info = lambda prefix, values: [
        helper.make_tensor_value_info(f"{prefix}{i}", helper.np_dtype_to_tensor_dtype(v.dtype),
                                      v.shape) for i, v in enumerate(values)]
    fixed = [numpy_helper.from_array(np.asarray(v), f"c{i}") for i, v in enumerate(constants)]
    names = [f"x{i}" for i in range(len(arrays))] + [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op, names, [f"y{i}" for i in range(len(results))], **attributes)
    graph = helper.make_graph([node], name, info("x", arrays), info("y", results), fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    write(name, model, arrays, results)


def all_of_torch():
    torch.manual_seed(1)
    x = torch.randn(2, 3, 4, 5)
    for mode, torch_mode in (("reflect", "reflect"), ("edge", "replicate"), ("wrap", "circular")):
        of_torch(f"pad_{mode}", "Pad", [x], [F.pad(x, (2, 1, 1, 2), mode=torch_mode)],
                 [np.array([0, 0, 1, 2, 0, 0, 2, 1])], opset=19, mode=mode)
    of_torch("pad_reflect_and_cut", "Pad", [x[0]], [F.pad(x[0], (2, 0), mode="reflect")[..., :-1]],
             [np.array([0, 0, 2, 0, 0, -1])], mode="reflect")
    a, b, c = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(5, 6)
    for name, equation, operands in (
            ("trans_b", "bij,bkj->bik", (a, b)),
            ("trans_a", "bji,bjk->bik", (a.transpose(1, 2), b.transpose(1, 2))),
            ("three", "bij,bkj,kl->li", (a, b, c)),
            ("outer", "bij,kl->bkijl", (a, c)),
            ("elementwise", "bij,ij->jbi", (a, torch.randn(3, 4))),
            ("ellipsis", "...ij,...jk->...ik", (torch.randn(7, 2, 3, 4), torch.randn(2, 4, 5).expand(7, 2, 4, 5))),
            ("reduced", "bij,bkj->b", (a, b)),
            ("diagonal", "iji,jk->ik", (torch.randn(3, 2, 3), torch.randn(2, 4)))):
        operands = [t.contiguous() for t in operands]
        of_torch(f"einsum_{name}", "Einsum", operands, [torch.einsum(equation, *operands)],
                 equation=equation)
    of_torch("global_lp_pool_3", "GlobalLpPool", [x], [x.abs().pow(3).sum((2, 3), True).pow(1 / 3)],
             p=3)
    of_torch("lp_pool_pads", "LpPool", [x], [F.lp_pool2d(F.pad(x, (1, 1, 0, 0)), 2, 2, 1)],
             kernel_shape=[2, 2], pads=[0, 1, 0, 1], p=2)
    v = torch.randn(2, 6, 7)
    scale = torch.tensor([1.5, -2.0, 0.5])
    of_torch("group_norm_18_scale_a_group", "GroupNormalization", [v],
             [F.group_norm(v, 3, scale.repeat_interleave(2), scale.repeat_interleave(2))],
             [scale.numpy(), scale.numpy()], opset=18, num_groups=3, epsilon=1e-5)
    s = torch.randn(1, 2, 6, 9, 4)
    of_torch("batch_norm_rank_6", "BatchNormalization", [s.reshape(1, 2, 3, 2, 9, 4)],
             [F.batch_norm(s, torch.tensor([.1, .2]), torch.tensor([2., 3.])).reshape(1, 2, 3, 2, 9, 4)],
             [np.ones(2, np.float32), np.zeros(2, np.float32), np.float32([.1, .2]), np.float32([2, 3])],
             epsilon=1e-5)
    w = torch.randn(6, 2, 3)
    of_torch("conv_transpose_1d", "ConvTranspose", [v], [
        F.conv_transpose1d(v, w, torch.arange(4.), stride=3, padding=1, output_padding=2, groups=2)],
        [w.numpy(), np.arange(4, dtype=np.float32)], strides=[3], pads=[1, 1], output_padding=[2], group=2)
    size = torch.tensor([3.5, -7.25, 0.0, 4.0])
    by = torch.tensor([2.0, 2.0, -3.0, -3.0])
    of_torch("mod_floats", "Mod", [size, by], [torch.fmod(size, by)], fmod=1)
    of_torch("clip_by_data", "Clip", [x, torch.tensor(-0.5), torch.tensor(0.25)],
             [x.clamp(-0.5, 0.25)])
    n = torch.tensor([[3, -4, 5], [-1, 0, 2]])
    of_torch("clip_integers", "Clip", [n], [n.clamp(-1, 3)], [np.array(-1), np.array(3)])
    of_torch("relu_integers", "Relu", [n], [n.relu()])
    of_torch("reduce_log_sum_exp_large", "ReduceLogSumExp", [x * 200],
             [torch.logsumexp(x * 200, (1, 3))], axes=[1, 3], keepdims=0)
    y = x.abs() + 0.5
    of_torch("resize_bicubic_torch", "Resize", [y],
             [F.interpolate(y, size=(7, 3), mode="bicubic", align_corners=False)],
             [np.float32([]), np.float32([]), np.array([2, 3, 7, 3])], mode="cubic",
             coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75)
    of_torch("resize_trilinear_torch", "Resize", [s],
             [F.interpolate(s, size=(3, 5, 8), mode="trilinear", align_corners=True)],
             [np.float32([]), np.float32([]), np.array([1, 2, 3, 5, 8])], mode="linear",
             coordinate_transformation_mode="align_corners")
    of_torch("where_flags", "Where", [n > 0, n > 2, n < 0], [torch.where(n > 0, n > 2, n < 0)])


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    of_onnx()
    all_of_torch()
