//! Strict reader of Perfetto traces. Every field must be known and have its wire type, every
//! reference must resolve, and every rule of track events on which a viewer depends must hold. It
//! does not know what kbc writes.

use std::collections::{BTreeMap, BTreeSet};

/// A field of a message.
#[derive(Debug, Clone)]
pub enum Field<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 1.
    Fixed(u64),
    /// Wire type 2.
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    /// Returns the value of a varint.
    pub fn uint(&self) -> u64 {
        match self {
            Field::Varint(v) => *v,
            other => panic!("{other:?} is no varint"),
        }
    }

    fn fixed(&self) -> u64 {
        match self {
            Field::Fixed(v) => *v,
            other => panic!("{other:?} is not 64 bits wide"),
        }
    }

    fn bytes(&self) -> &'a [u8] {
        match self {
            Field::Bytes(b) => b,
            other => panic!("{other:?} is no message"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("strings are UTF-8")
    }
}

fn varint(data: &mut &[u8]) -> u64 {
    let mut v = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first().expect("a varint is complete");
        *data = rest;
        v |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return v;
        }
    }
    panic!("a varint of more than 64 bits");
}

/// Returns the fields of a message in order.
pub fn fields(mut data: &[u8]) -> Vec<(u32, Field<'_>)> {
    let mut out = vec![];
    while !data.is_empty() {
        let tag = varint(&mut data);
        let number = (tag >> 3) as u32;
        let field = match tag & 7 {
            0 => Field::Varint(varint(&mut data)),
            1 => {
                let (v, rest) = data.split_at(8);
                data = rest;
                Field::Fixed(u64::from_le_bytes(v.try_into().expect("8 bytes")))
            }
            2 => {
                let (v, rest) = {
                    let n = varint(&mut data) as usize;
                    data.split_at(n)
                };
                data = rest;
                Field::Bytes(v)
            }
            other => panic!("wire type {other}"),
        };
        out.push((number, field));
    }
    out
}

/// A track.
#[derive(Debug, Clone)]
pub struct Track {
    /// Its name after those of its parents, such as `ranks/tp=0/main`.
    pub path: String,
    /// Whether it holds values of a counter.
    pub counter: bool,
}

/// A value of an argument.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A whole number.
    Uint(u64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
}

/// A slice or, with `moment`, an instant.
#[derive(Debug, Clone)]
pub struct Slice {
    /// Path of its track.
    pub track: String,
    /// Its name.
    pub name: String,
    /// Its category.
    pub category: String,
    /// Start in ns.
    pub start: u64,
    /// End in ns.
    pub end: u64,
    /// Whether it is an instant.
    pub moment: bool,
    /// Number of enclosing slices of the track.
    pub depth: usize,
    /// Arguments.
    pub args: Vec<(String, Arg)>,
}

impl Slice {
    /// Returns a number among the arguments.
    pub fn float(&self, name: &str) -> Option<f64> {
        self.args.iter().find_map(|(n, a)| match a {
            Arg::Float(v) if n == name => Some(*v),
            _ => None,
        })
    }
}

/// A valid trace.
#[derive(Debug, Default)]
pub struct Trace {
    /// Tracks by uuid.
    pub tracks: BTreeMap<u64, Track>,
    /// Slices and instants in the order of their starts.
    pub slices: Vec<Slice>,
    /// Values of counters: path, time, value.
    pub counters: Vec<(String, u64, u64)>,
    /// Flows that begin, and flows that end.
    pub flows: (BTreeSet<u64>, BTreeSet<u64>),
}

#[derive(Default)]
struct Reader {
    trace: Trace,
    interned: BTreeMap<(u32, u64), String>,
    open: BTreeMap<u64, Vec<usize>>,
    now: u64,
}

/// Reads a trace.
///
/// # Panics
/// Panics if anything violates the format.
pub fn read(data: &[u8]) -> Trace {
    let mut r = Reader::default();
    for (i, (number, packet)) in fields(data).into_iter().enumerate() {
        assert_eq!(number, 1, "a trace is a list of packets");
        r.packet(i == 0, packet.bytes());
    }
    for (track, open) in &r.open {
        assert!(open.is_empty(), "slices without an end on {}", r.trace.tracks[track].path);
    }
    r.trace
}

impl Reader {
    fn packet(&mut self, first: bool, data: &[u8]) {
        let list = fields(data);
        let mut seen = BTreeSet::new();
        assert!(list.iter().all(|(n, _)| seen.insert(*n)), "a field of a packet twice");
        let get = |n: u32| list.iter().find(|f| f.0 == n).map(|f| &f.1);
        assert_eq!(get(10).expect("a sequence").uint(), 1);
        let flags = get(13).map_or(0, Field::uint);
        assert_eq!(flags & 1 == 1, first, "state is cleared at the start and never again");
        if let Some(f) = get(12) {
            assert_eq!(flags, 2, "interned names need state");
            self.intern(f.bytes());
        }
        match (get(60), get(11)) {
            (Some(d), None) => self.track(d.bytes()),
            (None, Some(e)) => {
                let at = get(8).expect("an event has a time").uint();
                assert!(at >= self.now, "{at} after {}", self.now);
                assert!(i64::try_from(at).is_ok());
                assert_eq!(flags, 2, "events need state");
                self.now = at;
                self.event(at, e.bytes());
            }
            other => panic!("a packet with {other:?}"),
        }
        for (n, _) in list {
            assert!([8, 10, 11, 12, 13, 60, 87].contains(&n), "field {n} of a packet");
        }
    }

    fn intern(&mut self, data: &[u8]) {
        for (table, entry) in fields(data) {
            assert!([1, 2, 3, 29].contains(&table), "table {table} of interned data");
            let list = fields(entry.bytes());
            let [(1, id), (2, text)] = &list[..] else { panic!("an entry: {list:?}") };
            assert!(id.uint() > 0);
            let old = self.interned.insert((table, id.uint()), text.text());
            assert!(old.is_none(), "{} twice in table {table}", id.uint());
        }
    }

    fn interned(&self, table: u32, id: u64) -> String {
        self.interned.get(&(table, id)).unwrap_or_else(|| panic!("no {id} in table {table}")).clone()
    }

    fn track(&mut self, data: &[u8]) {
        let (mut uuid, mut name, mut parent, mut counter) = (0, String::new(), None, false);
        for (n, f) in fields(data) {
            match n {
                1 => uuid = f.uint(),
                2 => name = f.text(),
                5 => parent = Some(f.uint()),
                8 => {
                    counter = true;
                    let unit = fields(f.bytes());
                    assert!(matches!(unit[..], [(3, Field::Varint(3))]), "bytes: {unit:?}");
                }
                11 => assert_eq!(f.uint(), 3, "children in explicit order"),
                12 => assert!(i32::try_from(f.uint()).is_ok()),
                15 => assert!([1, 2].contains(&f.uint())),
                other => panic!("field {other} of a track"),
            }
        }
        assert!(uuid > 0 && !name.is_empty());
        let above = parent.map_or_else(String::new, |p| format!("{}/", self.trace.tracks[&p].path));
        let old = self.trace.tracks.insert(uuid, Track { path: above + &name, counter });
        assert!(old.is_none(), "track {uuid} twice");
    }

    fn event(&mut self, at: u64, data: &[u8]) {
        let (mut kind, mut track, mut value) = (0, 0, None);
        let (mut name, mut category) = (String::new(), String::new());
        let (mut args, mut flow) = (vec![], false);
        for (n, f) in fields(data) {
            match n {
                9 => kind = f.uint(),
                11 => track = f.uint(),
                30 => value = Some(f.uint()),
                3 => category = self.interned(1, f.uint()),
                10 => name = self.interned(2, f.uint()),
                4 => args.push(self.argument(f.bytes())),
                47 => {
                    let id = f.fixed();
                    assert!(!self.trace.flows.1.contains(&id), "arrow {id} goes on after its end");
                    self.trace.flows.0.insert(id);
                    flow = true;
                }
                48 => {
                    let id = f.fixed();
                    assert!(self.trace.flows.0.contains(&id), "arrow {id} ends without a beginning");
                    assert!(self.trace.flows.1.insert(id), "arrow {id} ends twice");
                    flow = true;
                }
                other => panic!("field {other} of an event"),
            }
        }
        let path = self.trace.tracks.get(&track).unwrap_or_else(|| panic!("no track {track}"));
        assert_eq!(path.counter, kind == 4, "values and only values on counters: {}", path.path);
        let path = path.path.clone();
        let open = self.open.entry(track).or_default();
        match kind {
            1 | 3 => {
                assert!(!name.is_empty() && !category.is_empty(), "{path}: an event without a name");
                let moment = kind == 3;
                if !moment {
                    open.push(self.trace.slices.len());
                }
                let depth = open.len() - usize::from(!moment);
                let slice = Slice { track: path, name, category, start: at, end: at, moment, depth, args };
                self.trace.slices.push(slice);
            }
            2 => {
                assert!(name.is_empty() && category.is_empty() && !flow, "an end has no name");
                let i = open.pop().unwrap_or_else(|| panic!("{path}: an end without a beginning"));
                let slice = &mut self.trace.slices[i];
                slice.end = at;
                slice.args.extend(args);
            }
            4 => self.trace.counters.push((path, at, value.expect("a counter has a value"))),
            other => panic!("an event of type {other}"),
        }
    }

    fn argument(&self, data: &[u8]) -> (String, Arg) {
        match &fields(data)[..] {
            [(1, name), (3, Field::Varint(v))] => (self.interned(3, name.uint()), Arg::Uint(*v)),
            [(1, name), (5, Field::Fixed(v))] => {
                let v = f64::from_bits(*v);
                assert!(v.is_finite());
                (self.interned(3, name.uint()), Arg::Float(v))
            }
            [(1, name), (17, Field::Varint(v))] => {
                (self.interned(3, name.uint()), Arg::Text(self.interned(29, *v)))
            }
            other => panic!("an argument: {other:?}"),
        }
    }
}
