class Experts(torch.nn.Module):
    def forward(self, x: "f32[5, 4]", gate: "f32[4, 6]", up: "f32[6, 4, 7]", down: "f32[6, 7, 4]"):
        mm: "f32[5, 6]" = torch.ops.aten.mm.default(x, gate)
        _softmax: "f32[5, 6]" = torch.ops.aten._softmax.default(mm, 1, False)
        unsqueeze: "f32[1, 5, 4]" = torch.ops.aten.unsqueeze.default(x, 0)
        expand: "f32[6, 5, 4]" = torch.ops.aten.expand.default(unsqueeze, [6, 5, 4])
        bmm: "f32[6, 5, 7]" = torch.ops.aten.bmm.default(expand, up)
        relu: "f32[6, 5, 7]" = torch.ops.aten.relu.default(bmm)
        bmm_1: "f32[6, 5, 4]" = torch.ops.aten.bmm.default(relu, down)
        permute: "f32[6, 5]" = torch.ops.aten.permute.default(_softmax, [1, 0])
        unsqueeze_1: "f32[6, 5, 1]" = torch.ops.aten.unsqueeze.default(permute, 2)
        mul: "f32[6, 5, 4]" = torch.ops.aten.mul.Tensor(bmm_1, unsqueeze_1)
        sum_1: "f32[5, 4]" = torch.ops.aten.sum.dim_IntList(mul, [0])
        return (sum_1,)
