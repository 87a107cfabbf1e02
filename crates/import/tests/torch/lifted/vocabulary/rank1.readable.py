class Vocabulary(torch.nn.Module):
    def forward(self, w: "f32[5, 4]", ids: "i64[2, 3]"):
        # File: vocab.py:9 in forward, code: mask = (ids < first) | (ids >= last)
        lt: "b8[2, 3]" = torch.ops.aten.lt.Scalar(ids, 5)
        ge: "b8[2, 3]" = torch.ops.aten.ge.Scalar(ids, 10)
        logical_or: "b8[2, 3]" = torch.ops.aten.logical_or.default(lt, ge);  lt = ge = None
        # File: vocab.py:10 in forward, code: local = (ids - first).masked_fill(mask, 0)
        sub: "i64[2, 3]" = torch.ops.aten.sub.Tensor(ids, 5);  ids = None
        masked_fill: "i64[2, 3]" = torch.ops.aten.masked_fill.Scalar(sub, logical_or, 0);  sub = None
        embedding: "f32[2, 3, 4]" = torch.ops.aten.embedding.default(w, masked_fill);  w = masked_fill = None
        # File: vocab.py:12 in forward, code: out = out.masked_fill(mask.unsqueeze(-1), 0.0)
        unsqueeze: "b8[2, 3, 1]" = torch.ops.aten.unsqueeze.default(logical_or, -1);  logical_or = None
        masked_fill_1: "f32[2, 3, 4]" = torch.ops.aten.masked_fill.Scalar(embedding, unsqueeze, 0.0);  embedding = unsqueeze = None
        all_reduce: "f32[2, 3, 4]" = torch.ops._c10d_functional.all_reduce.default(masked_fill_1, 'sum', '0');  masked_fill_1 = None
        wait_tensor: "f32[2, 3, 4]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        return (wait_tensor,)
