//! Settings of queues, as the kernbench simulator models queues between its PEs: slots, their
//! memory, the cost of an access to a slot, credits, backpressure.
//!
//! This module owns these settings, their defaults with their sources, and their text. The event
//! engine computes the time of a queue. The pipeline decides which schedules use queues (pass
//! `enqueue`).

use std::fmt;

use kbc_diag::{Diagnostic, Spanned};

use super::quantity::{Dimension, Quantity};
use super::value::{SettingValue, amounts};
use kbc_ir::types::MemKind;

/// Names of the settings, in the order in which they are printed.
pub(super) const NAMES: [&str; 9] =
    ["queue", "slots", "credit", "backpressure", "slot_tcm", "slot_sram", "slot_hbm", "hop_sram", "hop_hbm"];

/// The costs of slots that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotModel {
    /// None: an access to a slot is free.
    Free,
    /// The memory.
    Memory,
    /// The memory, and the path to it if it is not in the device (sram and hbm).
    Hop,
}

impl SlotModel {
    /// All models, by their numbers 0, 1, 2.
    pub const ALL: [SlotModel; 3] = [SlotModel::Free, SlotModel::Memory, SlotModel::Hop];

    /// Returns the model's number in a machine's text.
    pub fn number(self) -> usize {
        self as usize
    }
}

/// The behaviour of a sender while a queue is full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Backpressure {
    /// It sleeps, and continues when the credit arrives.
    Sleep,
    /// It looks at intervals of this many nanoseconds (above zero) after it found the queue full,
    /// and continues at the first look that finds the credit.
    Poll(f64),
}

/// The cost of one access to a slot: `setup + bytes / bandwidth + bytes / hop`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Access {
    /// Bytes per second of the memory.
    pub bandwidth: f64,
    /// Nanoseconds per access.
    pub setup_ns: f64,
    /// Bytes per second of the path between device and memory. Infinite if the path is not counted.
    pub hop: f64,
}

impl Access {
    /// Returns the nanoseconds of a number of accesses with this total of bytes.
    pub fn ns(&self, bytes: u64, accesses: u64) -> f64 {
        let bytes = bytes as f64;
        self.setup_ns * accesses as f64 + 1e9 * (bytes / self.bandwidth + bytes / self.hop)
    }
}

/// Default accesses of model 1 by kind of memory, and of model 2 (`HOP_`) where they differ
/// (source: the kernbench simulator).
const TCM: Access = Access { bandwidth: 512e9, setup_ns: 0.0, hop: f64::INFINITY };
const SRAM: Access = Access { bandwidth: 128e9, setup_ns: 2.0, hop: f64::INFINITY };
const HBM: Access = Access { bandwidth: 32e9, setup_ns: 6.0, hop: f64::INFINITY };
const HOP_SRAM: Access = Access { bandwidth: 512e9, setup_ns: 2.0, hop: 128e9 };
const HOP_HBM: Access = Access { bandwidth: 256e9, setup_ns: 6.0, hop: 256e9 };

/// The given settings of queues. [`QueueSettings::queues`] fills in the defaults.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct QueueSettings {
    /// `queue: tcm | sram | hbm, 0 | 1 | 2`: the memory of the slots and the model of their cost.
    pub queue: Option<(MemKind, SlotModel)>,
    /// `slots: N, bytes`: number of slots of a queue, and bytes of a slot.
    pub slots: Option<(u64, u64)>,
    /// `credit: bytes`.
    pub credit: Option<u64>,
    /// `backpressure: sleep`, or `poll, ns`.
    pub backpressure: Option<Backpressure>,
    /// `slot_KIND: bandwidth, setup` for tcm, sram and hbm.
    pub memory: [Option<Access>; 3],
    /// `hop_KIND: bandwidth, setup, bandwidth of the path` for sram and hbm.
    pub hop: [Option<Access>; 2],
}

/// The queues of a machine, with defaults filled in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Queues {
    /// Memory of the slots.
    pub memory: MemKind,
    /// Model of their cost.
    pub model: SlotModel,
    /// Number of slots of a queue.
    pub slots: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Bytes of a credit.
    pub credit_bytes: u64,
    /// Behaviour of a sender while a queue is full.
    pub backpressure: Backpressure,
    /// Cost of an access to a slot. None if it is free.
    pub access: Option<Access>,
}

/// Default number of slots and bytes of a slot (source: `n_slots`, `slot_size` of a kernbench
/// `ccl.yaml`).
const SLOTS: (u64, u64) = (4, 4096);
/// Default bytes of a credit (source: `ipcq_credit_size_bytes` of a kernbench `ccl.yaml`).
const CREDIT: u64 = 16;
/// Limit on the number of slots, and on their bytes.
const MAX_AMOUNT: f64 = (1u64 << 40) as f64;

impl QueueSettings {
    /// Returns the machine's queues. None without the setting `queue`.
    pub fn queues(&self) -> Option<Queues> {
        let (memory, model) = self.queue?;
        let (slots, slot_bytes) = self.slots.unwrap_or(SLOTS);
        let [tcm, sram, hbm] = self.memory;
        let access = match (model, memory) {
            (SlotModel::Free, _) => None,
            (SlotModel::Memory, MemKind::Sram) => Some(sram.unwrap_or(SRAM)),
            (SlotModel::Memory, MemKind::Hbm) => Some(hbm.unwrap_or(HBM)),
            (SlotModel::Hop, MemKind::Sram) => Some(self.hop[0].unwrap_or(HOP_SRAM)),
            (SlotModel::Hop, MemKind::Hbm) => Some(self.hop[1].unwrap_or(HOP_HBM)),
            (_, MemKind::Tcm | MemKind::Ub) => Some(tcm.unwrap_or(TCM)),
        };
        let credit_bytes = self.credit.unwrap_or(CREDIT);
        let backpressure = self.backpressure.unwrap_or(Backpressure::Sleep);
        Some(Queues { memory, model, slots, slot_bytes, credit_bytes, backpressure, access })
    }

    /// Merges the settings: these, and for absent ones those of `base`.
    pub(super) fn over(&self, base: &QueueSettings) -> QueueSettings {
        QueueSettings {
            queue: self.queue.or(base.queue),
            slots: self.slots.or(base.slots),
            credit: self.credit.or(base.credit),
            backpressure: self.backpressure.or(base.backpressure),
            memory: std::array::from_fn(|i| self.memory[i].or(base.memory[i])),
            hop: std::array::from_fn(|i| self.hop[i].or(base.hop[i])),
        }
    }

    /// Parses one of the settings in [`NAMES`]. Returns whether it had been given already.
    pub(super) fn set(
        &mut self,
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<bool, Diagnostic> {
        const BANDWIDTH: (&str, Dimension, bool) = ("bandwidth", Dimension::BytesPerSecond, true);
        const SETUP: (&str, Dimension, bool) = ("set-up time", Dimension::Nanoseconds, false);
        let memory = |i| {
            let v = amounts(name, values, [BANDWIDTH, SETUP])?;
            Ok((i, Access { bandwidth: v[0], setup_ns: v[1], hop: f64::INFINITY }))
        };
        let hop = |i| {
            let way = ("bandwidth of the route", Dimension::BytesPerSecond, true);
            let v = amounts(name, values, [BANDWIDTH, SETUP, way])?;
            Ok((i, Access { bandwidth: v[0], setup_ns: v[1], hop: v[2] }))
        };
        Ok(match name.node.as_str() {
            "queue" => self.queue.replace(kind(name, values)?).is_some(),
            "slots" => self.slots.replace(slots(name, values)?).is_some(),
            "credit" => {
                let v = amounts(name, values, [("size", Dimension::Bytes, false)])?;
                let bytes = check_byte_count(v[0], "a credit", name, values)?;
                self.credit.replace(bytes).is_some()
            }
            "backpressure" => self.backpressure.replace(backpressure(name, values)?).is_some(),
            "hop_sram" | "hop_hbm" => {
                let (i, access) = hop(usize::from(name.node == "hop_hbm"))?;
                self.hop[i].replace(access).is_some()
            }
            kind => {
                let (i, access) = memory(match kind {
                    "slot_tcm" => 0,
                    "slot_sram" => 1,
                    _ => 2,
                })?;
                self.memory[i].replace(access).is_some()
            }
        })
    }

    /// Returns the settings as in a machine's text: `queue: sram, 1; slots: 4, 4096 B`.
    pub fn text(&self) -> String {
        let mut parts = vec![];
        self.parts(&mut parts);
        parts.join("; ")
    }

    /// Appends the given settings, each as `name: value`.
    pub(super) fn parts(&self, parts: &mut Vec<String>) {
        let text = |amount, dimension| Quantity { amount, dimension }.to_string();
        let access = |a: &Access| {
            let rate = text(a.bandwidth, Dimension::BytesPerSecond);
            format!("{rate}, {}", text(a.setup_ns, Dimension::Nanoseconds))
        };
        if let Some((kind, model)) = self.queue {
            parts.push(format!("queue: {kind}, {}", model.number()));
        }
        if let Some((n, bytes)) = self.slots {
            parts.push(format!("slots: {n}, {}", text(bytes as f64, Dimension::Bytes)));
        }
        if let Some(bytes) = self.credit {
            parts.push(format!("credit: {}", text(bytes as f64, Dimension::Bytes)));
        }
        if let Some(b) = self.backpressure {
            parts.push(format!("backpressure: {b}"));
        }
        for (name, a) in NAMES[4..7].iter().zip(&self.memory) {
            parts.extend(a.iter().map(|a| format!("{name}: {}", access(a))));
        }
        for (name, a) in NAMES[7..].iter().zip(&self.hop) {
            let way = |a: &Access| text(a.hop, Dimension::BytesPerSecond);
            parts.extend(a.iter().map(|a| format!("{name}: {}, {}", access(a), way(a))));
        }
    }
}

impl fmt::Display for Backpressure {
    /// Writes `sleep`, or `poll, 10 ns`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Backpressure::Sleep => f.write_str("sleep"),
            Backpressure::Poll(ns) => {
                write!(f, "poll, {}", Quantity { amount: *ns, dimension: Dimension::Nanoseconds })
            }
        }
    }
}

/// Returns E445 with what the setting takes.
fn fault(title: String, name: &Spanned<String>, values: &[Spanned<SettingValue>], takes: &str) -> Diagnostic {
    let span = values.first().map_or(name.span, |v| v.span);
    Diagnostic::error("E445", title).primary(span, "here").help(format!("`{}` takes {takes}", name.node))
}

/// Parses the values of `queue`: `tcm, 1`
fn kind(
    name: &Spanned<String>,
    values: &[Spanned<SettingValue>],
) -> Result<(MemKind, SlotModel), Diagnostic> {
    let takes = "the memory of the slots (tcm, sram or hbm), then the cost model: 0 (no cost), 1 (the memory), 2 (the memory and the route to it)";
    let nodes: Vec<&SettingValue> = values.iter().map(|v| &v.node).collect();
    let (word, model) = match nodes[..] {
        [SettingValue::Name(word)] => (word, Some(SlotModel::Free)),
        [SettingValue::Name(word), SettingValue::Number(n)] => {
            (word, SlotModel::ALL.into_iter().find(|m| m.number() as f64 == *n))
        }
        _ => return Err(fault("`queue` needs a memory and a cost model".into(), name, values, takes)),
    };
    let memory = MemKind::parse(word).filter(|m| *m != MemKind::Ub);
    memory
        .zip(model)
        .ok_or_else(|| fault("`queue` has an unknown memory or cost model".into(), name, values, takes))
}

/// Parses the values of `slots`: `4, 4096 B`
fn slots(name: &Spanned<String>, values: &[Spanned<SettingValue>]) -> Result<(u64, u64), Diagnostic> {
    let takes = "the number of slots and their size: `4, 4096 B`";
    let wrong = || fault("`slots` needs a number and a size".into(), name, values, takes);
    let [count, size] = values else { return Err(wrong()) };
    let SettingValue::Number(n) = count.node else { return Err(wrong()) };
    if n.fract() != 0.0 || !(1.0..=MAX_AMOUNT).contains(&n) {
        return Err(fault(format!("a queue cannot have {n} slots"), name, values, takes));
    }
    let bytes = amounts(name, std::slice::from_ref(size), [("size", Dimension::Bytes, true)])?;
    Ok((n as u64, check_byte_count(bytes[0], "a slot", name, values)?))
}

/// Checks that a number of bytes is an integer within the limit.
fn check_byte_count(
    bytes: f64,
    what: &str,
    name: &Spanned<String>,
    values: &[Spanned<SettingValue>],
) -> Result<u64, Diagnostic> {
    if bytes.fract() != 0.0 || bytes > MAX_AMOUNT {
        let title = format!("{what} cannot have {bytes} bytes");
        return Err(fault(title, name, values, "a whole number of bytes up to 1 TiB"));
    }
    Ok(bytes as u64)
}

/// Parses the values of `backpressure`: `sleep`, or `poll, 10 ns`
fn backpressure(
    name: &Spanned<String>,
    values: &[Spanned<SettingValue>],
) -> Result<Backpressure, Diagnostic> {
    match values {
        [Spanned { node: SettingValue::Name(word), .. }] if word == "sleep" => Ok(Backpressure::Sleep),
        [Spanned { node: SettingValue::Name(word), .. }, period] if word == "poll" => {
            let wanted = [("period", Dimension::Nanoseconds, true)];
            Ok(Backpressure::Poll(amounts(name, std::slice::from_ref(period), wanted)?[0]))
        }
        _ => {
            let takes = "`sleep` (a sender continues when the credit arrives) or `poll, 10 ns` (a sender checks every 10 ns)";
            Err(fault("`backpressure` must be sleep or poll".into(), name, values, takes))
        }
    }
}
