class Program(torch.nn.Module):
    def forward(self, x: "f32[6, 8]", g: "f32[8, 2]", e: "f32[1, 8, 8]"):
        mm: "f32[6, 2]" = torch.ops.aten.mm.default(x, g)
        softmax: "f32[6, 2]" = torch.ops.aten._softmax.default(mm, 1, False)
        slice_1: "f32[6, 1]" = torch.ops.aten.slice.Tensor(softmax, 1, 1, 2)
        select: "f32[8, 8]" = torch.ops.aten.select.int(e, 0, 0)
        mm_1: "f32[6, 8]" = torch.ops.aten.mm.default(x, select)
        mul: "f32[6, 8]" = torch.ops.aten.mul.Tensor(slice_1, mm_1)
        all_reduce: "f32[6, 8]" = torch.ops._c10d_functional.all_reduce.default(mul, 'sum', '0')
        wait_tensor: "f32[6, 8]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce)
        return (wait_tensor,)
