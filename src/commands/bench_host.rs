//! `kbc dev bench host`: collectives of kbc on this computer, in turn with those of MPI and of
//! other peers.
//!
//! A run of a contestant is a set of processes of its own. In every round each contestant runs
//! once; the first one of a round is another one in each. [`kbc_evaluation::host_bench`] has the
//! programs, the statistics and the figures.

use super::calibrate::PackageFolder;
use super::compile;
use crate::cli::{BenchHost, Selection, Source};
use crate::host_program::{self, Temporary, lines};
use crate::native::NativeTool;
use crate::outdir;
use crate::session::{Failure, Outcome, Session, words};
use kbc_compiler::backends;
use kbc_compiler::report::{EmitReport, LaunchReport};
use kbc_diag::Diagnostic;
use kbc_evaluation::host_bench::row::mark_best;
use kbc_evaluation::host_bench::{
    BENCH_COLLECTIVES, BenchCollective, BenchHostReport, BenchRow, BenchStage, LeftOut, NotMeasured, csv,
    figures, human,
};
use kbc_evaluation::samples::Samples;
use kbc_figures::Theme;
use kbc_tiles::backend::NativeBuild;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What needs a compiler.
const HELP: &str =
    "kbc dev bench host compiles C11 with atomics: install a C compiler (gcc or clang), or set CC";
/// What needs MPI.
const MPI_HELP: &str = "install Open MPI or MPICH with its compiler, or set MPICC and MPIRUN; \
                        --no-mpi leaves MPI out";
/// Peers that people compare with, for which kbc has no program.
const OTHERS: [&str; 2] = ["gloo", "oneCCL"];

/// Measures, prints and writes.
///
/// # Errors
/// Returns E416 for wrong arguments, E564 for a compiler or launcher that is missing or fails, E567
/// for a run that fails, E430 for wrong elements, E410 and E411 for files, and the errors of
/// compiling an algorithm that the command line names.
pub fn run(session: &mut Session, args: &BenchHost) -> Outcome {
    let collectives = collectives(&args.collectives)?;
    let peers = args.peer.iter().map(|p| named(p, "--peer", "COMMAND")).collect::<Outcome<Vec<_>>>()?;
    let mut bench = Bench {
        session,
        args,
        compiler: NativeTool::find("compiler", "CC", "cc", HELP)?,
        mpi: vec![],
        peers,
        folder: Temporary::new()?,
        packages: 0,
        rows: vec![],
        left_out: vec![],
        not_measured: vec![],
    };
    bench.find_mpi()?;
    let is_peer = |name: &str| bench.peers.iter().any(|p| p.0.eq_ignore_ascii_case(name));
    let missing = OTHERS.iter().filter(|name| !is_peer(name)).map(|name| NotMeasured {
        peer: (*name).to_owned(),
        why: format!("kbc has no program for it; --peer {name}=COMMAND measures one of yours"),
    });
    let missing: Vec<NotMeasured> = missing.collect();
    bench.not_measured.extend(missing);
    for ranks in &args.processes {
        for collective in &collectives {
            bench.collective(*collective, *ranks)?;
        }
    }
    if let Some(lost) =
        args.algorithm.iter().find(|a| !bench.rows.iter().any(|r| r.algorithm.as_ref() == Some(a)))
    {
        let d = Diagnostic::error("E416", format!("--algorithm {lost}: none of these collectives has it"))
            .note(
                bench
                    .left_out
                    .iter()
                    .map(|l| format!("{}: {}", l.collective, l.why))
                    .collect::<Vec<_>>()
                    .join("; "),
            )
            .help("kbc list algorithms shows the algorithms of each collective");
        return Err(Failure::Usage(d.into()));
    }
    let Bench { rows, left_out, not_measured, .. } = bench;
    finish(session, args, rows, left_out, not_measured)
}

fn finish(
    session: &Session,
    args: &BenchHost,
    mut rows: Vec<BenchRow>,
    left_out: Vec<LeftOut>,
    not_measured: Vec<NotMeasured>,
) -> Outcome {
    mark_best(&mut rows);
    match args.output.as_deref() {
        Some(path) if path.ends_with(".csv") => outdir::write_file(Path::new(path), &csv(&rows)?)?,
        Some(path) => {
            let mut files = vec![("host.csv".to_owned(), csv(&rows)?)];
            for (name, figure) in figures(&rows, Theme::Light)? {
                files.push((format!("{name}.svg"), figure.svg().as_bytes().to_vec()));
            }
            outdir::write(Path::new(path), &files, args.force)?;
        }
        None => {}
    }
    let found = BenchHostReport {
        schema: 1,
        command: "bench host",
        ok: rows.iter().all(|r| r.wrong.unwrap_or(0) == 0),
        processors: std::thread::available_parallelism().ok().map(|n| n.get() as u64),
        rounds: args.rounds,
        output: args.output.clone(),
        not_measured,
        left_out,
        rows,
    };
    session.answer(human(&found).trim_end(), &found)?;
    if found.ok {
        return Ok(());
    }
    let wrong = found.rows.iter().filter(|r| r.wrong.unwrap_or(0) > 0);
    let names: Vec<String> = wrong.map(|r| format!("{} of {}", r.collective, r.contestant)).collect();
    let d = Diagnostic::error("E430", "results of a contestant are wrong").note(names.join("; "));
    Err(Failure::Program(d.into()))
}

/// Returns the collectives of the command line, or all.
fn collectives(names: &[String]) -> Outcome<Vec<BenchCollective>> {
    let one = |name: &String| {
        BenchCollective::named(name).ok_or_else(|| {
            let all: Vec<&str> = BENCH_COLLECTIVES.iter().map(|c| c.name).collect();
            let d = Diagnostic::error("E416", format!("`{name}` is not a collective of the benchmark"));
            Failure::Usage(d.help(format!("the collectives are {}", all.join(", "))).into())
        })
    };
    if names.is_empty() { Ok(BENCH_COLLECTIVES.to_vec()) } else { names.iter().map(one).collect() }
}

/// Splits `NAME=VALUE`.
fn named(text: &str, flag: &str, value: &str) -> Outcome<(String, String)> {
    let parts = text.split_once('=').map(|(a, b)| (a.trim().to_owned(), b.trim().to_owned()));
    let reserved = |name: &str| name == "kbc" || name.starts_with("kbc/");
    match parts {
        Some((name, rest)) if !name.is_empty() && !rest.is_empty() && !reserved(&name) => Ok((name, rest)),
        _ => {
            let d = Diagnostic::error("E416", format!("{flag} {text}: write NAME={value}"));
            Err(Failure::Usage(d.note("NAME is any name but kbc, which is kbc's own").into()))
        }
    }
}

/// An MPI.
struct Mpi {
    name: String,
    compiler: NativeTool,
    launcher: NativeTool,
}

/// The option with which receivers fetch inputs from where they lie.
const IN_PLACE: &str = "with (transfer: rendezvous)";

/// A package of an algorithm, with its program.
struct Built {
    algorithm: String,
    emitted: EmitReport,
    build: NativeBuild,
    folder: PathBuf,
    program: PathBuf,
    /// Programs over MPI, by the number of the MPI.
    over_mpi: BTreeMap<usize, PathBuf>,
}

/// Who is measured at a size: the numbers are those of algorithms, MPIs and peers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Contestant {
    Memory(usize),
    OverMpi(usize, usize),
    Mpi(usize),
    Peer(usize),
}

/// A size of a collective.
#[derive(Clone, Copy)]
struct Size {
    collective: BenchCollective,
    ranks: u64,
    count: u64,
}

impl Size {
    fn bytes(&self) -> u64 {
        4 * self.count
    }
}

/// One run of a contestant.
struct Sample {
    time_ns: f64,
    repeat: Option<u64>,
    bus_factor: Option<f64>,
    compared: Option<u64>,
    wrong: Option<u64>,
    said: String,
}

/// What a peer prints.
#[derive(Deserialize)]
struct PeerReport {
    time_ns: f64,
    bytes: u64,
    repeat: Option<u64>,
    compared: Option<u64>,
    wrong: Option<u64>,
}

/// A benchmark in progress.
struct Bench<'a> {
    session: &'a Session,
    args: &'a BenchHost,
    compiler: NativeTool,
    mpi: Vec<Mpi>,
    peers: Vec<(String, String)>,
    folder: Temporary,
    packages: usize,
    rows: Vec<BenchRow>,
    left_out: Vec<LeftOut>,
    not_measured: Vec<NotMeasured>,
}

impl Bench<'_> {
    /// Finds the MPIs. One that the command line names has to be there.
    fn find_mpi(&mut self) -> Outcome {
        if self.args.no_mpi {
            self.not_measured.push(NotMeasured { peer: "MPI".into(), why: "--no-mpi".into() });
            return Ok(());
        }
        for text in &self.args.mpi {
            let (name, tools) = named(text, "--mpi", "COMPILER,LAUNCHER")?;
            let Some((compiler, launcher)) = tools.split_once(',') else {
                let d = Diagnostic::error("E416", format!("--mpi {text}: write NAME=COMPILER,LAUNCHER"));
                return Err(Failure::Usage(d.into()));
            };
            self.mpi.push(Mpi {
                name,
                compiler: NativeTool::named("compiler", compiler.trim(), MPI_HELP)?,
                launcher: NativeTool::named("launcher", launcher.trim(), MPI_HELP)?,
            });
        }
        if self.mpi.is_empty() {
            let compiler = NativeTool::find("compiler", "MPICC", "mpicc", MPI_HELP);
            let launcher = NativeTool::find("launcher", "MPIRUN", "mpirun", MPI_HELP);
            match (compiler, launcher) {
                (Ok(compiler), Ok(launcher)) => {
                    self.mpi.push(Mpi { name: "MPI".into(), compiler, launcher });
                }
                (Err(d), _) | (_, Err(d)) => {
                    self.not_measured.push(NotMeasured { peer: "MPI".into(), why: d.title });
                }
            }
        }
        Ok(())
    }

    /// Measures a collective on a number of ranks.
    fn collective(&mut self, collective: BenchCollective, ranks: u64) -> Outcome {
        let counts: Vec<u64> = self.args.sizes.iter().map(|b| collective.count(ranks, *b)).collect();
        let mut counts: Vec<Size> =
            counts.into_iter().map(|count| Size { collective, ranks, count }).collect();
        counts.sort_by_key(|s| s.count);
        counts.dedup_by_key(|s| s.count);
        // Its window may be too large for the largest size, and fit the others.
        let small = counts.first().map_or(0, |s| s.count).max(1000 * ranks);
        let mut fresh = self.session.fresh(vec![]);
        let library = collective.algorithms(&mut fresh)?;
        let is_own = |a: &&String| {
            let name = a.split(['(', ' ']).next().unwrap_or_default();
            let name = name.rsplit('.').next().unwrap_or_default();
            library.iter().any(|l| l == name)
        };
        let algorithms: Vec<String> = match self.args.algorithm.is_empty() {
            // Each moves its messages in two ways.
            true => library.iter().flat_map(|a| [a.clone(), format!("{a} {IN_PLACE}")]).collect(),
            false => self.args.algorithm.iter().filter(is_own).cloned().collect(),
        };
        let mut built = vec![];
        for algorithm in algorithms {
            self.session.progress(&format!("{} {algorithm}: building", collective.name));
            match self.built(Size { collective, ranks, count: small }, &algorithm) {
                Ok(one) => built.push(one),
                Err(failure) if self.args.algorithm.is_empty() && !is_of_system(&failure) => {
                    self.leave_out((collective, ranks), &algorithm, None, &failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        if built.is_empty() {
            return Ok(());
        }
        let mut peers = BTreeMap::new();
        for size in counts {
            self.size(size, &mut built, &mut peers)?;
        }
        Ok(())
    }

    fn leave_out(
        &mut self,
        (collective, ranks): (BenchCollective, u64),
        algorithm: &str,
        bytes: Option<u64>,
        failure: &Failure,
    ) {
        let first = failure.messages().list.first();
        let why = first.map_or_else(String::new, |d| format!("{} {}", d.code, d.title));
        let (collective, algorithm) = (collective.name.to_owned(), algorithm.to_owned());
        self.left_out.push(LeftOut { collective, ranks, algorithm, bytes, why });
    }

    /// Compiles and builds an algorithm. Its C serves other sizes, too.
    fn built(&mut self, size: Size, algorithm: &str) -> Outcome<Built> {
        let Size { collective, ranks, count } = size;
        self.packages += 1;
        let folder = self.folder.path().join(format!("package_{}", self.packages));
        let text = collective.text(ranks, count);
        let mut session = self.session.fresh(vec![text.clone()]);
        let of = Selection { using: vec![algorithm.to_owned()], ..Selection::default() };
        let source = Source { file: text.0, of, post: None };
        let compilation = host_program::compilation("bench host", source, "package".into(), (true, false));
        let made = compile::steps(&mut session, &compilation, &mut PackageFolder { folder: &folder })?;
        let Some(emitted) = made.and_then(|(report, _)| report.emitted) else {
            return Err(Diagnostic::error("E991", "nothing was emitted for this computer").into());
        };
        if emitted.count.is_none() {
            let because = emitted.fixed_sizes_because.clone().unwrap_or_default();
            let d = Diagnostic::error("E416", format!("its C serves one size only: {because}"));
            return Err(d.into());
        }
        let Some(build) = backends::native_target().native_build(&emitted.kernel) else {
            return Err(Diagnostic::error("E991", "the packages of the target are not built here").into());
        };
        let program = folder.join("program");
        compiled(&self.compiler, (&build, &build.source, &[]), &folder, &program, HELP)?;
        let (algorithm, over_mpi) = (algorithm.to_owned(), BTreeMap::new());
        Ok(Built { algorithm, emitted, build, folder, program, over_mpi })
    }

    /// Measures a size: each algorithm once, and the fastest ones in turn with the peers.
    fn size(&mut self, size: Size, built: &mut [Built], peers: &mut BTreeMap<usize, PathBuf>) -> Outcome {
        let what = format!("{} on {} ranks, {} bytes", size.collective.name, size.ranks, size.bytes());
        let mut fastest: Vec<(usize, f64)> = vec![];
        for i in 0..built.len() {
            self.session.progress(&format!("{what}: {}", built[i].algorithm));
            let fits = built[i].emitted.largest_count.is_none_or(|most| size.count <= most);
            let sample = match fits {
                true => self.sample(size, Contestant::Memory(i), built, peers, 0),
                false => {
                    let title = format!("{what}: the window of {} cannot be so large", built[i].algorithm);
                    Err(Failure::Usage(Diagnostic::error("E416", title).help("take smaller --sizes").into()))
                }
            };
            match sample {
                Ok(s) => {
                    fastest.push((i, s.time_ns));
                    if built.len() > self.args.keep {
                        let times = Samples(vec![s.time_ns]);
                        let row = self.row(size, Contestant::Memory(i), built, &[s], BenchStage::Screened);
                        self.rows.push(row.with(&times, None, None));
                    }
                }
                Err(failure) if self.args.algorithm.is_empty() => {
                    let algorithm = built[i].algorithm.clone();
                    let of = (size.collective, size.ranks);
                    self.leave_out(of, &algorithm, Some(size.bytes()), &failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        fastest.sort_by(|a, b| a.1.total_cmp(&b.1));
        fastest.truncate(self.args.keep);
        let contestants = self.contestants(&fastest);
        for c in &contestants {
            self.prepare(size, *c, built, peers)?;
        }
        let mut samples: Vec<Vec<Sample>> = contestants.iter().map(|_| vec![]).collect();
        for round in 0..self.args.rounds {
            self.session.progress(&format!("{what}: round {}", round + 1));
            for k in 0..contestants.len() {
                let k = (k + round as usize) % contestants.len();
                samples[k].push(self.sample(size, contestants[k], built, peers, round)?);
            }
        }
        let times: Vec<Samples> =
            samples.iter().map(|all| Samples(all.iter().map(|s| s.time_ns).collect())).collect();
        let own = contestants.iter().zip(&times).filter(|(c, _)| matches!(c, Contestant::Memory(_)));
        let reference = own.min_by(|a, b| a.1.median().total_cmp(&b.1.median())).map(|(_, t)| t);
        let factor = samples.iter().flatten().find_map(|s| s.bus_factor);
        for ((c, all), times) in contestants.iter().zip(&samples).zip(&times) {
            let row = self.row(size, *c, built, all, BenchStage::Measured);
            self.rows.push(row.with(times, reference, factor));
        }
        Ok(())
    }

    fn contestants(&self, fastest: &[(usize, f64)]) -> Vec<Contestant> {
        let own = fastest.iter().map(|(i, _)| Contestant::Memory(*i));
        let mut out: Vec<Contestant> = own.collect();
        for m in 0..self.mpi.len() {
            out.extend(fastest.iter().map(|(i, _)| Contestant::OverMpi(*i, m)));
            out.push(Contestant::Mpi(m));
        }
        out.extend((0..self.peers.len()).map(Contestant::Peer));
        out
    }

    /// Builds what a contestant needs.
    fn prepare(
        &self,
        size: Size,
        contestant: Contestant,
        built: &mut [Built],
        peers: &mut BTreeMap<usize, PathBuf>,
    ) -> Outcome {
        match contestant {
            Contestant::OverMpi(i, m) if !built[i].over_mpi.contains_key(&m) => {
                let Built { build, folder, over_mpi, .. } = &mut built[i];
                let program = folder.join(format!("program_{m}"));
                let flags = (&*build, build.source.as_str(), build.mpi);
                compiled(&self.mpi[m].compiler, flags, folder, &program, MPI_HELP)?;
                over_mpi.insert(m, program);
            }
            Contestant::Mpi(m) if !peers.contains_key(&m) => {
                let Some(Built { build, folder, emitted, .. }) = built.first() else { return Ok(()) };
                let text = size.collective.peer(&emitted.kernel);
                outdir::write_here(&folder.join("bench_peer.c"), text.as_bytes())?;
                let program = folder.join(format!("peer_{m}"));
                let flags = (build, "bench_peer.c", build.mpi);
                compiled(&self.mpi[m].compiler, flags, folder, &program, MPI_HELP)?;
                peers.insert(m, program);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs a contestant once.
    fn sample(
        &self,
        size: Size,
        contestant: Contestant,
        built: &[Built],
        peers: &BTreeMap<usize, PathBuf>,
        round: u64,
    ) -> Outcome<Sample> {
        let Size { ranks, count, .. } = size;
        let seed = self.args.seed.saturating_add(round);
        let over = |m: usize, program: Option<&PathBuf>| {
            let mut command = self.mpi[m].launcher.start();
            command.args(["-n", &ranks.to_string()]).arg(program.map_or(Path::new(""), PathBuf::as_path));
            command
        };
        let mut command = match contestant {
            Contestant::Memory(i) => Command::new(&built[i].program),
            Contestant::OverMpi(i, m) => over(m, built[i].over_mpi.get(&m)),
            Contestant::Mpi(m) => over(m, peers.get(&m)),
            Contestant::Peer(p) => return self.peer(size, &self.peers[p], seed),
        };
        command.args(["--json", "--until-eof", "--calls", "1"]);
        if matches!(contestant, Contestant::Memory(_)) {
            // Launchers of MPI bind their ranks themselves.
            command.arg("--bind");
        }
        let own = [("-n", ranks), ("-c", count), ("--seed", seed), ("--limit", self.args.limit)];
        for (flag, value) in own.into_iter().chain(self.args.repeat.map(|r| ("--repeat", r))) {
            command.args([flag, &value.to_string()]);
        }
        let name = self.name(contestant);
        let ended = host_program::ended(&mut command).map_err(|e| not_started(&name, &e))?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let found = host_program::launched(&ended);
        let Some(LaunchReport { time_ns: Some(time_ns), repeat, bus_factor, compared, wrong, bytes, .. }) =
            found
        else {
            return Err(self.failed(size, &name, &ended, &said));
        };
        if bytes.is_some_and(|b| b != size.bytes()) {
            let title = format!("the size of {} is not {} bytes", size.collective.name, size.bytes());
            return Err(Diagnostic::error("E991", title).into());
        }
        let (repeat, compared, wrong) = (Some(repeat), Some(compared), Some(wrong));
        Ok(Sample { time_ns, repeat, bus_factor, compared, wrong, said })
    }

    /// Runs a peer that is a command.
    fn peer(&self, size: Size, (name, command): &(String, String), seed: u64) -> Outcome<Sample> {
        let filled = |word: &str| {
            word.replace("{collective}", size.collective.name)
                .replace("{bytes}", &size.bytes().to_string())
                .replace("{count}", &size.count.to_string())
                .replace("{ranks}", &size.ranks.to_string())
                .replace("{repeat}", &self.args.repeat.map_or_else(|| "0".into(), |r| r.to_string()))
                .replace("{seed}", &seed.to_string())
        };
        let all: Vec<String> = command.split_whitespace().map(filled).collect();
        let Some((program, rest)) = all.split_first() else { return Err(self.no_report(size, name)) };
        let limit = Duration::from_secs(self.args.peer_limit);
        let ended = host_program::ended_within(Command::new(program).args(rest), limit);
        let Some(ended) = ended.map_err(|e| not_started(name, &e))? else {
            let of = format!("{} of {name} on {} ranks", size.collective.name, size.ranks);
            let title =
                format!("{of}, {} bytes: it has not ended after {} s", size.bytes(), self.args.peer_limit);
            let d = Diagnostic::error("E567", title);
            return Err(d.help("--peer-limit gives peers more time for a size").into());
        };
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        let mut reports = ended.stdout.split(|b| *b == b'\n');
        let found = reports.find_map(|line| serde_json::from_slice::<PeerReport>(line).ok());
        let Some(found) = found.filter(|_| ended.status.success()) else {
            return Err(self.failed(size, name, &ended, &said));
        };
        let PeerReport { time_ns, bytes, repeat, compared, wrong } = found;
        if bytes != size.bytes() || !time_ns.is_finite() || time_ns <= 0.0 {
            return Err(self.no_report(size, name));
        }
        Ok(Sample { time_ns, repeat, bus_factor: None, compared, wrong, said })
    }

    fn no_report(&self, size: Size, name: &str) -> Failure {
        let title = format!("{name} has not measured {} bytes", size.bytes());
        let d = Diagnostic::error("E567", title);
        d.help("a peer prints {\"time_ns\":..,\"bytes\":..}; docs/reference/host.md has its fields").into()
    }

    fn failed(&self, size: Size, name: &str, ended: &std::process::Output, said: &str) -> Failure {
        let of = format!("{} of {name} on {} ranks", size.collective.name, size.ranks);
        let title = format!("{of}, {} bytes: the run failed ({})", size.bytes(), ended.status);
        let d = lines(Diagnostic::error("E567", title), said);
        match name {
            "kbc" => d.into(),
            _ => d.help("arguments of a launcher are part of its name: mpirun --oversubscribe").into(),
        }
    }

    fn name(&self, contestant: Contestant) -> String {
        match contestant {
            Contestant::Memory(_) => "kbc".to_owned(),
            Contestant::OverMpi(_, m) => format!("kbc/{}", self.mpi[m].name),
            Contestant::Mpi(m) => self.mpi[m].name.clone(),
            Contestant::Peer(p) => self.peers[p].0.clone(),
        }
    }

    /// The row of a contestant, without its times.
    fn row(
        &self,
        size: Size,
        contestant: Contestant,
        built: &[Built],
        samples: &[Sample],
        stage: BenchStage,
    ) -> BenchRow {
        let (transport, algorithm) = match contestant {
            Contestant::Memory(i) => ("memory", Some(built[i].algorithm.clone())),
            Contestant::OverMpi(i, _) => ("mpi", Some(built[i].algorithm.clone())),
            Contestant::Mpi(_) => ("mpi", None),
            Contestant::Peer(_) => ("command", None),
        };
        let sum = |of: &dyn Fn(&Sample) -> Option<u64>| {
            let all: Vec<u64> = samples.iter().filter_map(of).collect();
            (!all.is_empty()).then(|| all.iter().sum())
        };
        let wrong = sum(&|s| s.wrong);
        if wrong.unwrap_or(0) > 0 {
            samples.iter().for_each(|s| self.session.print_note(&s.said));
        }
        BenchRow {
            collective: size.collective.name.to_owned(),
            ranks: size.ranks,
            bytes: size.bytes(),
            count: size.count,
            element: "f32".to_owned(),
            contestant: self.name(contestant),
            transport: transport.to_owned(),
            algorithm,
            stage,
            repeat: samples.first().and_then(|s| s.repeat),
            compared: sum(&|s| s.compared),
            wrong,
            ..BenchRow::default()
        }
    }
}

/// Whether a failure is about this computer and not about an algorithm.
fn is_of_system(failure: &Failure) -> bool {
    failure.messages().list.iter().any(|d| ["E410", "E411", "E564", "E991"].contains(&d.code))
}

fn not_started(name: &str, e: &std::io::Error) -> Failure {
    Diagnostic::error("E567", format!("{name} does not start")).note(words(e)).into()
}

/// Compiles a program of a package.
fn compiled(
    compiler: &NativeTool,
    what: (&NativeBuild, &str, &[&str]),
    folder: &Path,
    program: &Path,
    help: &str,
) -> Outcome {
    let source = what.1;
    host_program::build(compiler, what, folder, program).map_err(|said| {
        let title = format!("the compiler `{}` does not compile {source}", compiler.command());
        Failure::from(lines(Diagnostic::error("E564", title), &said).help(help))
    })
}
