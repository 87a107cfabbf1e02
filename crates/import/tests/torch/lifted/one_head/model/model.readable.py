class Program(torch.nn.Module):
    def forward(self, x: "f32[6, 8]", a: "f32[8, 8]", o: "f32[8, 8]"):
        mm: "f32[6, 8]" = torch.ops.aten.mm.default(x, a)
        view: "f32[6, 2, 4]" = torch.ops.aten.view.default(mm, [6, 2, 4])
        permute: "f32[2, 6, 4]" = torch.ops.aten.permute.default(view, [1, 0, 2])
        permute_1: "f32[2, 4, 6]" = torch.ops.aten.permute.default(permute, [0, 2, 1])
        bmm: "f32[2, 6, 6]" = torch.ops.aten.bmm.default(permute, permute_1)
        softmax: "f32[2, 6, 6]" = torch.ops.aten._softmax.default(bmm, -1, False)
        bmm_1: "f32[2, 6, 4]" = torch.ops.aten.bmm.default(softmax, permute)
        permute_2: "f32[6, 2, 4]" = torch.ops.aten.permute.default(bmm_1, [1, 0, 2])
        view_1: "f32[6, 8]" = torch.ops.aten.view.default(permute_2, [6, 8])
        mm_1: "f32[6, 8]" = torch.ops.aten.mm.default(view_1, o)
        return (mm_1,)
