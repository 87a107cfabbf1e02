class Program(torch.nn.Module):
    def forward(self, x: "f32[6, 8]", a: "f32[8, 4]", o: "f32[4, 8]"):
        mm: "f32[6, 4]" = torch.ops.aten.mm.default(x, a)
        view: "f32[6, 1, 4]" = torch.ops.aten.view.default(mm, [6, 1, 4])
        select: "f32[6, 4]" = torch.ops.aten.select.int(view, 1, 0)
        permute: "f32[4, 6]" = torch.ops.aten.permute.default(select, [1, 0])
        mm_2: "f32[6, 6]" = torch.ops.aten.mm.default(select, permute)
        softmax: "f32[6, 6]" = torch.ops.aten._softmax.default(mm_2, -1, False)
        mm_3: "f32[6, 4]" = torch.ops.aten.mm.default(softmax, select)
        mm_1: "f32[6, 8]" = torch.ops.aten.mm.default(mm_3, o)
        all_reduce: "f32[6, 8]" = torch.ops._c10d_functional.all_reduce.default(mm_1, 'sum', '0')
        wait_tensor: "f32[6, 8]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce)
        return (wait_tensor,)
