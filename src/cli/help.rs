//! Help texts: examples of every command, and which options fit on its screen.
//!
//! `-h` and `--help` print the first sentence of each option. An option that few need is marked
//! with `hide_short_help` where it is declared: the help names it, and the manual page and
//! docs/reference/cli.md describe it. A test runs every example and counts the lines.

use super::Cli;
use clap::{Arg, ArgAction, Command, CommandFactory};

/// Examples by command, each a command line and what it does.
pub const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "",
        &[
            ("kbc new your_ring", "start a folder with an algorithm, a program and a machine"),
            ("kbc check my_ring.kb", "prove the algorithms of a file on many numbers of ranks"),
            ("kbc run layer.kb", "prove, execute and time a program"),
            ("kbc report layer.kb -o layer.html", "show the messages step by step"),
        ],
    ),
    (
        "check",
        &[
            ("kbc check my_ring.kb", ""),
            ("kbc check my_ring.kb --algorithm my_ring --ranks 2..9,16", ""),
            ("kbc check my_ring.kb --sync", "how many signals it needs"),
            ("kbc check schedule.kir --format json", ""),
        ],
    ),
    (
        "run",
        &[
            ("kbc run layer.kb", ""),
            ("kbc run layer.kb -D tp=8 --topology machine.yaml", "on another machine"),
            ("kbc run my_ring.kb --ranks 8 --adversarial", "under a weak memory model"),
            ("kbc run layer.kb --emit trace=layer.pftrace", "for the Perfetto UI"),
        ],
    ),
    (
        "compile",
        &[
            ("kbc compile layer.kb --target a2a3 -o package", "a package for Ascend"),
            ("kbc compile layer.kb --emit kir -o layer.kir", "the schedule as text"),
        ],
    ),
    (
        "launch",
        &[
            ("kbc launch specs/all_reduce.kb -n 2", "two processes"),
            ("kbc launch my_ring.kb --ranks 4 -D n=4096 -o c", "an algorithm; the C stays in a folder"),
        ],
    ),
    (
        "calibrate",
        &[
            ("kbc calibrate -o here.yaml", "then kbc run layer.kb --topology here.yaml"),
            ("kbc calibrate --sizes 4KiB --at 64KiB", "the rates of small messages"),
        ],
    ),
    (
        "report",
        &[
            ("kbc report layer.kb -o layer.html", ""),
            ("kbc report layer.kb --no-data --trace-ranks 0..2", "without execution, three ranks"),
        ],
    ),
    (
        "explain",
        &[
            ("kbc explain E110", "a message"),
            ("kbc explain select layer.kb", "why each collective has its algorithm"),
            ("kbc explain path layer.kb --format json", "where the time goes"),
        ],
    ),
    (
        "list",
        &[
            ("kbc list", "the algorithms of the library"),
            ("kbc list kernels layer.kb", ""),
            ("kbc list ring --ranks 64", "what an algorithm costs"),
            ("kbc list passes place", "the page of a pass"),
        ],
    ),
    ("new", &[("kbc new your_ring", ""), ("kbc new your_ring -o folder", "")]),
    ("fmt", &[("kbc fmt my_ring.kb layer.kb", ""), ("kbc fmt layer.kb --check --diff", "")]),
    (
        "opt",
        &[
            ("kbc opt graph.kir -p infer,place", ""),
            ("kbc opt schedule.kir -p lower-queues --emit dot -o schedule.dot", ""),
        ],
    ),
    (
        "import",
        &[
            ("kbc import exported -o model.kb", ""),
            ("kbc import exported --lift -o model.kb", "one global program"),
        ],
    ),
    (
        "plot",
        &[("kbc plot topology 'torus(2, 3)' -o torus.svg", ""), ("kbc plot links layer.kb -o links.png", "")],
    ),
    (
        "plot topology",
        &[
            ("kbc plot topology 'torus(2, 3)' -o torus.svg", ""),
            ("kbc plot topology machine.yaml -o machine.png --theme dark", ""),
        ],
    ),
    (
        "plot links",
        &[
            ("kbc plot links layer.kb -o links.svg", ""),
            ("kbc plot links layer.kb --topology machine.yaml -D tp=8 -o links.png", ""),
        ],
    ),
    (
        "plot tree",
        &[
            ("kbc plot tree specs/broadcast.kb --topology 'mesh(4, 4)' --using packed -o tree.svg", ""),
            ("kbc plot tree specs/all_gather.kb --using packed --tree 2 -o tree.png", "the second tree"),
        ],
    ),
    (
        "synth",
        &[
            ("kbc synth 'mesh(4, 4)' all_gather -o mesh.kb", ""),
            ("kbc synth machine.yaml broadcast --root 3", "the rate and why none is better"),
            ("kbc synth 'mesh(4, 4)' all_reduce --sizes", "the fastest plan for each size"),
        ],
    ),
    (
        "repair",
        &[
            ("kbc repair layer.kb --fail '(0)->(1)'", ""),
            ("kbc repair layer.kb --topology 'mesh(2, 2)' --fail '(0,0)<->(0,1)'", "both directions"),
        ],
    ),
    (
        "compare",
        &[
            ("kbc compare ring one_phase --of specs/all_reduce.kb --over n=64..4096", "two algorithms"),
            ("kbc compare 'ring(4)' 'full(4)' --of layer.kb", "two machines"),
        ],
    ),
    (
        "sweep",
        &[
            ("kbc sweep sweep.yaml", "a table"),
            ("kbc sweep sweep.yaml -o rows.csv", ""),
            ("kbc sweep sweep.yaml --only n=64 --list", "what a row runs"),
            ("kbc sweep sweep.yaml --emit slurm --shards 2 -o sweep.sh", "an array job"),
        ],
    ),
    (
        "dev",
        &[
            ("kbc dev fuzz engines --programs 20", ""),
            ("kbc dev mutate my_ring.kb --ranks 2..3 --limit 50", ""),
            ("kbc dev replay kbc-crash.kb", ""),
        ],
    ),
    (
        "dev fuzz",
        &[("kbc dev fuzz engines --programs 20", ""), ("kbc dev fuzz checker --schedules 20 --seed 1", "")],
    ),
    ("dev fuzz engines", &[("kbc dev fuzz engines --programs 20 --seed 1", "")]),
    ("dev fuzz emitted", &[("kbc dev fuzz emitted --programs 2 --seed 1", "")]),
    ("dev fuzz schedules", &[("kbc dev fuzz schedules schedule.kir --programs 20", "")]),
    ("dev fuzz checker", &[("kbc dev fuzz checker --schedules 20 --seed 1 -o found", "")]),
    ("dev fuzz readers", &[("kbc dev fuzz readers layer.kb machine.yaml --inputs 200", "")]),
    ("dev fuzz bounds", &[("kbc dev fuzz bounds --programs 5", "")]),
    (
        "dev mutate",
        &[
            ("kbc dev mutate my_ring.kb --ranks 2..3 --limit 50", ""),
            ("kbc dev mutate --algorithm all_reduce.ring --ranks 3 --limit 20 --equivalent 2", ""),
        ],
    ),
    ("dev replay", &[("kbc dev replay kbc-crash.kb", "")]),
    ("dev repro", &[("kbc dev repro figures.yaml", ""), ("kbc dev repro figures.yaml --check", "")]),
    (
        "dev bench",
        &[
            ("kbc dev bench host all_reduce --sizes 8,4KiB --algorithm ring --rounds 1 --no-mpi", ""),
            ("kbc dev bench select --points 2", ""),
            ("kbc dev bench ccl --topology topology.yaml --ccl ccl.yaml -D algorithm=tree", ""),
            ("kbc dev bench scale start check-ring --sizes 8,16", ""),
        ],
    ),
    (
        "dev bench host",
        &[
            ("kbc dev bench host all_gather --sizes 8,1MiB --algorithm ring --rounds 1 --no-mpi", ""),
            ("kbc dev bench host broadcast --sizes 64 --algorithm chain --no-mpi -o rows.csv", ""),
        ],
    ),
    ("dev bench select", &[("kbc dev bench select --points 2 --seed 7", "")]),
    (
        "dev bench ccl",
        &[("kbc dev bench ccl --topology topology.yaml --ccl ccl.yaml -D algorithm=tree -o ccl.log", "")],
    ),
    (
        "dev bench scale",
        &[
            ("kbc dev bench scale start check-ring --sizes 8,16", ""),
            ("kbc dev bench scale irregular --sizes 4,8 --repeat 1", "one process for each size"),
        ],
    ),
    (
        "dev compare-reference",
        &[
            ("kbc dev compare-reference specs/reference/kernbench_transfers.yaml", ""),
            ("kbc dev compare-reference rows.csv --topology here.yaml", "measured and simulated times"),
        ],
    ),
    ("completions", &[("kbc completions bash > kbc.bash", ""), ("kbc completions zsh > _kbc", "")]),
    ("man", &[("kbc man run", ""), ("kbc man -o man1", "all pages")]),
];

/// Options of every command, which only the help of kbc itself lists.
const GLOBAL: &str = "\
Options of every command:
  --format human|json              form of results
  --diagnostics human|short|json   form of messages
  --color auto|always|never, -q    when to colour messages; results, warnings and errors only
  --cache DIR, --no-cache          folder of what is kept from one run to another; none";

/// Returns the command line with help texts that fit a screen.
pub fn screen() -> Command {
    dress(Cli::command(), "", true)
}

/// Returns the words of `kbc help VERB` as those of `kbc VERB --help`, and others as they are.
pub fn asked(mut words: Vec<std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    if words.first().is_some_and(|w| w == "help") {
        words.remove(0);
        words.push("--help".into());
    }
    words
}

/// Returns the command line with everything that is known about it, and examples.
pub fn complete() -> Command {
    dress(Cli::command(), "", false)
}

fn dress(mut command: Command, path: &str, screen: bool) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in names {
        let path = format!("{path} {name}");
        command = command.mut_subcommand(name, |c| dress(c, path.trim_start(), screen));
    }
    let mut parts = vec![examples(path)];
    if screen {
        let is_rare = |a: &&clap::Arg| a.is_hide_short_help_set() && !a.is_hide_set() && !a.is_global_set();
        let rare: Vec<String> = command
            .get_arguments()
            .filter(is_rare)
            .filter_map(|a| Some(format!("--{}", a.get_long()?)))
            .collect();
        if !rare.is_empty() {
            parts.push(format!("More options, which `kbc man {path}` describes: {}", rare.join(", ")));
        }
        // The flag of clap prints another text for `--help` than for `-h`.
        let help = Arg::new("help").short('h').long("help").action(ArgAction::HelpShort).help("Print help");
        command = command.disable_help_flag(true).arg(help.display_order(998));
    } else {
        // What a screen leaves out is in the manual.
        command = command.mut_args(|a| a.hide_short_help(false));
        parts.extend(path.is_empty().then(|| GLOBAL.to_owned()));
    }
    command.after_help(parts.join("\n\n").trim().to_owned())
}

/// Returns the examples of a command as a part of its help. An old spelling has those of the new
/// one.
fn examples(path: &str) -> String {
    let of = |path: &str| EXAMPLES.iter().find(|e| e.0 == path).map(|e| e.1);
    let list = of(path).or_else(|| of(&format!("dev {path}"))).unwrap_or(&[]);
    let width = list.iter().filter(|e| !e.1.is_empty()).map(|e| e.0.len()).max().unwrap_or(0);
    let line = |(command, what): &(&str, &str)| format!("  {command:<width$}   {what}").trim_end().to_owned();
    let lines: Vec<String> = list.iter().map(line).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}", lines.join("\n")) }
}
