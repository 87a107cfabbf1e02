class Program(torch.nn.Module):
    def forward(self, x: "f32[6, 8]", v: "f32[8, 4]", w: "f32[4, 8]"):
        mm: "f32[6, 4]" = torch.ops.aten.mm.default(x, v)
        relu: "f32[6, 4]" = torch.ops.aten.relu.default(mm)
        mm_1: "f32[6, 8]" = torch.ops.aten.mm.default(relu, w)
        return (mm_1,)
