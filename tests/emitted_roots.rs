//! Tests of kernels whose launches take a root: every element, on the stand-in, for every root.

use crate::emitting::Case;
use crate::standin::{KernelArg, Run};

/// Returns the kernel of a program of one collective on four ranks.
fn emitted(signature: &str, body: &str) -> Case {
    let text = format!(
        "param tp = 4\nparam n = 100\ntopology sys = full(tp)\nmesh m = sys[tp]\nprogram case{signature} {{ {body} }}\n"
    );
    Case::new(&text, &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// A launch takes any rank as its root: the kernel counts ranks from it. The kernel of a reduction
/// for more ranks serves two ranks too.
#[test]
fn roots() {
    let sent = ("(x: f32[n] only(1@tp)) -> f32[n]", "broadcast(x, over: tp, using: ALG)");
    let reduced =
        ("(x: f32[n] partial(sum@tp)) -> f32[n] only(0@tp)", "reduce(x, sum, to: 0, over: tp, using: ALG)");
    for (signature, body) in [sent, reduced] {
        for name in ["direct", "binomial", "binary_tree"] {
            let mut case = emitted(signature, &body.replace("ALG", name));
            let ranks = case.ranks();
            let two = name == "binomial" || (signature == reduced.0 && name == "direct");
            assert!(ranks.contains(&2) || !two, "{name}: {body}: {ranks:?}");
            let own = case.kernel.root;
            assert!(own.is_some() && case.root == own);
            for p in ranks.into_iter().filter(|p| [2, 3, 5].contains(p)) {
                for root in 0..p {
                    case.root = Some(root);
                    case.check(&[(p, 1), (p, 4096 + 5)], 3);
                }
            }
            // A test of the test: data of another root is wrong.
            case.root = Some(2);
            let Some((mut sized, _)) = case.outputs(3, 7, 1) else { return };
            let is_root = |a: &KernelArg| matches!(a, KernelArg::Scalar(v) if *v == [2]);
            let at = sized.job.args.iter().rposition(is_root).expect("the root");
            sized.job.args[at] = KernelArg::Scalar(vec![1]);
            let got = case.program().expect("a compiler").run_one(&sized.job);
            assert!(got.is_err() || got.is_ok_and(|o| case.same(&sized, &o).is_err()), "{name}: {body}");
        }
    }
}

/// What is computed around a rooted collective has the same root.
#[test]
fn work_beside_a_root() {
    let body = "let s: f32[n] only(2@tp) = reduce(x, sum, to: 2, over: tp); broadcast(relu(s), over: tp, from: 2) + b";
    let mut case = emitted("(x: f32[n] partial(sum@tp), b: f32[n]) -> f32[n]", body);
    // The root is inside: neither an input nor a result shows it.
    assert!(case.kernel.root.is_none());
    case.check_own(2);
    let body = "relu(reduce(x, sum, to: 2, over: tp))";
    let mut case = emitted("(x: f32[n] partial(sum@tp)) -> f32[n] only(2@tp)", body);
    assert_eq!(case.kernel.root, Some(2));
    for root in 0..4 {
        case.root = Some(root);
        case.check(&[(4, 33)], 2);
    }
}

/// Tasks take the root as the kernel of a collective does.
#[test]
fn tasks_with_a_root() {
    let body = "matmul(relu(broadcast(x, over: tp, from: 1)), w)";
    let mut case = emitted("(x: f32[12, 16] only(1@tp), w: f32[16, 24]) -> f32[12, 24]", body);
    assert!(case.kernel.root == Some(1) && case.sources.len() > 1);
    for root in 0..3 {
        case.root = Some(root);
        case.check(&[(3, 0)], 2);
    }
}

/// Parts of a split value belong to ranks, and a program without a root has none.
#[test]
fn no_root() {
    let scattered = emitted("(x: f32[n] only(0@tp)) -> f32[n@tp]", "scatter(x, dim: 0, from: 0, over: tp)");
    let added = emitted("(x: f32[n] partial(sum@tp)) -> f32[n]", "all_reduce(x, sum, over: tp)");
    for case in [scattered, added] {
        assert!(case.kernel.root.is_none() && !case.text.contains("root"), "{}", case.text);
    }
}
