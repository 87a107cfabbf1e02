//! Immutable input of a run: numberings, roles, contracts and the group.

use super::SetupError;
use super::expect::{EvaluatedContract, Sets, evaluate_contract};
use super::grid::{Grids, Unable};
use super::group::{Action, Group};
use kbc_diag::{Diagnostic, Span};
use kbc_ir::cut::Chunks;
use kbc_ir::schedule::{Counter, OperandId, RegionId, SOp, SStmt, Schedule, each_op};
use kbc_ir::walk::{Access, Program};

/// Maximum number of slots that are tracked at once.
const MAX_TRACKED: u64 = 1 << 24;

/// Facts about a region that are known before the run.
pub(super) struct RegionSetup {
    /// Number of ranks of each of its groups.
    pub size: u64,
    /// Whether it has a contract.
    pub has_contract: bool,
    /// The moving digits: (number of the digit, its stride in the index of the group).
    pub digits: Vec<(usize, u64)>,
    /// Number of streams with a body, for each walked rank.
    pub streams: Vec<usize>,
    /// The contract, evaluated for each walked rank.
    pub expected: Vec<EvaluatedContract>,
}

/// Everything about a run that does not change.
pub(super) struct Setup<'p> {
    pub program: &'p Program<'p>,
    pub schedule: &'p Schedule,
    pub group: Group,
    /// How the group moves each buffer.
    pub actions: Vec<Action>,
    /// Number of calls walked.
    pub calls: u64,
    /// Whether the schedule has operations on queues.
    pub queues: bool,
    /// Number of streams per rank.
    pub width: usize,
    pub grids: Grids,
    pub regions: Vec<RegionSetup>,
    pub sets: Sets,
    /// Whether several streams may wait for a counter of a signal.
    pub shared: Vec<bool>,
    /// For each buffer, the regions and operands that use it.
    pub users: Vec<Vec<(u32, u32)>>,
    /// The number of the first operation of each stream, and its statements.
    bodies: Vec<(u32, &'p [SStmt])>,
    /// By region and operand: whether all atoms have the same number of elements, or no atom moves.
    pub even: Vec<Vec<bool>>,
}

impl<'p> Setup<'p> {
    pub(super) fn new(
        program: &'p Program<'p>,
        group: Group,
        actions: Vec<Action>,
        calls: u64,
    ) -> Result<Setup<'p>, SetupError<'p>> {
        let s = program.schedule;
        let err = |u| SetupError(s, Box::new(u));
        let reps = group.reps.len() as u64;
        let slots = s.windows.iter().fold(0u64, |n, w| n.saturating_add(w.slots));
        let held = slots.saturating_mul(reps);
        if held > MAX_TRACKED {
            return Err(err(Unable::Said(
                Diagnostic::error("E354", format!("the {reps} ranks to check have {held} slots"))
                    .note(format!("the checker tracks at most {MAX_TRACKED}"))
                    .help("use fewer slots, or make the schedule symmetric, so that one rank stands for all"),
            )));
        }
        let parts: Vec<u64> = actions.iter().map(Action::parts).collect();
        let grids = Grids::new(program, &group.reps, calls, &parts).map_err(err)?;
        let (mut bodies, mut ops) = (vec![], 0);
        let mut waiters: Vec<Vec<&str>> = vec![vec![]; s.signals.len()];
        for st in s.regions.iter().flat_map(|r| &r.roles).flat_map(|r| &r.streams) {
            bodies.push((ops, &st.body[..]));
            each_op(&st.body, &mut |op, _| {
                ops += 1;
                if let SOp::Wait { counter: Counter { signal, index: _ }, value: _ } = op {
                    let list = &mut waiters[signal.0 as usize];
                    if !list.contains(&st.name.as_str()) {
                        list.push(&st.name);
                    }
                }
            });
        }
        let shared = waiters.iter().map(|w| w.len() > 1).collect();
        let mut sets = Sets::default();
        let mut regions = vec![];
        for i in 0..s.regions.len() {
            regions.push(region(program, &group, &grids, i, &mut sets).map_err(err)?);
        }
        let mut users = vec![vec![]; s.buffers.len()];
        for (i, r) in s.regions.iter().enumerate() {
            for (o, operand) in r.operands.iter().enumerate() {
                users[operand.buffer.0 as usize].push((i as u32, o as u32));
            }
        }
        let width = program.streams.len();
        let queues = super::queues::used(s);
        let mut setup = Setup {
            program,
            schedule: s,
            group,
            actions,
            calls,
            queues,
            width,
            grids,
            regions,
            sets,
            shared,
            users,
            bodies,
            even: vec![],
        };
        let operands = |r: &kbc_ir::schedule::Region| 0..r.operands.len() as u32;
        let regions = s.regions.iter().enumerate();
        setup.even =
            regions.map(|(i, r)| operands(r).map(|o| setup.atoms_even(i as u32, o)).collect()).collect();
        Ok(setup)
    }

    /// Returns the name of a rank for messages.
    pub(super) fn rank(&self, rank: u64) -> String {
        self.schedule.mesh.show(rank)
    }

    /// Returns the source position of an operation.
    pub(super) fn span(&self, op: u32) -> Span {
        match self.host(op) {
            Some((buffer, _)) => self.schedule.buffers[buffer].span,
            None => self.op_span(op),
        }
    }

    /// Returns the source position of an operation of a stream. Only messages need it.
    fn op_span(&self, op: u32) -> Span {
        let mut found = Span::NONE;
        let after = self.bodies.partition_point(|(first, _)| *first <= op);
        let Some((first, body)) = after.checked_sub(1).map(|i| self.bodies[i]) else { return found };
        let mut number = first;
        each_op(body, &mut |_, span| {
            if number == op {
                found = span;
            }
            number += 1;
        });
        found
    }

    /// Returns the buffer that the host fills (true) or reads (false), if the operation does that.
    pub(super) fn host(&self, op: u32) -> Option<(usize, bool)> {
        let back = super::report::FILL.checked_sub(op)?;
        let buffer = (back / 2) as usize;
        (buffer < self.schedule.buffers.len()).then_some((buffer, back.is_multiple_of(2)))
    }

    /// Returns the buffer and the number of atoms of an operand.
    pub(super) fn operand(&self, region: u32, operand: u32) -> (usize, u64) {
        let o = &self.schedule.regions[region as usize].operands[operand as usize];
        (o.buffer.0 as usize, self.grids.atoms[region as usize][operand as usize])
    }

    /// Returns the elements of the parts `first .. first + count` of `of` parts of an operand on a
    /// walked rank: first, and one past the last.
    pub(super) fn elements(
        &self,
        (region, operand): (u32, u32),
        rep: usize,
        (first, count): (u64, u64),
        of: u64,
    ) -> (u64, u64) {
        let (region, operand, rank) = (RegionId(region), OperandId(operand), self.group.reps[rep]);
        let at = |i: u64| {
            // Set-up has checked that every boundary has a value.
            self.program.chunk_start(region, operand, rank, i as i64, of.max(1) as i64).unwrap_or(0)
        };
        (at(first), at(first + count))
    }

    /// Whether an operand is scratch.
    pub(super) fn scratch(&self, region: u32, operand: u32) -> bool {
        self.schedule.regions[region as usize].operands[operand as usize].scratch
    }

    /// Whether all atoms of an operand have the same number of elements, or no atom moves.
    pub(super) fn even(&self, region: u32, operand: u32) -> bool {
        self.even[region as usize][operand as usize]
    }

    fn atoms_even(&self, region: u32, operand: u32) -> bool {
        let (buffer, atoms) = self.operand(region, operand);
        if self.actions[buffer].moves.is_empty() || atoms == 0 {
            return true;
        }
        let start = |i: u64| {
            let (region, operand) = (RegionId(region), OperandId(operand));
            self.program.chunk_start(region, operand, self.group.reps[0], i as i64, atoms as i64).ok()
        };
        let lengths = |i: u64| start(i + 1)?.checked_sub(start(i)?);
        (1..atoms).all(|i| lengths(i) == lengths(0))
    }

    /// Returns a place of a buffer, moved.
    pub(super) fn moved(&self, buffer: u32, place: usize, by: u64) -> usize {
        match self.grids.parts(buffer) {
            Some((base, n)) if !self.actions[buffer as usize].moves.is_empty() => {
                base + self.actions[buffer as usize].apply(&self.group, by, (place - base) as u64, n) as usize
            }
            _ => place,
        }
    }

    /// Returns an access to a chunk, moved.
    pub(super) fn moved_access(&self, region: u32, buffer: u32, a: &Access, by: u64) -> Access {
        let atoms = self.operand(region, a.operand).1;
        let action = &self.actions[buffer as usize];
        if action.moves.is_empty() || atoms == 0 {
            return *a;
        }
        let chunks = a.chunks();
        let moved = chunks.among(atoms).and_then(|c| {
            let atom = |x| action.apply(&self.group, by, x, atoms);
            Chunks { num: (c.num..c.num + c.cnt).map(atom).min().unwrap_or(c.num), ..c }.among(chunks.den)
        });
        // Atoms are such that every chunk consists of whole ones, before and after a move.
        moved.map_or(*a, |c| Access { num: c.num as i64, ..*a })
    }

    /// Returns the number of entries of clocks and contents.
    pub(super) fn state(&self, exact: bool) -> u64 {
        let reps = self.group.reps.len() as u64;
        let streams = self.group.ranks * self.width as u64;
        let clocks = if self.program.has_forms() { 4 } else { 3 };
        let clocks = reps * self.width as u64 * super::clock::Clock::entries(streams, &self.group) * clocks;
        let cells = |(r, atoms): (usize, &Vec<u64>)| {
            let words = if exact { self.regions[r].size.div_ceil(64) } else { 3 };
            atoms.iter().sum::<u64>() * words * reps
        };
        clocks.saturating_add(self.grids.atoms.iter().enumerate().map(cells).max().unwrap_or(0))
    }
}

fn region(
    program: &Program,
    group: &Group,
    grids: &Grids,
    i: usize,
    sets: &mut Sets,
) -> Result<RegionSetup, Unable> {
    let s = program.schedule;
    let (id, r) = (RegionId(i as u32), &s.regions[i]);
    let size = s.group_size(r);
    let digits = (0..group.digits.len())
        .map(|k| (k, program.group_index(id, group.digits[k].stride)))
        .filter(|d| d.1 > 0)
        .collect();
    let (mut streams, mut wants) = (vec![], vec![]);
    if r.contract.is_some() {
        let buffers: Vec<_> = r.operands.iter().map(|o| o.buffer).collect();
        if let Some(o) = (0..buffers.len()).find(|o| buffers[..*o].contains(&buffers[*o])) {
            return Err(Unable::Said(
                Diagnostic::error(
                    "E355",
                    format!(
                        "two operands of region {} are the same buffer %{}",
                        r.name,
                        s.buffer(buffers[o]).name
                    ),
                )
                .primary(r.span, "in this region")
                .help("give each operand its own buffer"),
            ));
        }
    }
    for &rank in &group.reps {
        let role = program.role_of(id, rank)?;
        streams.push(role.map_or(0, |k| r.roles[k].streams.len()));
        let index = program.group_index(id, rank);
        wants.push(evaluate_contract((i, r), &grids.atoms[i], size, index, sets).map_err(Unable::Said)?);
    }
    covered(program, group, i)?;
    for (o, operand) in r.operands.iter().enumerate() {
        // Every boundary must have a value on every walked rank, so that the run can rely on it.
        if grids.atoms[i][o] > 0 {
            for &rank in &group.reps {
                program.chunk_start(id, OperandId(o as u32), rank, 0, 1)?;
            }
        }
        debug_assert!(operand.buffer.0 < s.buffers.len() as u32);
    }
    Ok(RegionSetup { size, has_contract: r.contract.is_some(), digits, streams, expected: wants })
}

/// Checks that the line of an operand with a contract is the whole buffer. Elements beyond the line
/// would keep their old contents, and a reader of the buffer would take them for part of the
/// result.
fn covered(program: &Program, group: &Group, i: usize) -> Result<(), Unable> {
    let (id, r) = (RegionId(i as u32), &program.schedule.regions[i]);
    let Some(contract) = &r.contract else { return Ok(()) };
    for (o, operand) in r.operands.iter().enumerate() {
        if !contract.buffers.iter().any(|b| b.name == operand.name) {
            continue;
        }
        for &rank in &group.reps {
            let line = program.chunk_start(id, OperandId(o as u32), rank, 1, 1)?;
            let have = program.elements(operand.buffer, rank)?;
            if line == have {
                continue;
            }
            let (name, rank) =
                (&program.schedule.buffer(operand.buffer).name, program.schedule.mesh.show(rank));
            return Err(Unable::Said(
                Diagnostic::error(
                    "E339",
                    format!(
                        "the line of {} in region {} covers {line} of {have} elements",
                        operand.name, r.name
                    ),
                )
                .primary(r.span, format!("of %{name} on rank {rank}"))
                .help("let the line cover the whole buffer, or give the collective its own buffer"),
            ));
        }
    }
    Ok(())
}
