//! Encoding of Perfetto's trace format: packets of `TrackEvent`s as protobuf, with interned names.
//!
//! This module owns field numbers and encoding. The fields are those of
//! `protos/perfetto/trace/trace_packet.proto`, `track_event/*.proto` and `interned_data.proto` in
//! Perfetto. [`super::trace`] decides what the tracks mean.

use std::collections::BTreeMap;
use std::io::{self, Write};

/// The sequence to which all packets belong.
const SEQUENCE: u64 = 1;
/// `SEQ_INCREMENTAL_STATE_CLEARED` and `SEQ_NEEDS_INCREMENTAL_STATE`.
const CLEARED: u64 = 1;
const NEEDS: u64 = 2;

/// A protobuf message under construction.
#[derive(Default, Clone)]
pub struct Buf(Vec<u8>);

impl Buf {
    fn varint(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }

    fn uint(&mut self, field: u32, v: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(v);
    }

    fn fixed(&mut self, field: u32, v: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    fn bytes(&mut self, field: u32, v: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(v.len() as u64);
        self.0.extend_from_slice(v);
    }
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum EventKind {
    /// Start of a slice.
    Begin,
    /// End of the innermost open slice of the track.
    End,
    /// An instant.
    Instant,
    /// A value of a counter.
    Counter(u64),
}

/// A value of an argument.
#[derive(Clone, PartialEq, Debug)]
pub enum EventArg {
    /// A number.
    Uint(u64),
    /// A time or a share.
    Float(f64),
    /// A text, which is interned.
    Text(String),
}

/// An event of a track.
#[derive(Clone, Debug)]
pub struct Event {
    /// The uuid of its track.
    pub track: u64,
    /// Its kind.
    pub kind: EventKind,
    /// Its name; empty for the end of a slice.
    pub name: String,
    /// Its category; empty for the end of a slice.
    pub category: &'static str,
    /// Its arguments.
    pub args: Vec<(&'static str, EventArg)>,
    /// The flow arrow that passes through it.
    pub flow: Option<u64>,
    /// Whether the flow ends here.
    pub last: bool,
}

/// A track.
#[derive(Clone, Debug)]
pub struct Track {
    /// Its uuid in the trace.
    pub uuid: u64,
    /// The uuid of its parent track.
    pub parent: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its position among its siblings.
    pub rank: u32,
    /// Whether it is a counter of bytes.
    pub counter: bool,
    /// Whether siblings of the same name are lanes of one track.
    pub lanes: bool,
}

/// Strings that packets refer to by number.
#[derive(Default)]
struct Table(BTreeMap<String, u64>);

impl Table {
    /// Returns the number of a string. A new string is added to `out` in field `field`, as an entry
    /// with the number in field 1 and the text in field 2.
    fn id(&mut self, s: &str, field: u32, out: &mut Buf) -> u64 {
        if let Some(id) = self.0.get(s) {
            return *id;
        }
        let id = self.0.len() as u64 + 1;
        self.0.insert(s.to_owned(), id);
        let mut entry = Buf::default();
        entry.uint(1, id);
        entry.bytes(2, s.as_bytes());
        out.bytes(field, &entry.0);
        id
    }
}

/// Writer of packets.
pub struct Packets<W> {
    out: W,
    names: Table,
    categories: Table,
    keys: Table,
    texts: Table,
    /// Number of packets written.
    pub count: u64,
}

impl<W: Write> Packets<W> {
    /// Creates a writer to a file or a buffer.
    pub fn new(out: W) -> Packets<W> {
        Packets {
            out,
            names: Table::default(),
            categories: Table::default(),
            keys: Table::default(),
            texts: Table::default(),
            count: 0,
        }
    }

    fn packet(&mut self, mut packet: Buf, needs: bool) -> io::Result<()> {
        packet.uint(10, SEQUENCE);
        if self.count == 0 {
            packet.uint(13, CLEARED);
            packet.uint(87, 1);
        } else if needs {
            packet.uint(13, NEEDS);
        }
        self.count += 1;
        let mut head = Buf::default();
        head.bytes(1, &packet.0);
        self.out.write_all(&head.0)
    }

    /// Declares a track.
    pub fn track(&mut self, t: &Track) -> io::Result<()> {
        let mut d = Buf::default();
        d.uint(1, t.uuid);
        d.bytes(2, t.name.as_bytes());
        if let Some(parent) = t.parent {
            d.uint(5, parent);
        }
        if t.counter {
            let mut c = Buf::default();
            // UNIT_SIZE_BYTES
            c.uint(3, 3);
            d.bytes(8, &c.0);
        }
        // EXPLICIT order of the children, by their rank.
        d.uint(11, 3);
        d.uint(12, u64::from(t.rank));
        // Merge siblings by name, or not at all.
        d.uint(15, if t.lanes { 1 } else { 2 });
        let mut packet = Buf::default();
        packet.bytes(60, &d.0);
        self.packet(packet, false)
    }

    /// Writes an event at a time in ns.
    pub fn event(&mut self, at: u64, e: &Event) -> io::Result<()> {
        let mut new = Buf::default();
        let mut t = Buf::default();
        t.uint(
            9,
            match e.kind {
                EventKind::Begin => 1,
                EventKind::End => 2,
                EventKind::Instant => 3,
                EventKind::Counter(_) => 4,
            },
        );
        t.uint(11, e.track);
        if let EventKind::Counter(v) = e.kind {
            t.uint(30, v);
        }
        if !e.category.is_empty() {
            let id = self.categories.id(e.category, 1, &mut new);
            t.uint(3, id);
        }
        if !e.name.is_empty() {
            let id = self.names.id(&e.name, 2, &mut new);
            t.uint(10, id);
        }
        for (key, value) in &e.args {
            let mut a = Buf::default();
            a.uint(1, self.keys.id(key, 3, &mut new));
            match value {
                EventArg::Uint(v) => a.uint(3, *v),
                EventArg::Float(v) => a.fixed(5, v.to_bits()),
                EventArg::Text(v) => a.uint(17, self.texts.id(v, 29, &mut new)),
            }
            t.bytes(4, &a.0);
        }
        if let Some(flow) = e.flow {
            t.fixed(if e.last { 48 } else { 47 }, flow);
        }
        let mut packet = Buf::default();
        packet.uint(8, at);
        packet.bytes(11, &t.0);
        if !new.0.is_empty() {
            packet.bytes(12, &new.0);
        }
        self.packet(packet, true)
    }

    /// Ends the trace.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
