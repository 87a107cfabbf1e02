//! Compiles a kernel with the stand-in headers of `tests/ascend/standin` and runs it, ranks as threads, under the
//! memory model there: a missing fence, flag, wait or notify ends a run by rule.
//!
//! A [`Program`] is one kernel and maybe its orchestration; it runs many [`Job`]s in one process. Compiled programs
//! stay in the build folder under a name made of all they were made from. Nothing here knows what a kernel computes.

#![allow(dead_code, reason = "every test binary uses its part")]

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The flags emitted text must pass with.
const FLAGS: [&str; 7] =
    ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-O1", "-pthread"];
/// Sources of the model that do not depend on the kernel.
const COMMON: [&str; 2] = ["model", "runner"];

/// A kernel, compiled.
#[derive(Clone, Debug)]
pub struct Program {
    folder: PathBuf,
}

/// The source of an orchestration and the names of its two functions.
#[derive(Clone, Copy, Debug)]
pub struct Orchestration<'a> {
    pub text: &'a str,
    pub config: &'a str,
    pub run: &'a str,
}

/// An argument of a kernel; tensors come first. Types are `f32 f16 bf16 i32 i16 i8 u8 i64 u16 u32 u64`.
#[derive(Clone, Debug)]
pub enum Arg {
    /// Bytes by call, then rank.
    In(&'static str, Vec<Vec<Vec<u8>>>),
    /// The number of elements: one, or one for each rank. Its bytes are undefined at first.
    Out(&'static str, Vec<usize>),
    /// Read and written; bytes as of `In`.
    Inout(&'static str, Vec<Vec<Vec<u8>>>),
    /// The rank's window.
    Window,
    /// One value, or one for each rank.
    Scalar(Vec<i64>),
    /// This plus the number of the call.
    Call(i64),
    /// The pointer to the communication context.
    Context,
}

/// A run of all ranks, each calling the kernel a number of times without waiting for the others in between.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub ranks: usize,
    /// Blocks of a task at most, a core each; 0 is 1.
    pub blocks: usize,
    pub calls: usize,
    /// Bytes of a rank's window, a multiple of 64.
    pub window: usize,
    pub args: Vec<Arg>,
    /// Numbers of guarded lines that are left out.
    pub drop: Vec<usize>,
    /// 0: ranks run in turn until they wait; else the seed of another order.
    pub order: u64,
    /// Reading bytes of a window that nobody wrote is no error (they are zero).
    pub zeroed: bool,
    /// The host waits for all ranks between calls.
    pub join: bool,
}

/// Bytes by call, rank, and tensor (`Out` and `Inout`, in the order of the arguments).
pub type Outputs = Vec<Vec<Vec<Vec<u8>>>>;

fn headers() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ascend/standin")
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("the headers are there") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
    out.sort();
}

/// The compiler and what its name and version are; a missing one fails the test.
fn compiler() -> &'static (String, String) {
    static FOUND: OnceLock<(String, String)> = OnceLock::new();
    FOUND.get_or_init(|| {
        let name = std::env::var("CXX").unwrap_or_else(|_| "g++".to_owned());
        match Command::new(&name).arg("--version").output() {
            Ok(out) if out.status.success() => {
                let version = String::from_utf8_lossy(&out.stdout).into_owned();
                (name, version)
            }
            _ => panic!("these tests need a C++17 compiler: `{name}` does not run (set CXX, or install g++)"),
        }
    })
}

fn call(args: &[&str], dir: &Path) -> Output {
    Command::new(&compiler().0).args(args).current_dir(dir).output().expect("it ran before")
}

/// Makes a folder of this name in the build folder, once: `build` fills it.
fn folder(name: &str, build: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("standin");
    let done = root.join(name);
    if done.is_dir() {
        return Ok(done);
    }
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let making = root.join(format!("{name}.{}-{n}", std::process::id()));
    std::fs::create_dir_all(&making).expect("the build folder can be written");
    let built = build(&making);
    // Somebody else may have made the same at the same time.
    if built.is_err() || std::fs::rename(&making, &done).is_err() {
        std::fs::remove_dir_all(&making).expect("it was made above");
    }
    built.map(|()| done)
}

/// A name for what was made from all this.
fn key(texts: &[&str]) -> String {
    static MODEL: OnceLock<u64> = OnceLock::new();
    let model = MODEL.get_or_init(|| {
        let mut hash = DefaultHasher::new();
        (compiler(), FLAGS).hash(&mut hash);
        let mut all = vec![];
        files(&headers(), &mut all);
        for file in all {
            (file.strip_prefix(headers()).expect("below"), std::fs::read(&file).expect("a file"))
                .hash(&mut hash);
        }
        hash.finish()
    });
    let mut hash = DefaultHasher::new();
    (model, texts).hash(&mut hash);
    format!("{:016x}", hash.finish())
}

fn compile_one(dir: &Path, source: &str, object: &str) -> Result<(), String> {
    let include = format!("-I{}", headers().display());
    let mut args = FLAGS.to_vec();
    args.extend([include.as_str(), "-c", source, "-o", object]);
    let out = call(&args, dir);
    if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
}

/// The text that says which functions the orchestration has.
fn define(include: &str, config: &str, run: &str) -> String {
    format!(
        "#include \"{include}\"\nnamespace standin {{\nextern const Orchestration orchestration;\n\
         const Orchestration orchestration{{{config}, {run}}};\n}}\n"
    )
}

/// The model's own objects, and that of a program without an orchestration.
fn objects() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        folder(&format!("model-{}", key(&[])), |dir| {
            write(dir, "none.cpp", &define("pto_orchestration_api.h", "nullptr", "nullptr"));
            compile_one(dir, "none.cpp", "none.o")?;
            COMMON.iter().try_for_each(|name| {
                let source = headers().join(format!("standin/{name}.cpp"));
                compile_one(dir, &source.display().to_string(), &format!("{name}.o"))
            })
        })
        .unwrap_or_else(|e| panic!("the stand-in model does not compile:\n{e}"))
    })
}

/// The number of the line that names the entry.
fn body_line(kernel: &str) -> usize {
    kernel.lines().position(|l| l.contains("kernel_entry(")).map_or(0, |i| i + 1)
}

/// The text with every statement of the body that is a call noting its line, so that instructions in helper functions
/// are reported where the body calls them.
fn marked(kernel: &str, body: usize) -> String {
    let call = |code: &str| {
        let name = code.split('(').next().unwrap_or("");
        let word = |c: char| c.is_alphanumeric() || "_:<>".contains(c);
        !name.is_empty()
            && name.chars().all(word)
            && name.starts_with(|c: char| c.is_alphabetic())
            && (code.ends_with(',')
                || code.ends_with(");") && code.matches('(').count() == code.matches(')').count())
    };
    let mut out = String::new();
    let mut open = false;
    for (i, line) in kernel.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("").trim();
        let at = line.len() - line.trim_start().len();
        if i >= body && !open && call(code) {
            out += &format!("{}standin::at({}), {}\n", &line[..at], i + 1, &line[at..]);
        } else {
            out += &format!("{line}\n");
        }
        // An unfinished statement goes on in the next line.
        if !code.is_empty() {
            open = !code.ends_with(['{', '}', ';', ':']);
        }
    }
    out
}

fn write(dir: &Path, name: &str, text: &str) {
    std::fs::write(dir.join(name), text).expect("the folder was made for it");
}

/// A kernel of a program, and whether it is for a cube core.
#[derive(Clone, Copy, Debug)]
pub struct Kernel<'a> {
    pub text: &'a str,
    pub cube: bool,
}

/// Compiles a kernel, and its orchestration if there is one. The error is what the compiler says.
pub fn compile(kernel: &str, orchestration: Option<Orchestration<'_>>) -> Result<Program, String> {
    compile_all(&[Kernel { text: kernel, cube: false }], orchestration)
}

/// The object of a kernel, and what the kernel is called in it.
fn object(kernel: Kernel<'_>) -> Result<(PathBuf, String), String> {
    let Kernel { text, cube } = kernel;
    let name = format!("kernel_{}", key(&[text, if cube { "cube" } else { "" }]));
    let made = folder(&name.replace('_', "-"), |dir| {
        let body = body_line(text);
        write(dir, "kernel.cpp", &marked(text, body));
        let launch = format!(
            "#define kernel_entry entry_of_{name}\n#include \"kernel.cpp\"\n#include \"standin/world.hpp\"\n\
             namespace standin {{\nextern const Kernel {name};\nconst Kernel {name}{{entry_of_{name}, {body}, {cube}}};\n}}\n"
        );
        write(dir, "launch.cpp", &launch);
        compile_one(dir, "launch.cpp", "launch.o")
    })?;
    Ok((made.join("launch.o"), name))
}

/// Compiles the kernels of a program, in the order of their numbers, and its orchestration.
pub fn compile_all(
    kernels: &[Kernel<'_>],
    orchestration: Option<Orchestration<'_>>,
) -> Result<Program, String> {
    let made: Vec<(PathBuf, String)> = kernels.iter().map(|k| object(*k)).collect::<Result<_, _>>()?;
    let names = orchestration.map_or(["", "", ""], |o| [o.text, o.config, o.run]);
    let all: Vec<&str> = made.iter().map(|m| m.1.as_str()).chain(names).collect();
    let folder = folder(&format!("program-{}", key(&all)), |dir| {
        let declared: String = made.iter().map(|m| format!("extern const Kernel {};\n", m.1)).collect();
        let listed: Vec<String> = made.iter().map(|m| format!("&{}", m.1)).collect();
        let table = format!(
            "#include \"standin/world.hpp\"\nnamespace standin {{\n{declared}const Kernel *const kernels[] = {{{}}};\n\
             const int kernel_count = {};\n}}\n",
            listed.join(", "),
            made.len()
        );
        write(dir, "kernels.cpp", &table);
        compile_one(dir, "kernels.cpp", "kernels.o")?;
        let mut submit = objects().join("none.o");
        if let Some(o) = orchestration {
            write(dir, "orchestration.cpp", o.text);
            write(dir, "submit.cpp", &define("orchestration.cpp", o.config, o.run));
            compile_one(dir, "submit.cpp", "submit.o")?;
            submit = dir.join("submit.o");
        }
        let mut objects = COMMON.map(|name| objects().join(format!("{name}.o"))).to_vec();
        for (object, _) in &made {
            // Tasks with the same text are one kernel.
            if !objects.contains(object) {
                objects.push(object.clone());
            }
        }
        objects.extend([dir.join("kernels.o"), submit]);
        let objects: Vec<String> = objects.iter().map(|o| o.display().to_string()).collect();
        let mut args = vec!["-pthread", "-o", "program"];
        args.extend(objects.iter().map(String::as_str));
        let out = call(&args, dir);
        if out.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&out.stderr).into_owned()) }
    })?;
    Ok(Program { folder })
}

impl Arg {
    fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
        let all: Vec<String> = values.into_iter().map(|v| v.to_string()).collect();
        all.join(",")
    }

    fn line(&self) -> String {
        let input = |kind: &str, ty: &str, bytes: &[Vec<Vec<u8>>]| {
            let first = bytes.first().expect("the bytes of at least one call");
            format!("tensor {kind} {ty} {}", Self::list(first.iter().map(|b| b.len() / size(ty))))
        };
        match self {
            Arg::In(ty, bytes) => input("in", ty, bytes),
            Arg::Inout(ty, bytes) => input("inout", ty, bytes),
            Arg::Out(ty, counts) => format!("tensor out {ty} {}", Self::list(counts)),
            Arg::Window => "tensor window".to_owned(),
            Arg::Scalar(values) => format!("scalar {}", Self::list(values)),
            Arg::Call(base) => format!("scalar call {base}"),
            Arg::Context => "scalar context".to_owned(),
        }
    }
}

/// Bytes of an element.
pub fn size(ty: &str) -> usize {
    match ty {
        "i8" | "u8" => 1,
        "f16" | "bf16" | "i16" | "u16" => 2,
        "i64" | "u64" => 8,
        _ => 4,
    }
}

impl Job {
    fn text(&self, n: usize) -> String {
        let Job { ranks, calls, window, order, .. } = self;
        let mut text = format!("job {n}\nranks {ranks}\ncalls {calls}\nwindow {window}\norder {order}\n");
        text += &self.drop.iter().map(|d| format!("drop {d}\n")).collect::<String>();
        text += &if self.blocks > 1 { format!("blocks {}\n", self.blocks) } else { String::new() };
        text += if self.zeroed { "allow zeroed\n" } else { "" };
        text += if self.join { "join calls\n" } else { "" };
        for arg in &self.args {
            text += &arg.line();
            text.push('\n');
        }
        text + "end\n"
    }

    /// By call, rank, tensor: what `each` makes of the inputs and outputs.
    fn each(&self, mut each: impl FnMut(usize, usize, &Arg)) {
        for call in 0..self.calls {
            for rank in 0..self.ranks {
                self.args.iter().for_each(|arg| each(call, rank, arg));
            }
        }
    }
}

impl Program {
    /// Runs the jobs one after another in one process: outputs, or why the model ended the run.
    pub fn run(&self, jobs: &[Job]) -> Vec<Result<Outputs, String>> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let file = |what: &str| self.folder.join(format!("{what}.{}-{n}", std::process::id()));
        let (text, input, output) = (file("jobs"), file("input"), file("output"));
        let mut bytes = vec![];
        for job in jobs {
            job.each(|call, rank, arg| {
                if let Arg::In(_, data) | Arg::Inout(_, data) = arg {
                    bytes.extend_from_slice(&data[call][rank]);
                }
            });
        }
        let lines: String = jobs.iter().enumerate().map(|(i, job)| job.text(i)).collect();
        std::fs::write(&text, lines).expect("the folder was made for it");
        std::fs::write(&input, bytes).expect("the folder was made for it");
        let ran = Command::new(self.folder.join("program"))
            .args([&text, &input, &output])
            .output()
            .expect("the program was compiled");
        let words = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "the run itself failed ({}): {words}", ran.status);
        let said = String::from_utf8(ran.stdout).expect("it writes UTF-8");
        let data = std::fs::read(&output).expect("it wrote its output");
        for path in [text, input, output] {
            std::fs::remove_file(path).expect("it was written above");
        }
        let mut data = data.as_slice();
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), jobs.len(), "{said}");
        jobs.iter()
            .zip(lines)
            .map(|(job, line)| match line.split_once('\t').expect("name, tab, result").1 {
                "ok" => Ok(take(job, &mut data)),
                failure => Err(failure.to_owned()),
            })
            .collect()
    }

    /// Runs one job.
    pub fn run_one(&self, job: &Job) -> Result<Outputs, String> {
        self.run(std::slice::from_ref(job)).pop().expect("one job, one result")
    }
}

fn take(job: &Job, data: &mut &[u8]) -> Outputs {
    let mut out = vec![vec![vec![]; job.ranks]; job.calls];
    job.each(|call, rank, arg| {
        let bytes = match arg {
            Arg::Out(ty, counts) => size(ty) * counts.get(rank).unwrap_or(&counts[0]),
            Arg::Inout(_, bytes) => bytes[call][rank].len(),
            _ => return,
        };
        let (mine, rest) = data.split_at(bytes);
        *data = rest;
        out[call][rank].push(mine.to_vec());
    });
    out
}

/// Statements that order something.
const ORDERING: [&str; 11] = [
    "pipe_barrier(",
    "dsb(",
    "dcci(",
    "set_flag(",
    "wait_flag(",
    "Notify(",
    "WaitFor(",
    "TNOTIFY(",
    "TWAIT(",
    "pto::comm::TNOTIFY(",
    "pto::comm::TWAIT(",
];

/// Numbers, from 1, of the lines where an ordering statement begins (it may go on in the next ones).
pub fn deletable(text: &str) -> Vec<usize> {
    let begins = |line: &str| ORDERING.iter().any(|w| line.trim_start().starts_with(w));
    text.lines().enumerate().filter(|(_, l)| begins(l)).map(|(i, _)| i + 1).collect()
}

/// The lines of each `set_flag` and of the next `wait_flag` with the same words: leaving out both keeps pairs.
pub fn flag_pairs(text: &str) -> Vec<[usize; 2]> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut pairs = vec![];
    for (i, line) in lines.iter().enumerate() {
        let Some(rest) = line.strip_prefix("set_flag") else { continue };
        if let Some(j) = lines[i..].iter().position(|l| l.strip_prefix("wait_flag") == Some(rest)) {
            pairs.push([i + 1, i + j + 1]);
        }
    }
    pairs
}

/// The text with every deletable line under a condition that a job's `drop` decides; lines keep their numbers.
pub fn guarded(text: &str) -> String {
    let which = deletable(text);
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let at = line.len() - line.trim_start().len();
        if which.binary_search(&(i + 1)).is_ok() {
            out += &format!("{}if (standin::keep({})) {}\n", &line[..at], i + 1, &line[at..]);
        } else {
            out += &format!("{line}\n");
        }
    }
    out
}

/// Which ordering lines of a guarded kernel could go: single lines, and both lines of a flag, without which all of the
/// jobs, in two orders of ranks, still run with the same outputs. The jobs together reach every line.
pub fn redundant(program: &Program, text: &str, jobs: &[Job]) -> Vec<Vec<usize>> {
    let mut drops: Vec<Vec<usize>> = deletable(text).into_iter().map(|l| vec![l]).collect();
    drops.extend(flag_pairs(text).iter().map(|p| p.to_vec()));
    let orders = |drop: &[usize]| -> Vec<Job> {
        let of = |order| move |job: &Job| Job { order, drop: drop.to_vec(), ..job.clone() };
        jobs.iter().map(of(0)).chain(jobs.iter().map(of(5))).collect()
    };
    let right = program.run(&orders(&[]));
    assert!(right.iter().all(Result::is_ok), "the whole kernel fails: {right:?}");
    drops.retain(|drop| program.run(&orders(drop)) == right);
    drops
}
