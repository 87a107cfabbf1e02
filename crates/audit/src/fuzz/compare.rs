//! Comparison of the engines on one schedule: both must give the same bits, or the same errors.

use kbc_backend_sim::interp::{self, RunOptions, RunResult};
use kbc_backend_sim::jit;
use kbc_diag::Diagnostics;
use kbc_ir::schedule::Schedule;
use kbc_numerics::tensor::Tensor;

/// What both engines agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreed {
    /// Number of elements compared.
    pub elements: u64,
    /// Number of pairs of runs.
    pub runs: u64,
    /// The error code with which both ended, if they failed.
    pub fault: Option<&'static str>,
    /// Bytes of machine code.
    pub bytes: u64,
}

/// Options of the runs.
#[derive(Clone, Copy, Debug)]
pub struct CompareOptions {
    /// Number of consecutive calls.
    pub calls: u32,
    /// Seed for the interleaving of a second run of machine code; `None` if the result may depend
    /// on the interleaving.
    pub seed: Option<u64>,
    /// Largest number of bytes of all ranks together.
    pub max_bytes: u64,
}

fn code(d: &Diagnostics) -> &'static str {
    d.list.first().map_or("none", |d| d.code)
}

fn titles(d: &Diagnostics) -> String {
    let all: Vec<String> = d.list.iter().map(|d| format!("{} {}", d.code, d.title)).collect();
    all.join("; ")
}

/// Runs a schedule on the interpreter and as machine code, in the fixed order and in a random one.
///
/// # Errors
/// Returns a description of the difference.
pub fn compare(schedule: &Schedule, inputs: &[Vec<Tensor>], how: CompareOptions) -> Result<Agreed, String> {
    let options = |seed| RunOptions { calls: how.calls, seed, max_bytes: how.max_bytes };
    let want = interp::run(schedule, inputs, &options(None));
    let mut compiled = match (jit::compile(schedule), &want) {
        (Ok(c), _) => c,
        (Err(found), Err(wanted)) if found == *wanted => {
            return Ok(Agreed { fault: Some(code(wanted)), ..Agreed::default() });
        }
        (Err(found), wanted) => {
            let wanted = wanted.as_ref().map_or_else(titles, |_| "a result".into());
            return Err(format!("it is not compiled: {}; the interpreter has {wanted}", titles(&found)));
        }
    };
    let mut agreed = Agreed { bytes: compiled.stats().bytes, ..Agreed::default() };
    for seed in std::iter::once(None).chain(how.seed.map(Some)) {
        let order = seed.map_or("the fixed order".into(), |s| format!("the order of seed {s}"));
        if seed.is_some() {
            // As if all copies were large.
            compiled.put_off_from(1);
        }
        let got = compiled.run_alone(inputs, &options(seed));
        match (&want, got) {
            (Ok(want), Ok(Some(got))) => {
                agreed.elements += same(schedule, want, &got).map_err(|d| format!("in {order}: {d}"))?
            }
            (Err(want), Ok(None)) => agreed.fault = Some(code(want)),
            // Each engine itself rejects inputs that do not fit and runs that are too large.
            (Err(want), Err(got)) if code(want) == code(&got) => agreed.fault = Some(code(want)),
            (Ok(_), Ok(None)) => {
                return Err(format!("in {order} machine code meets a fault, the interpreter none"));
            }
            (Ok(_), Err(got)) => return Err(format!("in {order} machine code ends with {}", titles(&got))),
            (Err(want), Ok(Some(_))) => {
                return Err(format!(
                    "in {order} machine code has a result, the interpreter {}",
                    titles(want)
                ));
            }
            (Err(want), Err(got)) => {
                return Err(format!(
                    "in {order} machine code: {}; interpreter: {}",
                    titles(&got),
                    titles(want)
                ));
            }
        }
        agreed.runs += 1;
    }
    if let Err(want) = &want {
        let got = compiled.run(inputs, &options(None));
        if got.as_ref().err() != Some(want) {
            let got = got.as_ref().map_or_else(titles, |_| "a result".into());
            return Err(format!("machine code explains: {got}; interpreter: {}", titles(want)));
        }
    }
    Ok(agreed)
}

/// Returns the number of elements of two results if they are equal: bit for bit, with any NaN equal
/// to any NaN.
///
/// # Errors
/// Returns a description of the first difference.
pub fn same(schedule: &Schedule, want: &RunResult, got: &RunResult) -> Result<u64, String> {
    let mut elements = 0;
    let shape = |r: &RunResult| -> Vec<Vec<usize>> {
        r.outputs.iter().map(|c| c.iter().map(Vec::len).collect()).collect()
    };
    if shape(want) != shape(got) {
        return Err("another number of calls, ranks or results".into());
    }
    if want.reads != got.reads {
        // Reads are compared in the same way: bit for bit except for NaN.
        return Err("another host.read".into());
    }
    for (call, (want, got)) in want.outputs.iter().zip(&got.outputs).enumerate() {
        for (rank, (want, got)) in want.iter().zip(got).enumerate() {
            for (result, (want, got)) in want.iter().zip(got).enumerate() {
                let place = || {
                    format!("call {call}, rank {} ({rank}), result {result}", schedule.mesh.show(rank as u64))
                };
                if want.bounds != got.bounds || want.tensor.shape() != got.tensor.shape() {
                    return Err(format!("{}: bounds {:?} and {:?}", place(), want.bounds, got.bounds));
                }
                let (a, b) = (want.tensor.data(), got.tensor.data());
                if let Some(i) = a.first_difference(b) {
                    let show = |v: Option<_>| {
                        v.map_or("nothing".to_owned(), |v: kbc_numerics::element::Value| v.to_string())
                    };
                    return Err(format!(
                        "{}, element {i} of shape {:?}: interpreter {}, machine code {}",
                        place(),
                        want.tensor.shape(),
                        show(a.get(i)),
                        show(b.get(i))
                    ));
                }
                elements += a.len() as u64;
            }
        }
    }
    Ok(elements)
}
