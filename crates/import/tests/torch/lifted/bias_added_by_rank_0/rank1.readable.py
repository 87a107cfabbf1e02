class Down(torch.nn.Module):
    def forward(self, x: "f32[5, 4]", w: "f32[4, 3]", b: "f32[3]"):
        mm: "f32[5, 3]" = torch.ops.aten.mm.default(x, w);  x = w = None
        all_reduce: "f32[5, 3]" = torch.ops._c10d_functional.all_reduce.default(mm, 'sum', '0');  mm = None
        wait_tensor: "f32[5, 3]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        return (wait_tensor,)
