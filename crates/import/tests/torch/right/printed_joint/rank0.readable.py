class joint(torch.nn.Module):
    def forward(self, primals, tangents):
        primals_1: "f32[4, 2]";  tangents_1: "f32[4, 2]";

        primals_1, primals_2, tangents_1, = fx_pytree.tree_flatten_spec([primals, tangents], self._in_spec)
        # No stacktrace found for following nodes
        mm: "f32[4, 2]" = torch.ops.aten.gelu_backward.default(tangents_1, primals_1, approximate = 'tanh');  tangents_1 = primals_1 = None
        le: "b8[4, 2]" = torch.ops.aten.le.Scalar(mm, 0.0)
        any_1: "b8[4]" = torch.ops.aten.any.dim(le, 1);  le = None
        not_1: "b8[4]" = torch.ops.aten.logical_not.default(any_1);  any_1 = None
        unsqueeze: "b8[4, 1]" = torch.ops.aten.unsqueeze.default(not_1, 1);  not_1 = None
        expand: "b8[4, 2]" = torch.ops.aten.expand.default(unsqueeze, [4, 2]);  unsqueeze = None
        masked_fill: "f32[4, 2]" = torch.ops.aten.masked_fill.Scalar(mm, expand, 1.0);  mm = expand = None
        return pytree.tree_unflatten([masked_fill, None], self._out_spec)
