//! Properties of the text form of kernels: any printed kernel parses to the same kernel, and no
//! damaged text makes the parser panic.

use crate::kernels::parse;
use kbc_backend_ascend::profile::DIALECT;
use kbc_diag::FileId;
use kbc_ir::expr::{BinOp, Expr, UnOp};
use kbc_ir::name::Name;
use kbc_ir::scalar::CompareOp;
use kbc_ir::types::DType;
use kbc_tiles::tile::text::print;
use kbc_tiles::tile::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Names of all kinds: plain, dotted, keywords, names that need quotes, empty.
fn name() -> impl Strategy<Value = Name> {
    let words = select(vec!["r", "min", "mod", "a.b", "at", "x", "by", "per", "in", "let", "mask", "all"]);
    prop_oneof![
        words.prop_map(Name::from),
        "[a-z][a-z0-9_]{0,5}".prop_map(Name::from),
        ".{0,4}".prop_map(Name::from),
        "[`\"\\\\ \\n#@$%0-9]{0,3}".prop_map(Name::from),
    ]
}

fn expr() -> impl Strategy<Value = Expr> {
    use BinOp::*;
    let leaf = prop_oneof![
        any::<i64>().prop_map(Expr::Int),
        (0i64..9).prop_map(Expr::Int),
        name().prop_map(Expr::Var)
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        let un = select(vec![UnOp::Neg, UnOp::Not, UnOp::Log2, UnOp::Abs]);
        let bin = select(vec![Add, Sub, Mul, Div, Mod, Min, Or, BitOr, Xor, Shl, Eq, Lt, Ge]);
        prop_oneof![
            (un, inner.clone()).prop_map(|(o, a)| Expr::Un(o, a.into())),
            (bin, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Expr::Bin(o, a.into(), b.into())),
            (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| Expr::Select(
                c.into(),
                a.into(),
                b.into()
            )),
            (name(), inner).prop_map(|(n, i)| Expr::Table(n, i.into())),
        ]
    })
}

/// Declarations: a few of each kind, with equal names among them. Scalars and tables have distinct
/// names.
fn declarations() -> impl Strategy<Value = Kernel> {
    let dtype = || select(DType::ALL.to_vec());
    let tensor = (name(), dtype(), expr(), any::<[bool; 2]>(), any::<u32>()).prop_map(
        |(name, dtype, len, is, index)| {
            let access = if is[0] { TensorUse::Out } else { TensorUse::In };
            let reach = if is[1] { Reach::Peers } else { Reach::Own };
            Tensor { name, dtype, len, access, index, reach }
        },
    );
    let values = prop::collection::btree_map(any::<u64>(), prop::collection::vec(any::<i64>(), 0..4), 0..3);
    let signals = (name(), expr(), expr(), prop::option::of(expr()))
        .prop_map(|(name, count, per_call, at)| Signals { name, count, per_call, at });
    let area = (name(), dtype(), expr(), expr(), any::<bool>(), any::<u32>(), prop::option::of(expr()))
        .prop_map(|(name, dtype, slots, capacity, own, arena, at)| {
            let reach = if own { Reach::Own } else { Reach::Peers };
            Area { name, dtype, slots, capacity, reach, arena, at }
        });
    let space = select(Space::ALL.to_vec());
    let tile =
        (name(), dtype(), space, any::<u32>(), any::<u32>(), any::<u32>(), prop::option::of(any::<u32>()))
            .prop_map(|(name, dtype, space, rows, elements, copies, at)| {
                let rows = if space == Space::Vector { 1 } else { rows };
                Tile { name, dtype, space, rows, elements, copies, at }
            });
    (
        name(),
        prop::collection::btree_set(name(), 0..3),
        prop::collection::vec(tensor, 1..4),
        prop::collection::btree_map(name(), values, 0..3),
        prop::collection::vec(signals, 1..4),
        prop::collection::vec(area, 1..4),
        prop::collection::vec(tile, 1..4),
        (select(Core::ALL.to_vec()), 1u32..5),
    )
        .prop_map(|(name, scalars, tensors, tables, signals, areas, tiles, (core, cores))| Kernel {
            dialect: &DIALECT,
            name,
            core,
            cores,
            scalars: scalars.into_iter().collect(),
            root: None,
            tensors: tensors.into(),
            tables: tables.into_iter().map(|(name, values)| Table { name, values }).collect(),
            signals: signals.into(),
            areas: areas.into(),
            tiles,
            body: vec![],
        })
}

fn operation() -> impl Strategy<Value = Op> {
    let tile = || (0u32..1).prop_map(TileId);
    let gm = || {
        (any::<bool>(), expr(), expr(), prop::option::of(expr())).prop_map(|(tensor, slot, offset, peer)| {
            if tensor {
                Gm { object: Object::Tensor(TensorId(0)), slot: Expr::Int(0), offset, peer }
            } else {
                Gm { object: Object::Area(AreaId(0)), slot, offset, peer }
            }
        })
    };
    let number = prop_oneof![
        any::<f64>().prop_filter("NaN is equal to nothing", |v| !v.is_nan()),
        (-4i32..5).prop_map(|v| f64::from(v) / 2.0),
    ];
    let arg = prop_oneof![tile().prop_map(VArg::Tile), number.prop_map(VArg::Num)];
    let vector = (select(VecOp::ALL.to_vec()), tile(), prop::collection::vec(arg, 2), expr()).prop_map(
        |(op, dst, mut args, len)| {
            args.truncate(op.arity());
            Op::Vector { op, dst, args, len }
        },
    );
    let compare = select(vec![
        CompareOp::Eq,
        CompareOp::Ne,
        CompareOp::Lt,
        CompareOp::Le,
        CompareOp::Gt,
        CompareOp::Ge,
    ]);
    let choice = (compare, prop::collection::vec(tile(), 6), expr()).prop_map(|(cmp, t, len)| Op::Select {
        cmp,
        dst: t[0],
        a: t[1],
        b: t[2],
        x: t[3],
        y: t[4],
        mask: t[5],
        len,
    });
    let pipe = || select(Pipe::ALL.to_vec());
    let flag = (any::<bool>(), pipe(), pipe(), any::<u8>()).prop_map(|(set, from, to, event)| match set {
        true => Op::SetFlag { from, to, event },
        false => Op::WaitFlag { from, to, event },
    });
    let plain = vec![Op::Release, Op::Acquire, Op::Complete, Op::Barrier(Barrier::All), Op::MemoryBarrier];
    let signals = || (0u32..1).prop_map(SignalsId);
    prop_oneof![
        (tile(), expr(), gm()).prop_map(|(tile, len, from)| Op::Load { tile, len, from }),
        (tile(), expr(), gm()).prop_map(|(tile, len, to)| Op::Store { to, tile, len }),
        vector,
        choice,
        (tile(), tile(), select(Rounding::ALL.to_vec())).prop_map(|(dst, src, rounding)| Op::Convert {
            dst,
            src,
            rounding
        }),
        (select(vec![VecOp::Add, VecOp::Max, VecOp::Min]), tile(), tile(), tile(), expr())
            .prop_map(|(op, dst, src, work, len)| Op::Reduce { op, dst, src, work, len }),
        (tile(), tile(), expr()).prop_map(|(dst, src, len)| Op::Expand { dst, src, len }),
        (tile(), tile(), expr()).prop_map(|(dst, src, len)| Op::Spread { dst, src, len }),
        (tile(), expr(), gm(), expr()).prop_map(|(tile, len, from, pitch)| Op::LoadRows {
            tile,
            len,
            from,
            pitch
        }),
        (tile(), expr(), gm(), expr()).prop_map(|(tile, len, to, pitch)| Op::StoreRows {
            to,
            pitch,
            tile,
            len
        }),
        (tile(), expr(), expr()).prop_map(|(dst, value, len)| Op::Index { dst, value, len }),
        (tile(), expr(), expr()).prop_map(|(ids, index, first)| Op::Choose { ids, index, first }),
        (tile(), expr(), gm(), expr(), expr()).prop_map(|(tile, len, from, pitch, rows)| Op::LoadRow {
            tile,
            len,
            from,
            pitch,
            rows
        }),
        (tile(), expr(), expr(), gm(), expr()).prop_map(|(tile, rows, cols, from, pitch)| Op::LoadBlock {
            tile,
            rows,
            cols,
            from,
            pitch
        }),
        (tile(), expr(), expr(), gm(), expr()).prop_map(|(tile, rows, cols, to, pitch)| Op::StoreBlock {
            tile,
            rows,
            cols,
            to,
            pitch
        }),
        (tile(), tile(), [expr(), expr()], expr(), expr())
            .prop_map(|(dst, src, from, rows, cols)| Op::Move { dst, src, from, rows, cols }),
        (tile(), tile(), tile(), expr(), expr(), expr(), any::<bool>())
            .prop_map(|(dst, left, right, m, n, k, add)| Op::Matmul { dst, left, right, m, n, k, add }),
        (expr(), signals(), expr()).prop_map(|(peer, signals, index)| Op::Notify { peer, signals, index }),
        (signals(), expr(), expr()).prop_map(|(signals, index, value)| Op::Wait { signals, index, value }),
        select(plain),
        pipe().prop_map(|p| Op::Barrier(Barrier::Pipe(p))),
        flag,
    ]
}

fn rows() -> impl Strategy<Value = Option<TileRows>> {
    let some = (name(), name(), any::<u32>());
    prop::option::of(some.prop_map(|(first, count, elements)| TileRows { first, count, elements }))
}

fn statement() -> impl Strategy<Value = Stmt> {
    let leaf = prop_oneof![
        4 => operation().prop_map(Stmt::Op),
        1 => (name(), expr()).prop_map(|(name, value)| Stmt::Let { name, value }),
        1 => (".{0,6}", ".{0,6}").prop_map(|(place, text)| Stmt::Note { place, text }),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        let body = || prop::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            (name(), expr(), expr(), body()).prop_map(|(var, lo, hi, body)| Stmt::For { var, lo, hi, body }),
            (expr(), body(), body()).prop_map(|(cond, then, other)| Stmt::If { cond, then, other }),
            (prop::collection::vec((0u32..1).prop_map(TileId), 1..3), expr(), body())
                .prop_map(|(tiles, by, body)| Stmt::Turn { tiles, by, body }),
            (name(), any::<bool>(), 1u32..4, body()).prop_map(|(name, cube, cores, body)| Stmt::Task {
                name,
                core: if cube { Core::Matrix } else { Core::Vector },
                cores,
                body
            }),
            (name(), name(), expr(), any::<u32>(), any::<bool>(), rows(), body()).prop_map(
                |(pos, len, total, step, twice, rows, body)| {
                    Stmt::Tiles { pos, len, total, step, twice, rows, body }
                }
            ),
        ]
    })
}

fn kernel() -> impl Strategy<Value = Kernel> {
    (declarations(), prop::collection::vec(statement(), 0..6)).prop_map(|(k, body)| Kernel { body, ..k })
}

fn good_texts() -> Vec<String> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile/good");
    let entries = std::fs::read_dir(root).expect("the folder is there");
    let mut paths: Vec<_> = entries.map(|e| e.expect("the folder can be read").path()).collect();
    paths.sort();
    paths.iter().map(|p| std::fs::read_to_string(p).expect("it can be read")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn kernels_read_back(k in kernel()) {
        let text = print(&k);
        let again = parse(&text, FileId(0)).map_err(|d| TestCaseError::fail(format!("{text}\n{d:?}")))?;
        prop_assert_eq!(again, k, "{}", text);
    }

    /// A good text with one word or line dropped, doubled, or replaced by another one of the text,
    /// is parsed or rejected.
    #[test]
    fn damaged_texts_are_read_or_refused(
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        other in any::<prop::sample::Index>(),
        how in 0..6,
    ) {
        let texts = good_texts();
        let text = pick.get(&texts);
        let cut = |sign: &str| text.split_inclusive(sign).map(String::from).collect::<Vec<_>>();
        let mut parts = if how < 3 { cut(" ") } else { cut("\n") };
        let (i, j) = (at.index(parts.len()), other.index(parts.len()));
        match how % 3 {
            0 => drop(parts.remove(i)),
            1 => parts.insert(i, parts[i].clone()),
            _ => parts[i] = parts[j].clone(),
        }
        let damaged = parts.concat();
        match parse(&damaged, FileId(0)) {
            Ok(k) => {
                let printed = print(&k);
                prop_assert_eq!(parse(&printed, FileId(0)).ok(), Some(k), "{}", printed);
            }
            Err(faults) => for d in &faults.list {
                let span = d.span();
                prop_assert!(span.start <= span.end && span.end as usize <= damaged.len(), "{:?}", d);
            },
        }
    }

    #[test]
    fn any_text_is_read_or_refused(
        text in "(tile 1\nkernel @k aiv\n(tile \\$a : f32[8]\n)?)?([a-z %@#$`\"\\[\\]();:=0-9.-]{0,12}\n){0,6}.{0,20}",
    ) {
        let _ = parse(&text, FileId(0));
    }
}

/// Every prefix of every good text is parsed or rejected.
#[test]
fn truncated_texts_are_read_or_refused() {
    for text in good_texts() {
        for (at, _) in text.char_indices().filter(|(i, _)| i % 7 == 0) {
            let _ = parse(&text[..at], FileId(0));
        }
    }
}

/// Texts that try to exhaust the stack are rejected.
#[test]
fn deep_texts_are_refused() {
    let head = "tile 1\nkernel @k aiv\n\nbody\n";
    let deep = format!("{head}  let x = {}1{}\n", "(".repeat(100_000), ")".repeat(100_000));
    let nested: String = (1..2000).map(|n| format!("{}if 1\n", " ".repeat(n))).collect();
    for text in [deep, format!("{head}{nested}")] {
        assert!(parse(&text, FileId(0)).is_err());
    }
}
