//! Jobs of a cluster: a job for each shard of a sweep, and one that merges their rows.
//!
//! The texts contain commands that the caller has quoted for a shell. A shard with a row that fails
//! ends with an error after it has written its rows, so the merge runs in any case and says which
//! rows are missing or wrong.

use std::fmt::Write as _;

/// A sweep as jobs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardJobs {
    /// The sweep file as a word of a shell.
    pub file: String,
    /// Name of the sweep, from which those of jobs and files follow.
    pub name: String,
    /// Number of shards.
    pub shards: usize,
    /// Options of the shards as words of a shell.
    pub run: String,
    /// Options of the merge as words of a shell.
    pub merge: String,
    /// Lines of a shell that make kbc available, if there are any.
    pub setup: Option<String>,
    /// Whether processes measure rows, for which a computer should do nothing else.
    pub measures: bool,
}

impl ShardJobs {
    /// The name with other characters than those of names of jobs replaced.
    fn plain(&self) -> String {
        let part = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = self.name.chars().map(part).collect();
        if name.starts_with(|c: char| c.is_ascii_alphanumeric()) { name } else { format!("sweep{name}") }
    }

    fn spaced(words: &str) -> String {
        if words.is_empty() { String::new() } else { format!(" {words}") }
    }

    /// Returns a script of bash that submits an array job and the job that depends on it.
    pub fn slurm(&self) -> String {
        let (name, shards, file) = (self.plain(), self.shards, &self.file);
        let setup = self.setup.as_ref().map_or_else(String::new, |s| format!("{}\n", s.trim_end()));
        let (run, merge) = (Self::spaced(&self.run), Self::spaced(&self.merge));
        let alone = if self.measures { " --exclusive" } else { "" };
        format!(
            r#"#!/bin/bash
# The sweep {name} in {shards} shards: an array job of Slurm, and a job that merges their rows.
# Written by kbc. Run this script with bash, where the paths of the sweep hold. Its arguments are
# options of sbatch for both jobs, such as --account=NAME.
#
# Variables: KBC is kbc, PARTS the folder of the rows of the shards, OUT that of the result.
set -eu
export KBC="${{KBC:-kbc}}" PARTS="${{PARTS:-{name}.parts}}" OUT="${{OUT:-{name}}}"
mkdir -p "$PARTS"

array=$(sbatch --parsable --export=ALL --job-name={name} --array=1-{shards} --nodes=1 --ntasks=1{alone} \
    --output="$PARTS/%a.log" "$@" <<'END_OF_SHARD'
#!/bin/bash
set -eu
{setup}part="$PARTS/$SLURM_ARRAY_TASK_ID.jsonl"
rm -f "$part"
"$KBC" sweep {file} --shard "$SLURM_ARRAY_TASK_ID/{shards}" -o "$part"{run}
END_OF_SHARD
)

# A shard with a row that fails ends with an error, and its rows are there. So the merge does not
# depend on success: it says which rows are missing or wrong.
sbatch --export=ALL --job-name={name}-merge --dependency="afterany:${{array%%;*}}" --nodes=1 --ntasks=1 \
    --output="$PARTS/merge.log" "$@" <<'END_OF_MERGE'
#!/bin/bash
set -eu
{setup}"$KBC" sweep {file} --merge "$PARTS"/{{1..{shards}}}.jsonl -o "$OUT"{merge}
END_OF_MERGE
"#
        )
    }

    /// Returns a workflow of GitHub Actions with a job for each shard and one that merges.
    pub fn github(&self) -> String {
        let (name, shards, file) = (self.plain(), self.shards, &self.file);
        let (run, merge) = (Self::spaced(&self.run), Self::spaced(&self.merge));
        let block = |text: &str| -> String { text.lines().map(|l| format!("          {l}\n")).collect() };
        let setup = self.setup.as_ref().map_or_else(String::new, |s| {
            format!("      - name: Set up\n        run: |\n{}", block(s.trim_end()))
        });
        let numbers: Vec<String> = (1..=shards).map(|k| k.to_string()).collect();
        let mut parts = String::new();
        for k in &numbers {
            let _ = write!(parts, " parts/{k}.jsonl");
        }
        let shard = "${{ matrix.shard }}";
        let always = "${{ !cancelled() }}";
        format!(
            r#"# The sweep {name} in {shards} shards: a workflow of GitHub Actions. Written by kbc.
# Put it into .github/workflows. Paths are those of the repository.
name: {name}
on: workflow_dispatch
jobs:
  shard:
    runs-on: ubuntu-latest
    strategy:
      fail-fast: false
      matrix:
        shard: [{all}]
    steps:
      - uses: actions/checkout@v4
{setup}      - name: Run the rows
        run: |
          kbc sweep {file} --shard {shard}/{shards} -o {shard}.jsonl{run}
      - name: Keep the rows
        if: {always}
        uses: actions/upload-artifact@v4
        with:
          name: {name}-{shard}
          path: {shard}.jsonl
          if-no-files-found: error
  merge:
    needs: shard
    # A shard with a row that fails ends with an error, and its rows are there.
    if: {always}
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
{setup}      - name: Fetch the rows
        uses: actions/download-artifact@v4
        with:
          pattern: {name}-*
          path: parts
          merge-multiple: true
      - name: Merge the rows
        run: |
          kbc sweep {file} --merge{parts} -o {name}{merge}
      - name: Keep the result
        if: {always}
        uses: actions/upload-artifact@v4
        with:
          name: {name}
          path: {name}
          if-no-files-found: error
"#,
            all = numbers.join(", "),
        )
    }
}
