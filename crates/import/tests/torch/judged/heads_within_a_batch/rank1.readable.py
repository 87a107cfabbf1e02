class Program(torch.nn.Module):
    def forward(self, q: "f32[2, 2, 3, 4]", o: "f32[8, 8]"):
        view: "f32[4, 3, 4]" = torch.ops.aten.view.default(q, [4, 3, 4])
        softmax: "f32[4, 3, 4]" = torch.ops.aten._softmax.default(view, -1, False)
        view_1: "f32[2, 2, 3, 4]" = torch.ops.aten.view.default(softmax, [2, 2, 3, 4])
        permute: "f32[2, 3, 2, 4]" = torch.ops.aten.permute.default(view_1, [0, 2, 1, 3])
        view_2: "f32[6, 8]" = torch.ops.aten.view.default(permute, [6, 8])
        mm: "f32[6, 8]" = torch.ops.aten.mm.default(view_2, o)
        all_reduce: "f32[6, 8]" = torch.ops._c10d_functional.all_reduce.default(mm, 'sum', '0')
        wait_tensor: "f32[6, 8]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce)
        return (wait_tensor,)
