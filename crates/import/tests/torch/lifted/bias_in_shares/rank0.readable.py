class Down(torch.nn.Module):
    def forward(self, x: "f32[5, 4]", w: "f32[3, 4]", b: "f32[3]"):
        permute: "f32[4, 3]" = torch.ops.aten.permute.default(w, [1, 0]);  w = None
        div: "f32[3]" = torch.ops.aten.div.Tensor(b, 2);  b = None
        addmm: "f32[5, 3]" = torch.ops.aten.addmm.default(div, x, permute);  div = x = permute = None
        all_reduce: "f32[5, 3]" = torch.ops._c10d_functional.all_reduce.default(addmm, 'sum', '0');  addmm = None
        wait_tensor: "f32[5, 3]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        return (wait_tensor,)
