class Down(torch.nn.Module):
    def forward(self, x: "f32[5, 4]", w: "f32[4, 3]", b: "f32[3]"):
        mul: "f32[3]" = torch.ops.aten.mul.Tensor(b, 1.0);  b = None
        addmm: "f32[5, 3]" = torch.ops.aten.addmm.default(mul, x, w);  mul = x = w = None
        all_reduce: "f32[5, 3]" = torch.ops._c10d_functional.all_reduce.default(addmm, 'sum', '0');  addmm = None
        wait_tensor: "f32[5, 3]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        return (wait_tensor,)
