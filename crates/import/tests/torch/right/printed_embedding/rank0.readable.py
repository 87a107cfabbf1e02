class Vocabulary(torch.nn.Module):
    def forward(self, w: "f32[10, 4]", ids: "i64[2, 3]"):
        lt: "b8[2, 3]" = torch.ops.aten.lt.Scalar(ids, 0)
        ge: "b8[2, 3]" = torch.ops.aten.ge.Scalar(ids, 10)
        logical_or: "b8[2, 3]" = torch.ops.aten.logical_or.default(lt, ge);  lt = ge = None
        masked_fill: "i64[2, 3]" = torch.ops.aten.masked_fill.Scalar(ids, logical_or, 0);  ids = None
        embedding: "f32[2, 3, 4]" = torch.ops.aten.embedding.default(w, masked_fill);  w = masked_fill = None
        unsqueeze: "b8[2, 3, 1]" = torch.ops.aten.unsqueeze.default(logical_or, -1);  logical_or = None
        masked_fill_1: "f32[2, 3, 4]" = torch.ops.aten.masked_fill.Scalar(embedding, unsqueeze, 0.0);  embedding = unsqueeze = None
        all_reduce: "f32[2, 3, 4]" = torch.ops._c10d_functional.all_reduce.default(masked_fill_1, 'sum', '0');  masked_fill_1 = None
        wait_tensor: "f32[2, 3, 4]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        return (wait_tensor,)
