//! Jobs for the runner of the stand-in model: the arguments of runs, in the format that
//! `standin/runner.cpp` reads and answers.

/// An argument of a kernel; tensors come first. Types are `f32 f16 bf16 i32 i16 i8 u8 i64 u16 u32
/// u64`.
#[derive(Clone, Debug)]
pub enum KernelArg {
    /// An input tensor: bytes by call, then rank.
    In(&'static str, Vec<Vec<Vec<u8>>>),
    /// An output tensor: the number of elements, one for all ranks or one per rank. Its bytes are
    /// undefined at first.
    Out(&'static str, Vec<usize>),
    /// A tensor that is read and written; bytes as for `In`.
    Inout(&'static str, Vec<Vec<Vec<u8>>>),
    /// The rank's window.
    Window,
    /// A scalar: one value for all ranks, or one per rank.
    Scalar(Vec<i64>),
    /// A scalar: this value plus the number of the call.
    Call(i64),
    /// The pointer to the communication context.
    Context,
}

/// A run of all ranks. Each rank calls the kernel a number of times without waiting for the others
/// between calls.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Index among the programs that were compiled together.
    pub program: usize,
    /// Number of ranks.
    pub ranks: usize,
    /// Largest number of blocks of a task, each on a core; 0 means 1.
    pub blocks: usize,
    /// Number of calls.
    pub calls: usize,
    /// Size of a rank's window in bytes, a multiple of 64.
    pub window: usize,
    /// Arguments in the order of the kernel's.
    pub args: Vec<KernelArg>,
    /// Numbers of the guarded lines to leave out.
    pub drop: Vec<usize>,
    /// Order of the ranks. 0: each rank runs until it waits, in turn; otherwise the seed of another
    /// order.
    pub order: u64,
    /// Whether reading window bytes that no rank wrote is allowed (they are zero).
    pub zeroed: bool,
    /// Whether the host waits for all ranks between calls.
    pub join: bool,
    /// Whether the outputs of a rank end with what it executed in the call: [`EXECUTED`] numbers of
    /// 64 bits.
    pub count: bool,
}

/// Numbers that the model counts in a call, in the order of `Executed` in `standin/world.hpp`:
/// loads, stores, bytes loaded and stored, flags set and waited for, barriers of all pipes, `dsb`,
/// notifies, waits, instructions of the vector pipe, and barriers of S, V, MTE2, MTE3, MTE1, M and
/// FIX.
pub const EXECUTED: usize = 18;

/// Output bytes by call, rank and tensor (`Out` and `Inout`, in the order of the arguments).
pub type Outputs = Vec<Vec<Vec<Vec<u8>>>>;

/// Returns the bytes of an element.
pub fn size(ty: &str) -> usize {
    match ty {
        "i8" | "u8" => 1,
        "f16" | "bf16" | "i16" | "u16" => 2,
        "i64" | "u64" => 8,
        _ => 4,
    }
}

impl KernelArg {
    fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
        let all: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
        all.join(",")
    }

    fn line(&self) -> String {
        let input = |kind: &str, ty: &str, bytes: &[Vec<Vec<u8>>]| {
            // Every call has as many bytes.
            let first = bytes.first().map_or(&[][..], Vec::as_slice);
            format!("tensor {kind} {ty} {}", Self::list(first.iter().map(|b| b.len() / size(ty))))
        };
        match self {
            KernelArg::In(ty, bytes) => input("in", ty, bytes),
            KernelArg::Inout(ty, bytes) => input("inout", ty, bytes),
            KernelArg::Out(ty, counts) => format!("tensor out {ty} {}", Self::list(counts)),
            KernelArg::Window => "tensor window".to_owned(),
            KernelArg::Scalar(values) => format!("scalar {}", Self::list(values)),
            KernelArg::Call(base) => format!("scalar call {base}"),
            KernelArg::Context => "scalar context".to_owned(),
        }
    }
}

impl Job {
    fn text(&self, n: usize) -> String {
        let Job { program, ranks, calls, window, order, .. } = self;
        let mut text = format!(
            "job {n}\nprogram {program}\nranks {ranks}\ncalls {calls}\nwindow {window}\norder {order}\n"
        );
        text += &self.drop.iter().map(|d| format!("drop {d}\n")).collect::<String>();
        text += &if self.blocks > 1 { format!("blocks {}\n", self.blocks) } else { String::new() };
        text += if self.zeroed { "allow zeroed\n" } else { "" };
        text += if self.join { "join calls\n" } else { "" };
        text += if self.count { "count instructions\n" } else { "" };
        for arg in &self.args {
            text += &arg.line();
            text.push('\n');
        }
        text + "end\n"
    }

    /// Calls `each` for every call, rank and argument, in the order in which inputs and outputs are
    /// stored.
    fn each(&self, mut each: impl FnMut(usize, usize, &KernelArg)) {
        for call in 0..self.calls {
            for rank in 0..self.ranks {
                self.args.iter().for_each(|arg| each(call, rank, arg));
            }
        }
    }

    fn take(&self, data: &mut &[u8]) -> Option<Outputs> {
        let mut out = vec![vec![vec![]; self.ranks]; self.calls];
        for (call, ranks) in out.iter_mut().enumerate() {
            for (rank, tensors) in ranks.iter_mut().enumerate() {
                let tensor = |arg: &KernelArg| match arg {
                    KernelArg::Out(ty, counts) => Some(size(ty) * counts.get(rank).unwrap_or(&counts[0])),
                    KernelArg::Inout(_, bytes) => Some(bytes[call][rank].len()),
                    _ => None,
                };
                let counts = self.count.then_some(8 * EXECUTED);
                for bytes in self.args.iter().filter_map(tensor).chain(counts) {
                    let (mine, rest) = data.split_at_checked(bytes)?;
                    *data = rest;
                    tensors.push(mine.to_vec());
                }
            }
        }
        Some(out)
    }
}

/// Returns the text of jobs and the bytes of their inputs.
pub fn files(jobs: &[Job]) -> (String, Vec<u8>) {
    let mut bytes = vec![];
    for job in jobs {
        job.each(|call, rank, arg| {
            if let KernelArg::In(_, data) | KernelArg::Inout(_, data) = arg {
                bytes.extend_from_slice(&data[call][rank]);
            }
        });
    }
    (jobs.iter().enumerate().map(|(i, job)| job.text(i)).collect(), bytes)
}

/// Parses the runner's answers, one per job.
///
/// # Errors
/// Returns a message if the text and the bytes do not answer these jobs.
pub fn outputs(jobs: &[Job], said: &str, mut data: &[u8]) -> Result<Vec<Result<Outputs, String>>, String> {
    let lines: Vec<&str> = said.lines().collect();
    if lines.len() != jobs.len() {
        return Err(format!("{} answers to {} jobs: {said}", lines.len(), jobs.len()));
    }
    jobs.iter()
        .zip(lines)
        .map(|(job, line)| match line.split_once('\t').map(|l| l.1) {
            Some("ok") => job.take(&mut data).map(Ok).ok_or_else(|| "too few bytes of outputs".to_owned()),
            Some(failure) => Ok(Err(failure.to_owned())),
            None => Err(format!("no answer to a job: {line}")),
        })
        .collect()
}
