//! Tests that expressions in C++ and in Python have the same values as in the IR: random ones are
//! printed, compiled and run.

use crate::needs::{Need, found};
use kbc_backend_ascend::cpp::expr::{Plain, print};
use kbc_backend_ascend::cpp::helpers::{Helper, Helpers};
use kbc_backend_ascend::profile::known;
use kbc_ir::expr::{BinOp, Env, Expr, UnOp};
use kbc_ir::name::Name;
use kbc_tiles::package::python::expr as python_expr;
use kbc_tiles::range::range;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::process::Command;

const ORDER: [i64; 5] = [3, -1, 4, -1, 2_000_000_000];

/// A launch: values of the names that every kernel knows, and of `k`, whose range is unknown.
#[derive(Debug)]
struct Launch {
    nranks: i64,
    rank: i64,
    count: i64,
    call: i64,
    k: i64,
}

impl Env for Launch {
    fn var(&self, name: &Name) -> Option<i64> {
        match name.as_str() {
            "nranks" => Some(self.nranks),
            "rank" => Some(self.rank),
            "count" => Some(self.count),
            "call" => Some(self.call),
            "k" => Some(self.k),
            _ => None,
        }
    }
    fn table(&self, _: &Name, index: i64) -> Option<i64> {
        ORDER.get(usize::try_from(index).ok()?).copied()
    }
}

fn expr() -> impl Strategy<Value = Expr> {
    use BinOp::*;
    let leaf = prop_oneof![
        1 => select(vec![0, 1, 2, 3, 5, 16, 63, -1, -7, 4096, i64::MAX, i64::MIN]).prop_map(Expr::Int),
        3 => select(vec!["nranks", "rank", "count", "call", "k"]).prop_map(Expr::var),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        let un = select(vec![
            UnOp::Neg,
            UnOp::Not,
            UnOp::Log2,
            UnOp::CeilLog2,
            UnOp::Popcount,
            UnOp::Abs,
            UnOp::Sign,
        ]);
        let bin = select(vec![
            Add, Sub, Mul, Div, Mod, Div, Mod, Min, Max, And, Or, BitAnd, BitOr, Xor, Shl, Shr, Eq, Ne, Lt,
            Le, Gt, Ge,
        ]);
        prop_oneof![
            2 => (un, inner.clone()).prop_map(|(o, a)| Expr::Un(o, a.into())),
            8 => (bin, inner.clone(), inner.clone()).prop_map(|(o, a, b)| Expr::Bin(o, a.into(), b.into())),
            1 => (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(c, a, b)| Expr::Select(c.into(), a.into(), b.into())),
            1 => inner.prop_map(|i| Expr::Table("order".into(), i.into())),
        ]
    })
}

fn launch() -> impl Strategy<Value = Launch> {
    (1i64..64, 0i64..64, select(vec![0i64, 1, 7, 1000, 1 << 33]), 0i64..9, -20i64..20)
        .prop_map(|(nranks, r, count, call, k)| Launch { nranks, rank: r % nranks, count, call, k })
}

/// Returns expressions that have a value at their launch, with that value.
fn cases(n: usize) -> Vec<(Expr, Launch, i64)> {
    let mut runner = TestRunner::deterministic();
    let both = (expr(), launch());
    let mut out = vec![];
    while out.len() < n {
        let (e, l) = both.new_tree(&mut runner).expect("a case").current();
        if let Ok(v) = e.eval(&l) {
            out.push((e, l, v));
        }
    }
    out
}

/// Runs a command line and returns its output.
fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap_or_else(|e| panic!("{command:?} does not run: {e}"));
    assert!(ran.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

#[test]
fn values_in_cpp() {
    let cases = cases(600);
    let mut used = Helpers::default();
    let mut body = String::new();
    for (i, (e, l, v)) in cases.iter().enumerate() {
        let text = print(e, &Plain, &mut used);
        let args = format!("{}, {}, {}, {}, {}", l.nranks, l.rank, l.count, l.call, l.k);
        body += &format!(
            "static int64_t f{i}(int64_t nranks, int64_t rank, int64_t count, int64_t call, int64_t k) {{\n    \
             (void)nranks; (void)rank; (void)count; (void)call; (void)k;\n    return {text};\n}}\n\
             static void c{i}() {{ check({i}, f{i}({args}), INT64_C({}) + {}); }}\n",
            // The smallest value has no literal.
            v.wrapping_add(i64::from(*v == i64::MIN)),
            -i64::from(*v == i64::MIN),
        );
    }
    let helpers = [
        Helper::Mod,
        Helper::DivFloor,
        Helper::Min,
        Helper::Max,
        Helper::Abs,
        Helper::Sign,
        Helper::Log2,
        Helper::CeilLog2,
        Helper::Popcount,
        Helper::Entry,
    ];
    let text = used.text();
    for h in helpers {
        assert!(text.contains(&format!(" {}(", h.name())), "no case uses {h:?}");
    }
    let calls: String = (0..cases.len()).map(|i| format!("    c{i}();\n")).collect();
    let program = format!(
        "#include <cstdint>\n#include <cstdio>\n#define AICORE static\n#define __gm__\n\n{text}\n\
         static int32_t order[] = {{3, -1, 4, -1, 2000000000}};\nstatic int wrong = 0;\n\
         static void check(int i, int64_t is, int64_t want) {{\n    \
         if (is != want) {{ ++wrong; std::printf(\"case %d: %lld, not %lld\\n\", i, (long long)is, (long long)want); }}\n}}\n\
         {body}\nint main() {{\n{calls}    return wrong != 0;\n}}\n"
    );
    let folder = std::env::temp_dir().join(format!("kbc-cpp-expr-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("cases.cpp"), &program).expect("a file");
    let Some(compiler) = found(Need::Cxx) else { return };
    run(Command::new(compiler)
        .args(["-std=c++17", "-O0", "-Wall", "-Wextra", "-Wno-unused-function", "-o", "cases", "cases.cpp"])
        .current_dir(&folder));
    let ran = Command::new(folder.join("cases")).output().expect("it runs");
    let _ = std::fs::remove_dir_all(&folder);
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let first = said.split(' ').nth(1).and_then(|n| n.trim_end_matches(':').parse::<usize>().ok());
    let shown = first.map(|i| format!("{:?}: {}", cases[i].0, print(&cases[i].0, &Plain, &mut used)));
    assert!(ran.status.success(), "{said}{shown:?}");
}

#[test]
fn values_in_python() {
    let Some(python3) = found(Need::Python) else { return };
    let cases = cases(600);
    let mut program = String::from("order = [3, -1, 4, -1, 2000000000]\n");
    for (i, (e, l, v)) in cases.iter().enumerate() {
        let text = python_expr(e);
        let set = format!(
            "nranks, rank, count, call, k = {}, {}, {}, {}, {}",
            l.nranks, l.rank, l.count, l.call, l.k
        );
        program += &format!("{set}\nif ({text}) != {v}: print({i}, {text:?}, {text})\n");
    }
    let said = run(Command::new(python3).args(["-W", "ignore", "-c", &program]));
    assert_eq!(said, "");
}

/// No value is outside the bounds that are claimed for it.
#[test]
fn values_in_their_ranges() {
    let mut bounded = 0;
    for (e, l, v) in cases(5000) {
        let r = range(&e, &|n: &Name| known(n));
        assert!(r.contains(v), "{e} is {v} of {r:?}: {l:?}");
        bounded += usize::from(r.lo().is_some() || r.hi().is_some());
    }
    assert!(bounded > 1000, "{bounded}");
}

/// The most common forms print as a person would write them.
#[test]
fn plain_forms() {
    for (text, cpp) in [
        ("(rank + 1) % nranks", "(rank + 1) % nranks"),
        ("(rank - 1) % nranks", "Mod(rank - 1, nranks)"),
        ("(count + nranks - 1) / nranks", "(count + nranks - 1) / nranks"),
        ("k / 2", "DivFloor(k, 2)"),
        ("rank ^ 1 << k", "rank ^ (int64_t{1} << k)"),
        ("rank < 2 || rank == 4 && k != 1", "rank < 2 || (rank == 4 && k != 1)"),
        ("(rank < 2) + 1", "int64_t{rank < 2} + 1"),
        ("if k { 1 } else { rank }", "k != 0 ? 1 : rank"),
        ("2 * 3 - -1", "7"),
        ("rank - (k - 1)", "rank - (k - 1)"),
        ("rank * -1", "rank * (-1)"),
        ("@order[rank] + 1", "Entry(order, rank) + 1"),
    ] {
        let e = kbc_ir::text::parse_expr(kbc_diag::FileId(0), text).expect("an expression");
        assert_eq!(print(&e, &Plain, &mut Helpers::default()), cpp, "{text}");
    }
}
