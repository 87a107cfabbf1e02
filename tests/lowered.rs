//! Tests of queues lowered to windows, through the commands that a user has (SIM-3): imported
//! schedules, machine code, and kernels of a target without queues.

use crate::common;

use common::{Scratch, root};

const PASSES: &str = "infer,place,select,expand,enqueue,lower-queues";

/// Imported schedules whose connections become windows are proven and executed like the original
/// queues.
#[test]
fn imported_schedules_run_as_windows() {
    let scratch = Scratch::new();
    let mut seen = 0;
    let folder = std::fs::read_dir(root().join("tests/msccl/right")).expect("a folder of schedules");
    for entry in folder {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "xml") {
            continue;
        }
        scratch.write("a.xml", &std::fs::read(&path).expect("a schedule"));
        assert_eq!(scratch.line("kbc compile a.xml --emit kir=a.kir").code, 0, "{path:?}");
        let lowered = scratch.line("kbc opt -p lower-queues a.kir -o b.kir");
        assert_eq!(lowered.code, 0, "{path:?}: {}", lowered.stderr);
        let text = scratch.line("cat b.kir").stdout;
        let words = ["queue @", " send ", " recv ", " room "];
        assert!(text.contains("window @") && !words.iter().any(|w| text.contains(w)), "{path:?}");
        // Both have the same verdict, also if a result is left unwritten.
        let (before, after) = (scratch.line("kbc check a.kir"), scratch.line("kbc check b.kir"));
        assert_eq!(before.code, after.code, "{path:?}: {}", after.stderr);
        if before.code == 0 {
            let run = scratch.line("kbc run b.kir --engine jit --calls 2");
            assert_eq!(run.code, 0, "{path:?}: {}", run.stderr);
            seen += 1;
        }
    }
    assert!(seen >= 12, "{seen}");
}

/// A program on a machine with queues: through queues, through windows with credits, and as
/// kernels.
#[test]
fn targets_without_queues_have_the_same_program() {
    let scratch = Scratch::new();
    for algorithm in ["ring", "bidirectional_ring", "torus2", "up_down"] {
        let text = format!(
            "topology sys = torus(2, 2) {{ link: 50 GB/s, 500 ns; queue: tcm, 1 }}\nmesh m = sys[tp]\n\
             program all(x: f32[40] partial(sum@tp)) -> f32[40] {{ all_reduce(x, sum, over: tp, using: {algorithm}) }}\n"
        );
        scratch.write("a.kb", text.as_bytes());
        let queues = scratch.line("kbc compile a.kb --emit kir");
        assert!(queues.code == 0 && queues.stdout.contains(" recv "), "{algorithm}: {}", queues.stderr);
        let windows = scratch.line(&format!("kbc compile a.kb -p {PASSES} --emit kir"));
        assert!(windows.code == 0 && windows.stdout.contains(" put "), "{algorithm}: {}", windows.stderr);
        assert!(!windows.stdout.contains(" recv "), "{algorithm}");
        let target = scratch.line(&format!("kbc compile a.kb -p {PASSES} --target a2a3 -o out --force"));
        assert_eq!(target.code, 0, "{algorithm}: {}", target.stderr);
        assert!(target.stdout.contains("emitted all for a2a3"), "{algorithm}: {}", target.stdout);
        // Without passes on the command line, a target uses windows.
        assert_eq!(scratch.line("kbc compile a.kb --target a2a3 -o out --force").code, 0, "{algorithm}");
    }
}
