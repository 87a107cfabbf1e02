class f(torch.nn.Module):
    def forward(self, x: "f32[s77, 2]"):
        relu: "f32[s77, 2]" = torch.ops.aten.relu.default(x)
        return (relu,)
