class Loss(torch.nn.Module):
    def forward(self, x: "f32[3, 4]", w: "f32[4, 5]", ids: "i64[3]"):
        mm: "f32[3, 5]" = torch.ops.aten.mm.default(x, w);  x = w = None
        amax: "f32[3, 1]" = torch.ops.aten.amax.default(mm, [1], True)
        all_reduce: "f32[3, 1]" = torch.ops._c10d_functional.all_reduce.default(amax, 'max', '0');  amax = None
        wait_tensor: "f32[3, 1]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce);  all_reduce = None
        sub: "f32[3, 5]" = torch.ops.aten.sub.Tensor(mm, wait_tensor);  mm = wait_tensor = None
        exp: "f32[3, 5]" = torch.ops.aten.exp.default(sub)
        sum_1: "f32[3, 1]" = torch.ops.aten.sum.dim_IntList(exp, [1], True);  exp = None
        all_reduce_1: "f32[3, 1]" = torch.ops._c10d_functional.all_reduce.default(sum_1, 'sum', '0');  sum_1 = None
        wait_tensor_1: "f32[3, 1]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce_1);  all_reduce_1 = None
        lt: "b8[3]" = torch.ops.aten.lt.Scalar(ids, 0)
        ge: "b8[3]" = torch.ops.aten.ge.Scalar(ids, 5)
        logical_or: "b8[3]" = torch.ops.aten.logical_or.default(lt, ge);  lt = ge = None
        sub_1: "i64[3]" = torch.ops.aten.sub.Tensor(ids, 0);  ids = None
        masked_fill: "i64[3]" = torch.ops.aten.masked_fill.Scalar(sub_1, logical_or, 0);  sub_1 = None
        unsqueeze: "i64[3, 1]" = torch.ops.aten.unsqueeze.default(masked_fill, 1);  masked_fill = None
        gather: "f32[3, 1]" = torch.ops.aten.gather.default(sub, 1, unsqueeze);  sub = unsqueeze = None
        unsqueeze_1: "b8[3, 1]" = torch.ops.aten.unsqueeze.default(logical_or, 1);  logical_or = None
        masked_fill_1: "f32[3, 1]" = torch.ops.aten.masked_fill.Scalar(gather, unsqueeze_1, 0.0);  gather = unsqueeze_1 = None
        all_reduce_2: "f32[3, 1]" = torch.ops._c10d_functional.all_reduce.default(masked_fill_1, 'sum', '0');  masked_fill_1 = None
        wait_tensor_2: "f32[3, 1]" = torch.ops._c10d_functional.wait_tensor.default(all_reduce_2);  all_reduce_2 = None
        log: "f32[3, 1]" = torch.ops.aten.log.default(wait_tensor_1);  wait_tensor_1 = None
        sub_2: "f32[3, 1]" = torch.ops.aten.sub.Tensor(log, wait_tensor_2);  log = wait_tensor_2 = None
        return (sub_2,)
