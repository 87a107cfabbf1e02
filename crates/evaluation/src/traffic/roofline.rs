//! Roofline of the tasks of a kernel: the least time of each task at the rates of a machine, which
//! rate that is, and the least time of a launch.
//!
//! What a task does is read from the trace of its kernel ([`kbc_tiles::tile::core_work`]). All
//! rates are settings of the machine; what it does not state has no time here.

use super::MAX_OPERATIONS;
use kbc_compiler::report::amounts::{bytes, time};
use kbc_diag::Diagnostics;
use kbc_machine::topology::cores::Mover;
use kbc_machine::topology::{Settings, Topology};
use kbc_tiles::backend::Target;
use kbc_tiles::tile::core_work::{CoreWork, of_cores};
use kbc_tiles::tile::{Core, Kernel, Object, tasks};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The roofline of the tasks of a kernel.
#[derive(Serialize)]
pub struct Roofline {
    /// The machine whose rates these are.
    machine: String,
    /// The rates that it states, as a machine file writes them.
    rates: Vec<String>,
    /// Names of the settings that would give further times.
    not_stated: Vec<&'static str>,
    /// The tasks in the order in which they are submitted.
    tasks: Vec<TaskRoof>,
    /// The tasks that run one after another on one rank, because of what they touch, and take the
    /// longest. Empty if no task has a time.
    chain: Vec<String>,
    /// Nanoseconds that these tasks take on that rank, below which no launch is.
    at_least: Option<f64>,
}

/// A task, on the rank that takes longest.
#[derive(Serialize)]
struct TaskRoof {
    task: String,
    /// The kind of core that runs it.
    core: &'static str,
    cores: u32,
    /// Bytes that are moved between cores and memory of this rank.
    memory_bytes: u64,
    /// Bytes that are moved between cores and windows of peers.
    peer_bytes: u64,
    /// Multiplications and additions of matmuls.
    flops: u64,
    /// Loads and stores in memory of this rank.
    transfers: u64,
    /// Waits for flags between pipes.
    flags: u64,
    notifies: u64,
    /// Nanoseconds by what takes them, as far as the machine states rates.
    times: BTreeMap<&'static str, f64>,
    /// What takes longest, which the task cannot be faster than.
    bound: Option<&'static str>,
    /// Its nanoseconds.
    at_least: Option<f64>,
}

/// What can bound a task, in the order of the printed table, each with the settings of its rate.
const BOUNDS: [(&str, &str); 7] = [
    ("memory", "device"),
    ("core memory", "core_memory"),
    ("transfers", "core_transfer"),
    ("flags", "core_flag"),
    ("products", "device"),
    ("peers", "core_get, core_put"),
    ("notifies", "notify"),
];

impl Roofline {
    /// Computes the roofline of a complete kernel on a machine. `named` is what the user calls the
    /// machine.
    ///
    /// # Errors
    /// Returns E431 for a kernel with too many operations, and the errors of a kernel that is not
    /// sound.
    pub fn of(
        kernel: &Kernel,
        ranks: u64,
        target: &'static dyn Target,
        (topology, named): (&Topology, Option<&str>),
    ) -> Result<Roofline, Diagnostics> {
        let settings = topology.settings();
        let limit = usize::try_from(MAX_OPERATIONS).unwrap_or(usize::MAX);
        let tasks = tasks::split(kernel);
        // By rank, then by task.
        let mut roofs: Vec<Vec<TaskRoof>> = (0..ranks).map(|_| vec![]).collect();
        for task in &tasks {
            let work = of_cores(&task.kernel, ranks, &BTreeMap::new(), limit)?;
            for (of_rank, cores) in roofs.iter_mut().zip(&work) {
                of_rank.push(task_roof(task, cores, target, settings));
            }
        }
        let longer = |a: Option<f64>, b: Option<f64>| b > a;
        let (chain, at_least) = roofs
            .iter()
            .map(|of_rank| chain(&tasks, of_rank))
            .reduce(|a, b| if longer(a.1, b.1) { b } else { a })
            .unwrap_or_default();
        let mut by_rank: Vec<_> = roofs.into_iter().map(Vec::into_iter).collect();
        let list = tasks
            .iter()
            .filter_map(|_| {
                let of_task = by_rank.iter_mut().filter_map(Iterator::next);
                of_task.reduce(|a, b| if longer(a.at_least, b.at_least) { b } else { a })
            })
            .collect();
        let machine = named.map_or_else(|| "the program's machine".to_owned(), str::to_owned);
        let (rates, not_stated) = rates(settings);
        Ok(Roofline { machine, rates, not_stated, tasks: list, chain, at_least })
    }

    /// Formats the roofline for people.
    pub fn text(&self) -> String {
        if self.rates.is_empty() {
            return format!("no roofline: {} states no {}\n", self.machine, self.not_stated.join(", "));
        }
        let mut out =
            format!("roofline of a rank, by the rates of {}: {}\n", self.machine, self.rates.join("; "));
        let width = self.tasks.iter().map(|t| t.task.len()).max().unwrap_or(0).max(6);
        out +=
            &format!("  {:<width$} {:>8} {:>10} {:>10} {:>10}", "task", "cores", "memory", "peers", "flop");
        for (name, _) in BOUNDS {
            out += &format!(
                " {:>11}",
                if ["memory", "peers"].contains(&name) { format!("t {name}") } else { name.into() }
            );
        }
        out += "  bound\n";
        for t in &self.tasks {
            let cores = format!("{} {}", t.cores, t.core);
            out += &format!(
                "  {:<width$} {cores:>8} {:>10} {:>10} {:>10}",
                t.task,
                bytes(t.memory_bytes),
                bytes(t.peer_bytes),
                t.flops
            );
            for (name, _) in BOUNDS {
                out += &format!(" {:>11}", t.times.get(name).map_or_else(|| "-".to_owned(), |ns| time(*ns)));
            }
            out += &format!("  {}\n", t.bound.unwrap_or("-"));
        }
        if let Some(ns) = self.at_least {
            let tasks = match self.chain.as_slice() {
                [one] => one.clone(),
                all => format!("{}, one after another", all.join(", ")),
            };
            out += &format!("  a launch takes at least {}: {tasks}\n", time(ns));
        }
        if !self.not_stated.is_empty() {
            out += &format!("  the machine states no {}\n", self.not_stated.join(", "));
        }
        out
    }
}

/// Returns the rates that a machine states, and the names of those that it does not.
fn rates(settings: &Settings) -> (Vec<String>, Vec<&'static str>) {
    let cores = settings.cores;
    let of = [
        ("device", settings.device.is_some()),
        ("core_memory", cores.memory.is_some()),
        ("core_transfer", cores.transfer.is_some()),
        ("core_flag", cores.flag.is_some()),
        ("core_get", cores.get_limit().is_some()),
        ("core_put", cores.put_limit().is_some()),
        ("notify", cores.notify.is_some()),
    ];
    let mut rates = settings.parts();
    rates.retain(|part| of.iter().any(|(name, _)| part.split(':').next() == Some(name)));
    (rates, of.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect())
}

/// Returns the names of the tasks of a rank that run one after another and take the longest, and
/// their nanoseconds. Two tasks run one after another if one writes what the other touches, or if
/// both touch what peers reach: the window is one argument of both. Tasks without a time take none.
fn chain(tasks: &[tasks::Task], roofs: &[TaskRoof]) -> (Vec<String>, Option<f64>) {
    if roofs.iter().all(|r| r.at_least.is_none()) {
        return (vec![], None);
    }
    let ordered = |a: &tasks::Uses, b: &tasks::Uses| {
        let touch = |writes: &BTreeSet<Object>, of: &tasks::Uses| {
            writes.iter().any(|o| of.reads.contains(o) || of.writes.contains(o))
        };
        touch(&a.writes, b) || touch(&b.writes, a) || a.shared && b.shared
    };
    // The end of the longest chain up to each task, and the task before it there.
    let mut ends: Vec<(f64, Option<usize>)> = vec![];
    for (i, (task, roof)) in tasks.iter().zip(roofs).enumerate() {
        let before = (0..i).filter(|j| ordered(&tasks[*j].uses, &task.uses));
        let last = before.reduce(|a, b| if ends[b].0 > ends[a].0 { b } else { a });
        ends.push((last.map_or(0.0, |j| ends[j].0) + roof.at_least.unwrap_or(0.0), last));
    }
    let mut at = (0..ends.len()).reduce(|a, b| if ends[b].0 > ends[a].0 { b } else { a });
    let at_least = at.map(|i| ends[i].0);
    let mut names = vec![];
    while let Some(i) = at {
        if roofs[i].at_least.is_some_and(|ns| ns > 0.0) {
            names.push(roofs[i].task.clone());
        }
        at = ends[i].1;
    }
    names.reverse();
    (names, at_least)
}

/// The roof of a task on a rank with these cores.
fn task_roof(task: &tasks::Task, cores: &[CoreWork], target: &dyn Target, settings: &Settings) -> TaskRoof {
    let kernel = &task.kernel;
    let sum = |of: &dyn Fn(&CoreWork) -> u64| cores.iter().map(of).fold(0, u64::saturating_add);
    let memory_bytes = sum(&|c| c.loaded.saturating_add(c.stored));
    let moved = |list: &BTreeMap<u64, u64>| list.iter().map(|(size, n)| size.saturating_mul(*n)).sum::<u64>();
    let longest = |of: &dyn Fn(&CoreWork) -> f64| cores.iter().map(of).fold(0.0, f64::max);
    let mut times = BTreeMap::new();
    if let Some(device) = settings.device {
        times.insert("memory", memory_bytes as f64 / device.memory * 1e9);
        if kernel.core == Core::Matrix {
            // A core has its part of the peak of all.
            let share = device.flops / f64::from(target.limits().matrix_cores.max(1));
            times.insert("products", longest(&|c| c.flops as f64 / share * 1e9));
        }
    }
    if let (Some(rate), Core::Vector) = (settings.cores.memory, kernel.core) {
        times.insert("core memory", longest(&|c| (c.loaded + c.stored) as f64 / rate * 1e9));
    }
    // Loads and stores have pipes of their own, and so have the flags for which they wait.
    let longest_of = |of: &dyn Fn(&CoreWork) -> u64| cores.iter().map(of).max().unwrap_or(0);
    if let Some(ns) = settings.cores.transfer {
        times.insert("transfers", longest_of(&|c| c.loads.max(c.stores)) as f64 * ns);
    }
    if let Some(ns) = settings.cores.flag {
        let most = |c: &CoreWork| c.flags.values().copied().max().unwrap_or(0);
        times.insert("flags", longest_of(&most) as f64 * ns);
    }
    let transfers = |mover: Option<Mover>, list: &BTreeMap<u64, u64>| -> Option<f64> {
        match mover {
            _ if list.is_empty() => Some(0.0),
            None => None,
            Some(m) => Some(list.iter().map(|(size, n)| *n as f64 * m.ns(*size, 0.0)).sum()),
        }
    };
    let of_core = |c: &CoreWork| {
        Some(
            transfers(settings.cores.get_limit(), &c.from_peers)?
                + transfers(settings.cores.put_limit(), &c.to_peers)?,
        )
    };
    let talks = cores.iter().any(|c| !c.from_peers.is_empty() || !c.to_peers.is_empty());
    if talks && cores.iter().all(|c| of_core(c).is_some()) {
        times.insert("peers", longest(&|c| of_core(c).unwrap_or_default()));
    }
    let notifies = sum(&|c| c.notifies);
    if let (Some(ns), true) = (settings.cores.notify, notifies > 0) {
        times.insert("notifies", longest(&|c| c.notifies as f64 * ns));
    }
    // Of equal times the first in the table.
    let bound = BOUNDS.iter().filter_map(|(name, _)| Some((*name, *times.get(name)?)));
    let bound = bound.reduce(|a, b| if b.1 > a.1 { b } else { a });
    TaskRoof {
        task: task.name.to_string(),
        core: target.dialect().core(kernel.core),
        cores: kernel.cores,
        memory_bytes,
        peer_bytes: sum(&|c| moved(&c.from_peers).saturating_add(moved(&c.to_peers))),
        flops: sum(&|c| c.flops),
        transfers: sum(&|c| c.loads.saturating_add(c.stores)),
        flags: sum(&|c| c.flags.values().sum()),
        notifies,
        times,
        bound: bound.map(|b| b.0),
        at_least: bound.map(|b| b.1),
    }
}
