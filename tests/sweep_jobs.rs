//! Tests of `kbc sweep --emit`: the emitted jobs run here, with stand-ins for Slurm and for the
//! actions of GitHub, and their result is that of a run without shards.
#![cfg(unix)]

use crate::common::{Ran, kbc};
use crate::temporaries::Temporaries;
use serde_yaml::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const RING: &str = "param n = 16\ntopology sys = ring(4) { link: 50 GB/s, 500 ns }\nmesh m = sys[tp]\nprogram p(x: f32[n] \
                    partial(sum@tp)) -> f32[n] { all_reduce(x, sum, over: tp) }\n";

const GRID: &str = "sweep: 1\ntitle: t\nfile: ring.kb\ntopology: '{shape}({p})'\ndefine: {n: '{n}'}\naxes:\n  shape: [ring, full]\n  \
                    p: [2, 3]\n  n: [1, 7, 64]\nfigures:\n- {figure: latency, x: n, series: [shape, p]}\n";

fn scratch() -> Temporaries {
    let s = Temporaries::new("kbc-");
    s.dir.write("ring.kb", RING.as_bytes());
    s.dir.write("g.yaml", GRID.as_bytes());
    s
}

fn run(s: &Temporaries, args: &[&str]) -> Ran {
    kbc(s.dir.path(), &[&["sweep"], args, &["-q"]].concat(), "")
}

/// A stand-in for `sbatch`: it runs the script from its standard input, once or for each number of
/// an array, and knows which jobs have ended. The job of an array may fail, as with Slurm.
const SBATCH: &str = r#"
here=$(dirname "$0")
echo "$*" >> "$here/calls"
array= after=
for a in "$@"; do
    case $a in
        --array=*) array=${a#--array=} ;;
        --dependency=afterany:*) after=${a##*:} ;;
    esac
done
if [ -n "$after" ] && ! grep -qx "$after" "$here/done"; then
    echo "no job $after has ended" >&2
    exit 1
fi
job=$(( 40 + $(wc -l < "$here/calls") ))
cat > "$here/script.$job"
if [ -n "$array" ]; then
    k=${array%-*}
    while [ "$k" -le "${array#*-}" ]; do
        SLURM_ARRAY_TASK_ID=$k bash "$here/script.$job" >&2 || echo "task $k failed" >> "$here/failed"
        k=$((k + 1))
    done
else
    bash "$here/script.$job" >&2 || echo "job $job failed" >> "$here/failed"
fi
echo "$job" >> "$here/done"
echo "$job;cluster"
"#;

/// Runs a script with the stand-in.
fn submitted(s: &Temporaries, script: &str, vars: &[(&str, &str)]) -> Output {
    let bin = s.dir.path().join("bin");
    let _ = std::fs::remove_dir_all(&bin);
    s.dir.write("bin/none", b"");
    s.script("bin/sbatch", SBATCH);
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    Command::new("bash")
        .args([script, "--account=me"])
        .current_dir(s.dir.path())
        .env("PATH", path)
        .env("KBC", env!("CARGO_BIN_EXE_kbc"))
        .envs(vars.iter().copied())
        .output()
        .expect("bash runs")
}

fn file(s: &Temporaries, name: &str) -> String {
    std::fs::read_to_string(s.dir.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// A script whose text bash does not accept, or another one, fails here.
fn is_bash(s: &Temporaries, name: &str) {
    let out = Command::new("bash").args(["-n", name]).current_dir(s.dir.path()).output().expect("bash runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn an_array_job_gives_the_rows_of_one_run() {
    let s = scratch();
    assert_eq!(run(&s, &["g.yaml", "-o", "whole", "--no-cache"]).code, 0);
    let args =
        ["g.yaml", "--emit", "slurm", "--shards", "5", "-o", "job.sh", "--jobs", "1", "--cache", "a cache"];
    let ran = run(&s, &[&args[..], &["--setup", "export CALLED=\"it's\""]].concat());
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    is_bash(&s, "job.sh");
    // A part of another run is not taken for one of this.
    s.dir.write("g.parts/5.jsonl", b"{}\n");
    let out = submitted(&s, "job.sh", &[]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    for name in ["g.csv", "g.jsonl", "g-latency.svg", "g-latency.png"] {
        let [a, b] = ["whole", "g"].map(|folder| std::fs::read(s.dir.path().join(folder).join(name)).ok());
        assert!(a.is_some() && a == b, "{name}");
    }
    let calls = file(&s, "bin/calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls[0].contains("--parsable") && calls[0].contains("--array=1-5 "), "{calls:?}");
    assert!(calls[1].contains("--dependency=afterany:41 "), "{calls:?}");
    assert!(calls.iter().all(|c| c.ends_with(" --account=me") && !c.contains("--exclusive")), "{calls:?}");
    assert!(s.dir.path().join("a cache").is_dir() && !s.dir.path().join("bin/failed").exists());
    let script = file(&s, "bin/script.41");
    assert!(script.contains("\nexport CALLED=\"it's\"\n"), "{script}");

    // Other places, and a second run over the first.
    let out = submitted(&s, "job.sh", &[("PARTS", "some parts"), ("OUT", "one.csv")]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    assert_eq!(file(&s, "one.csv"), file(&s, "whole/g.csv"));
    assert_eq!(file(&s, "some parts/5.jsonl").lines().count(), 2);
}

/// Rows that fail are rows of the result, and shards that are not there are said.
#[test]
fn what_fails_in_a_shard_is_in_the_merge() {
    let s = scratch();
    s.dir.write("it's g.yaml", GRID.replace("[ring, full]", "[ring, rong]").as_bytes());
    let ran = run(&s, &["it's g.yaml", "--emit", "slurm", "--shards", "12", "-o", "job.sh"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    is_bash(&s, "job.sh");
    submitted(&s, "job.sh", &[("OUT", "rows.csv"), ("KBC_CACHE", "known")]);
    let rows = file(&s, "rows.csv");
    assert_eq!(rows.lines().filter(|l| l.contains(",refused,")).count(), 6, "{rows}");
    assert_eq!(rows.lines().count(), 13);
    // Six tasks, and the merge.
    assert_eq!(file(&s, "bin/failed").lines().count(), 7);

    let script = file(&s, "job.sh").replace("rm -f \"$part\"", "[ \"$SLURM_ARRAY_TASK_ID\" = 3 ] && exit 1");
    s.dir.write("lost.sh", script.as_bytes());
    let out = submitted(&s, "lost.sh", &[("OUT", "lost.csv"), ("PARTS", "lost"), ("KBC_CACHE", "known")]);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("lost/3.jsonl") && !s.dir.path().join("lost.csv").exists(), "{said}");
}

/// A job of a workflow in a folder of its own, as on a runner. Returns whether it failed.
struct Runner<'a> {
    s: &'a Temporaries,
    /// What `upload-artifact` keeps.
    store: PathBuf,
}

fn copied(from: &Path, to: &Path) {
    if !from.is_dir() {
        std::fs::create_dir_all(to.parent().expect("in a folder")).expect("can be written");
        std::fs::copy(from, to).expect("can be copied");
        return;
    }
    for entry in std::fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        copied(&path, &to.join(path.file_name().expect("a name")));
    }
}

impl Runner<'_> {
    fn job(&self, job: &Value, folder: &str, shard: &str) -> bool {
        let dir = self.s.dir.path().join(folder);
        std::fs::create_dir_all(&dir).expect("can be written");
        let mut failed = false;
        for step in job["steps"].as_sequence().expect("steps") {
            let always = step["if"].as_str() == Some("${{ !cancelled() }}");
            if failed && !always {
                continue;
            }
            let fill = |v: &Value| v.as_str().expect("a text").replace("${{ matrix.shard }}", shard);
            let with = |key: &str| fill(&step["with"][key]);
            match step["uses"].as_str().map(|u| u.split('@').next().unwrap_or_default()) {
                None => {
                    let text = fill(&step["run"]);
                    assert!(!text.contains("${{"), "{text}");
                    let path = format!(
                        "{}:{}",
                        self.s.dir.path().join("bin").display(),
                        std::env::var("PATH").expect("a path")
                    );
                    let out = Command::new("bash")
                        .args(["-e", "-c", &text])
                        .current_dir(&dir)
                        .env("PATH", path)
                        .env("KBC_CACHE", self.s.dir.path().join("known"))
                        .output()
                        .expect("bash runs");
                    failed |= !out.status.success();
                }
                Some("actions/checkout") => {
                    for name in ["ring.kb", "g.yaml"] {
                        copied(&self.s.dir.path().join(name), &dir.join(name));
                    }
                }
                Some("actions/upload-artifact") => {
                    let from = dir.join(with("path"));
                    assert!(from.exists(), "{} is not there", from.display());
                    let to = self.store.join(with("name"));
                    let to = if from.is_dir() { to } else { to.join(from.file_name().expect("a name")) };
                    copied(&from, &to);
                }
                Some("actions/download-artifact") => {
                    let pattern = with("pattern");
                    let head = pattern.strip_suffix('*').expect("a pattern");
                    assert_eq!(step["with"]["merge-multiple"].as_bool(), Some(true));
                    for entry in std::fs::read_dir(&self.store).expect("a folder") {
                        let path = entry.expect("an entry").path();
                        if path.file_name().expect("a name").to_string_lossy().starts_with(head) {
                            copied(&path, &dir.join(with("path")));
                        }
                    }
                }
                Some(other) => panic!("unknown action {other}"),
            }
        }
        failed
    }
}

/// Runs a workflow; returns the numbers of the jobs that failed, 0 for the merge.
fn workflow(s: &Temporaries, name: &str, shards: usize) -> Vec<usize> {
    let text = file(s, name);
    let all: Value = serde_yaml::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(all["on"].as_str(), Some("workflow_dispatch"));
    let jobs = &all["jobs"];
    assert_eq!(jobs["merge"]["needs"].as_str(), Some("shard"));
    assert_eq!(jobs["merge"]["if"].as_str(), Some("${{ !cancelled() }}"));
    assert_eq!(jobs["shard"]["strategy"]["fail-fast"].as_bool(), Some(false));
    let matrix = jobs["shard"]["strategy"]["matrix"]["shard"].as_sequence().expect("a list");
    let matrix: Vec<u64> = matrix.iter().filter_map(Value::as_u64).collect();
    assert_eq!(matrix, (1..=shards as u64).collect::<Vec<_>>());
    std::fs::create_dir_all(s.dir.path().join("bin")).expect("can be written");
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kbc"), s.dir.path().join("bin/kbc"));
    let runner = Runner { s, store: s.dir.path().join(format!("{name}.store")) };
    let mut failed = vec![];
    for k in matrix {
        if runner.job(&jobs["shard"], &format!("{name}.{k}"), &k.to_string()) {
            failed.push(k as usize);
        }
    }
    if runner.job(&jobs["merge"], &format!("{name}.merge"), "none") {
        failed.push(0);
    }
    failed
}

#[test]
fn a_workflow_gives_the_rows_of_one_run() {
    let s = scratch();
    assert_eq!(run(&s, &["g.yaml", "-o", "whole", "--no-cache"]).code, 0);
    let setup = "echo \"one: two\" > made\ntest -f made";
    let ran = run(&s, &["g.yaml", "--emit", "github", "--shards", "3", "-o", "w.yml", "--setup", setup]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(workflow(&s, "w.yml", 3), Vec::<usize>::new());
    assert_eq!(file(&s, "w.yml.store/g/g.csv"), file(&s, "whole/g.csv"));
    assert_eq!(file(&s, "w.yml.store/g/g-latency.svg"), file(&s, "whole/g-latency.svg"));
    assert_eq!(file(&s, "w.yml.2/made"), "one: two\n");

    s.dir.write("g.yaml", GRID.replace("[ring, full]", "[ring, rong]").as_bytes());
    let ran = run(&s, &["g.yaml", "--emit", "github", "--shards", "12", "-o", "v.yml"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(workflow(&s, "v.yml", 12), [7, 8, 9, 10, 11, 12, 0]);
    assert_eq!(file(&s, "v.yml.store/g/g.csv").matches(",refused,").count(), 6);
}

#[test]
fn jobs_that_cannot_be_are_refused() {
    let s = scratch();
    // Measured rows have a node to themselves.
    let measured = GRID.replace("file: ring.kb", "file: ring.kb\nengine: host");
    s.dir.write("m.yaml", measured.as_bytes());
    let ran = run(&s, &["m.yaml", "--emit", "slurm", "--shards", "2"]);
    assert!(ran.code == 0 && ran.stdout.contains(" --exclusive "), "{}{}", ran.stdout, ran.stderr);
    s.dir.write("${{ x }}.yaml", GRID.as_bytes());
    for (args, words) in [
        (&["g.yaml", "--emit", "slurm", "--shards", "13"][..], "--shards 13: the sweep has 12 rows"),
        (&["${{ x }}.yaml", "--emit", "github", "--shards", "2"], "begins an expression"),
        (&["g.yaml", "--emit", "slurm"], "--shards"),
        (&["g.yaml", "--shards", "2"], "--emit"),
        (&["g.yaml", "--emit", "pbs", "--shards", "2"], "pbs"),
        (&["g.yaml", "--emit", "slurm", "--shards", "2", "--only", "n=1"], "--only"),
        (&["g.yaml", "--emit", "slurm", "--shards", "0"], "0"),
    ] {
        let ran = run(&s, args);
        assert!(ran.code == 2 && ran.stderr.contains(words), "{args:?}: {} {}", ran.code, ran.stderr);
    }
}
