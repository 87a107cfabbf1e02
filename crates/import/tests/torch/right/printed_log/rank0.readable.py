[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs] TRACED GRAPH
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]  ===== Forward graph 0 =====
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]  /lib/torch/fx/_lazy_graph_module.py class <lambda>(torch.nn.Module):
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]     def forward(self, arg0_1: "f32[4, 6][6, 1]cuda:0", arg1_1):
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         # File: mlp.py:5 in step, code: y = x.relu()
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         relu: "f32[4, 6][6, 1]cuda:0" = torch.ops.aten.relu.default(arg0_1);  arg0_1 = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         _tensor_constant0: "f32[6]" = self._tensor_constant0
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         mul: "f32[4, 6][6, 1]cuda:0" = torch.ops.aten.mul.Tensor(relu, _tensor_constant0);  relu = _tensor_constant0 = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         l_x_ = mul
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         all_reduce: "f32[4, 6][6, 1]cuda:0" = torch.ops._c10d_functional.all_reduce(l_x_, "sum", "7");  mul = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         wait: "f32[4, 6][6, 1]cuda:0" = torch.ops._c10d_functional.wait_tensor(all_reduce);  all_reduce = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         chunk = torch.ops.aten.chunk.default(wait, 2, -1);  wait = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         part: "f32[4, 3][6, 1]cuda:0" = chunk[1];  chunk = None
[rank0]:V1121 07:54:42.709000 11056 torch/_dynamo/output_graph.py:2987] [0/0] [__aot_graphs]         return [part, arg1_1, None]
