//! Relations between steps: the dependencies that each step really has, whether its places exist,
//! and what loaders reject.

use super::{Algo, Buf, ChunkRun, Dep, Op, Step, StepName};
use kbc_diag::{Diagnostic, Diagnostics, Span};

/// Table sizes of microsoft/msccl: steps of a thread block, thread blocks of a rank, and a bound on
/// the chunks of a step.
const STEPS: usize = 256;
const TBS: usize = 216;
const COUNT: u64 = 72;
/// Greatest number of local reductions that its interpreter merges into one operation.
const FUSED: usize = 16;

/// A local reduction that later ones may join: its destination and its source buffer.
type Chain = Option<(ChunkRun, Buf)>;

/// Computes the dependencies of each step as the loader does. Nops pass their dependencies to the
/// next operation. The exception is a `re` that the loader merges with the `re` before it: such a
/// step waits for nothing, and the dependencies pass to the next other step.
pub(super) fn arrange(algo: &mut Algo, out: &mut Diagnostics) {
    for (gpu, g) in algo.gpus.iter_mut().enumerate() {
        for (tb, t) in g.tbs.iter_mut().enumerate() {
            let mut pending: Vec<Dep> = vec![];
            let mut chain: Chain = None;
            let mut joined = 0;
            for (step, s) in t.steps.iter_mut().enumerate() {
                pending.extend(s.dep);
                if s.op == Op::Nop {
                    continue;
                }
                let joins = s.op == Op::Re && s.dep.is_none() && chain == Some((s.dst, s.src.buf));
                if !joins {
                    if s.dep.is_none() && !pending.is_empty() {
                        let name = StepName { gpu, tb, step };
                        out.push(
                            Diagnostic::warning("E384", format!("{name} ends a run of nops and has no dependency"))
                                .primary(s.span, "here")
                                .note("microsoft/msccl refuses the file: the last step of a run of nops must have a dependency")
                                .help("move the last dependency to this step"),
                        );
                    }
                    s.waits = std::mem::take(&mut pending);
                } else if !pending.is_empty() {
                    let name = StepName { gpu, tb, step };
                    out.push(
                        Diagnostic::warning(
                            "E384",
                            format!("{name} does not wait for the dependencies of the nops before it"),
                        )
                        .primary(s.span, "this step is merged with the reduction before it")
                        .note("the loader merges it with the `re` before it, and the next other step waits instead")
                        .help("put the nops before the first `re` of the chain"),
                    );
                }
                joined += usize::from(s.op == Op::Re);
                chain = (s.op == Op::Re && !s.hasdep && joined != FUSED).then_some((s.dst, s.src.buf));
            }
        }
    }
}

/// Reports mistakes of steps, and what loaders would reject.
pub(super) fn inspect(algo: &Algo, out: &mut Diagnostics) {
    places(algo, out);
    tables(algo, out);
    for (name, s) in algo.steps() {
        let Some(dep) = &s.dep else { continue };
        let tbs = &algo.gpus[name.gpu].tbs;
        let target = usize::try_from(dep.tb).ok().and_then(|i| tbs.get(i));
        let (text, label) = match target {
            None => {
                let text = format!(
                    "{name} waits for tb {}, and gpu {} has {} thread blocks",
                    dep.tb,
                    name.gpu,
                    tbs.len()
                );
                out.push(
                    Diagnostic::error("E386", text).primary(dep.span, "this thread block does not exist"),
                );
                continue;
            }
            Some(t) if dep.step < 0 || dep.step as usize >= t.steps.len() => {
                let n = t.steps.len();
                (
                    format!("{name} waits for step {} of tb {}, which has {n} steps", dep.step, dep.tb),
                    "it waits without end",
                )
            }
            Some(t) if !t.steps[dep.step as usize].hasdep => (
                format!("{name} waits for tb {} step {}, which has hasdep=\"0\"", dep.tb, dep.step),
                "the runtime waits for the next step there with hasdep=\"1\", or without end",
            ),
            Some(_) => continue,
        };
        out.push(Diagnostic::warning("E386", text).primary(dep.span, label));
    }
}

/// Checks that the places that a step uses exist.
fn places(algo: &Algo, out: &mut Diagnostics) {
    let (n, k) = (algo.ranks(), algo.chunks);
    let blocks = algo.coll.kind().is_some_and(|k| k.blocked());
    if blocks && !k.is_multiple_of(n) {
        out.push(
            Diagnostic::error("E383", format!("{k} chunks cannot be divided into one block per rank ({n} ranks)"))
                .primary(algo.span, "`nchunksperloop` is not a multiple of `ngpus`")
                .note("MSCCLang counts the chunks that the program uses: if it does not use the last ones, the number is too small")
                .help("let the program use the last chunk, or correct `nchunksperloop`"),
        );
        return;
    }
    for (gpu, g) in algo.gpus.iter().enumerate() {
        let sized = |small: bool| if small { k / n } else { k };
        let wanted = [sized(algo.coll.small_input()), sized(algo.coll.small_output())];
        for (i, name) in ["i_chunks", "o_chunks"].into_iter().enumerate() {
            if algo.coll.kind().is_some() && g.chunks[i] > 0 && g.chunks[i] != wanted[i] {
                out.push(
                    Diagnostic::warning(
                        "E384",
                        format!("{name} of gpu {gpu} is {}, and {} is needed", g.chunks[i], wanted[i]),
                    )
                    .primary(g.span, "here")
                    .note("microsoft/msccl refuses the file, because the numbers of chunks do not match"),
                );
            }
        }
    }
    for (name, s) in algo.steps() {
        for (used, p, word) in [(s.op.reads(), s.src, "src"), (s.op.writes(), s.dst, "dst")] {
            let have = extent(algo, name.gpu, p.buf);
            if !used || s.cnt == 0 || p.off as u64 + s.cnt <= have {
                continue;
            }
            let run = format!("{}[{}..{}]", p.buf.letter(), p.off, p.off as u64 + s.cnt);
            let does = if word == "src" { "reads" } else { "writes" };
            out.push(
                Diagnostic::error(
                    "E382",
                    format!("{name} {does} {run}, and {} has {have} chunks", p.buf.letter()),
                )
                .primary(s.span, "here")
                .help("loaders check only the first chunk; the other ones are out of range as well"),
            );
        }
    }
}

/// Returns the number of chunks of a buffer of a rank.
pub(super) fn extent(algo: &Algo, gpu: usize, buf: Buf) -> u64 {
    let (n, k) = (algo.ranks(), algo.chunks);
    let [i, o, s] = algo.gpus[gpu].chunks;
    let user = |small: bool| match algo.coll.kind() {
        Some(_) if small => k / n,
        Some(_) => k,
        None => user_chunks(algo),
    };
    // A rank of a collective without a known postcondition states its own buffer sizes, if it
    // has the buffer.
    let stated =
        |c: u64, small| if algo.coll.kind().is_none() && c > 0 && !algo.aliased { c } else { user(small) };
    match buf {
        Buf::Input => stated(i, algo.coll.small_input()),
        Buf::Output => stated(o, algo.coll.small_output()),
        Buf::Scratch => s,
    }
}

/// Returns the chunks of a user buffer for collectives that do not determine them.
pub(super) fn user_chunks(algo: &Algo) -> u64 {
    let stated = algo.gpus.iter().flat_map(|g| g.chunks[..2].iter().copied()).max().unwrap_or(0);
    stated.max(algo.chunks)
}

fn tables(algo: &Algo, out: &mut Diagnostics) {
    let mut say = |title: String, span: Span| {
        out.push(
            Diagnostic::warning("E384", title).primary(span, "here").note("microsoft/msccl refuses the file"),
        );
    };
    for (gpu, g) in algo.gpus.iter().enumerate() {
        if g.tbs.len() > TBS {
            say(format!("gpu {gpu} has {} thread blocks (limit of the loader: {TBS})", g.tbs.len()), g.span);
        }
        for (tb, t) in g.tbs.iter().enumerate() {
            if t.steps.len() > STEPS {
                let n = t.steps.len();
                say(format!("gpu {gpu} tb {tb} has {n} steps (limit of the loader: {STEPS})"), t.span);
            }
        }
    }
    let large = |s: &&Step| s.op != Op::Nop && s.cnt >= COUNT;
    if let Some((name, s)) = algo.steps().find(|(_, s)| large(s)) {
        say(format!("{name} moves {} chunks, and the loader accepts fewer than {COUNT}", s.cnt), s.span);
    }
}
