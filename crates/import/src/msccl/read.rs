//! Reader of MSCCL XML: turns elements and attributes into an [`Algo`] with locations, and reports
//! every error of form.
//!
//! What only the tables of a loader limit is a warning, because the schedule still has a meaning.

use super::steps;
use super::{Algo, Buf, ChunkRun, Coll, Dep, Gpu, Op, Proto, Step, Tb};
use kbc_diag::nearest::nearest;
use kbc_diag::{Diagnostic, Diagnostics, FileId, Span};
use roxmltree::{Document, Node};

/// Greatest number of ranks; a file with more is rejected.
pub const MAX_RANKS: u64 = 1024;
/// Greatest number of chunks of a buffer; a file with more is rejected.
pub const MAX_CHUNKS: u64 = 1 << 16;
/// Greatest number of channels; a file with more is rejected.
const MAX_CHANNELS: u64 = 1 << 10;

const ALGO: [&str; 7] = ["name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace"];
const ALGO_MORE: [&str; 4] = ["outofplace", "minBytes", "maxBytes", "nthreads"];
const GPU: [&str; 4] = ["id", "i_chunks", "o_chunks", "s_chunks"];
const TB: [&str; 4] = ["id", "send", "recv", "chan"];
const STEP: [&str; 10] =
    ["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"];

/// An element while it is read.
struct Element<'a, 'd> {
    node: Node<'a, 'd>,
    file: FileId,
    /// The name of the element in messages.
    what: String,
}

struct Reader {
    file: FileId,
    out: Diagnostics,
}

impl Element<'_, '_> {
    /// Returns the location of the start tag, or of the whole element if it has no children.
    fn span(&self) -> Span {
        let range = self.node.range();
        let text = &self.node.document().input_text()[range.clone()];
        let end = text.find('>').map_or(text.len(), |i| i + 1);
        let tag = if self.node.has_children() { end } else { text.len() };
        Span::new(self.file, range.start, range.start + tag)
    }

    fn at(&self, name: &str) -> Span {
        match self.node.attribute_node(name) {
            Some(a) => Span::new(self.file, a.range().start, a.range().end),
            None => self.span(),
        }
    }
}

/// Reads a text. Warnings go to `out`.
///
/// # Errors
/// Returns E380 for text that is not XML, E381 for attributes that are missing or malformed, E382
/// for numbers that name nothing, E383 for elements that do not make a schedule, and E386 for a
/// dependency on a step that does not exist.
pub fn read(file: FileId, text: &str, out: &mut Diagnostics) -> Result<Algo, Diagnostics> {
    let doc = match Document::parse(text) {
        Ok(doc) => doc,
        Err(e) => return Err(malformed(file, text, &e).into()),
    };
    let mut r = Reader { file, out: Diagnostics::new() };
    let algo = r.algo(doc.root_element());
    if r.out.has_errors() {
        return Err(r.out.finish());
    }
    out.extend(r.out);
    algo.ok_or_else(|| Diagnostic::error("E383", "this is not a schedule").into())
}

fn malformed(file: FileId, text: &str, e: &roxmltree::Error) -> Diagnostic {
    let pos = e.pos();
    let line =
        text.split_inclusive('\n').take(pos.row.saturating_sub(1) as usize).map(str::len).sum::<usize>();
    let rest = text.get(line..).unwrap_or("");
    let column: usize = rest.chars().take(pos.col.saturating_sub(1) as usize).map(char::len_utf8).sum();
    let at = (line + column).min(text.len());
    // The XML library puts the position into its text; the diagnostic shows it as a
    // location instead.
    let words = e.to_string();
    let words = words.rsplit_once(" at ").map_or(words.as_str(), |w| w.0);
    Diagnostic::error("E380", format!("this is not well-formed XML: {words}"))
        .primary(Span::new(file, at, at), "here")
        .help(
            "an MSCCL schedule has the form `<algo ..> <gpu ..> <tb ..> <step ../> .. </tb> </gpu> </algo>`",
        )
}

impl Reader {
    fn element<'a, 'd>(&self, node: Node<'a, 'd>, what: impl Into<String>) -> Element<'a, 'd> {
        Element { node, file: self.file, what: what.into() }
    }

    fn error(&mut self, code: &'static str, title: String, span: Span, label: &str) {
        self.out.push(Diagnostic::error(code, title).primary(span, label));
    }

    fn loader(&mut self, title: String, span: Span, note: &str) {
        self.out.push(Diagnostic::warning("E384", title).primary(span, "here").note(note.to_owned()));
    }

    /// Warns about unknown attributes.
    fn known(&mut self, e: &Element, names: &[&str]) {
        for a in e.node.attributes().filter(|a| !names.contains(&a.name())) {
            let span = Span::new(e.file, a.range().start, a.range().end);
            let mut d = Diagnostic::warning("E384", format!("{} has no attribute `{}`", e.what, a.name()))
                .primary(span, "this attribute is ignored");
            if let Some(near) = nearest(a.name(), names.iter().copied()) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            self.out.push(d);
        }
    }

    fn text<'a>(&mut self, e: &Element<'a, '_>, name: &str) -> Option<&'a str> {
        let found = e.node.attribute(name);
        if found.is_none() {
            self.error("E381", format!("{} has no `{name}`", e.what), e.span(), "this attribute is missing");
        }
        found
    }

    fn number(&mut self, e: &Element, name: &str, least: i64, most: i64) -> Option<i64> {
        let text = self.text(e, name)?;
        let Ok(v) = text.parse::<i64>() else {
            let title = format!("`{name}` of {} is `{text}`, which is not a number", e.what);
            self.error("E381", title, e.at(name), "expected a decimal integer");
            return None;
        };
        if (least..=most).contains(&v) {
            return Some(v);
        }
        let title = format!("`{name}` of {} is {v}, outside {least}..{}", e.what, most.saturating_add(1));
        self.error("E382", title, e.at(name), "here");
        None
    }

    fn word<T>(
        &mut self,
        e: &Element,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
        valid: &[&str],
    ) -> Option<T> {
        let text = self.text(e, name)?;
        let found = parse(text);
        if found.is_none() {
            let mut d = Diagnostic::error("E381", format!("`{name}` of {} is `{text}`", e.what))
                .primary(e.at(name), format!("it is one of: {}", valid.join(", ")));
            if let Some(near) = nearest(text, valid.iter().copied()) {
                d = d.help(format!("did you mean `{near}`?"));
            }
            self.out.push(d);
        }
        found
    }

    /// Returns the children with one name, and reports all other contents as errors (E383).
    fn children<'a, 'd>(&mut self, of: &Element<'a, 'd>, name: &str) -> Vec<Node<'a, 'd>> {
        let mut out = vec![];
        for c in of.node.children() {
            if c.is_element() && c.tag_name().name() == name {
                out.push(c);
            } else if c.is_element() {
                let e = self.element(c, "");
                let title = format!("<{}> is not allowed in {}", c.tag_name().name(), of.what);
                self.error("E383", title, e.span(), &format!("only <{name}> is allowed here"));
            } else if c.is_text() && c.text().is_some_and(|t| !t.trim().is_empty()) {
                let span = Span::new(self.file, c.range().start, c.range().end);
                self.error(
                    "E383",
                    format!("unexpected text in {}", of.what),
                    span,
                    &format!("only <{name}> is allowed here"),
                );
            }
        }
        out
    }

    fn algo(&mut self, root: Node) -> Option<Algo> {
        let e = self.element(root, "<algo>");
        if root.tag_name().name() != "algo" {
            let title = format!("expected an MSCCL schedule, found <{}>", root.tag_name().name());
            self.error("E383", title, e.span(), "expected <algo>");
            return None;
        }
        self.known(&e, &[&ALGO[..], &ALGO_MORE[..]].concat());
        let name = self.text(&e, "name").map(str::to_owned);
        let proto = self.word(&e, "proto", Proto::parse, &["Simple", "LL", "LL128"]);
        let names: Vec<&str> = Coll::names().map(|c| c.0).collect();
        let coll = self.word(&e, "coll", Coll::parse, &names);
        let declared = self.number(&e, "nchannels", 0, MAX_CHANNELS as i64);
        let chunks = self.number(&e, "nchunksperloop", 1, MAX_CHUNKS as i64);
        let ranks = self.number(&e, "ngpus", 1, MAX_RANKS as i64);
        let inplace = self.number(&e, "inplace", 0, 1);
        let optional = |r: &mut Self, name: &str| {
            e.node.has_attribute(name).then(|| r.number(&e, name, 0, i64::MAX)).flatten().map(|v| v as u64)
        };
        // The runtime reads a `maxBytes` of 0 as no limit.
        let (least, most) = (optional(self, "minBytes"), optional(self, "maxBytes").filter(|m| *m > 0));
        let (_, threads) = (optional(self, "outofplace"), optional(self, "nthreads"));
        if threads.is_some_and(|n| n % 32 != 0) {
            self.loader(
                "`nthreads` is not a multiple of 32".into(),
                e.at("nthreads"),
                "microsoft/msccl refuses the file",
            );
        }
        if let (Some(a), Some(b)) = (least, most)
            && a > b
        {
            self.error("E382", format!("minBytes {a} is above maxBytes {b}"), e.at("minBytes"), "here");
        }
        let nodes = self.children(&e, "gpu");
        let ranks = ranks? as u64;
        let mut gpus: Vec<Option<Gpu>> = (0..ranks).map(|_| None).collect();
        for node in nodes {
            if let Some((id, gpu)) = self.gpu(node, ranks) {
                match &gpus[id] {
                    None => gpus[id] = Some(gpu),
                    Some(first) => {
                        let d = Diagnostic::error("E383", format!("there are two gpus {id}"));
                        self.out.push(d.primary(gpu.span, "again here").secondary(first.span, "first here"));
                    }
                }
            }
        }
        for (id, g) in gpus.iter().enumerate() {
            if g.is_none() && !self.out.has_errors() {
                let title = format!("`ngpus` is {ranks}, and gpu {id} is missing");
                self.error("E383", title, e.at("ngpus"), "here");
            }
        }
        let gpus: Option<Vec<Gpu>> = gpus.into_iter().collect();
        let mut algo = Algo {
            name: name?,
            proto: proto?,
            chunks: chunks? as u64,
            channels: 0,
            coll: coll?,
            inplace: inplace? == 1,
            aliased: false,
            // The compilers write 0 for both limits if the author stated none.
            window: most.map(|m| (least.unwrap_or(0), m)),
            gpus: gpus?,
            span: e.span(),
        };
        let used = algo.gpus.iter().flat_map(|g| &g.tbs).map(|t| t.chan + 1).max().unwrap_or(0);
        algo.channels = used.max(1);
        let names = |buf| {
            let named = |s: &Step| (s.op.reads() && s.src.buf == buf) || (s.op.writes() && s.dst.buf == buf);
            algo.steps().any(|(_, s)| named(s))
        };
        let both = names(Buf::Input) && names(Buf::Output);
        algo.aliased = algo.inplace && (algo.coll.kind().is_some() || !both);
        if algo.inplace && !algo.aliased {
            let title = format!("`{}` is an in-place schedule that names both `i` and `o`", algo.coll.name());
            let note = "kbc checks them as two buffers; an in-place call uses one memory for both";
            self.loader(title, e.at("inplace"), note);
        }
        if declared.is_some_and(|n| n as u64 != used.max(1)) {
            let title = format!(
                "`nchannels` is {}, and the thread blocks use {used} channels",
                declared.unwrap_or(0)
            );
            self.loader(title, e.at("nchannels"), "the runtimes create `nchannels` channels");
        }
        if self.out.has_errors() {
            return None;
        }
        steps::arrange(&mut algo, &mut self.out);
        steps::inspect(&algo, &mut self.out);
        Some(algo)
    }

    fn gpu(&mut self, node: Node, ranks: u64) -> Option<(usize, Gpu)> {
        let mut e = self.element(node, "<gpu>");
        let id = self.number(&e, "id", 0, ranks as i64 - 1);
        if let Some(id) = id {
            e.what = format!("gpu {id}");
        }
        self.known(&e, &GPU);
        let sizes = [GPU[1], GPU[2], GPU[3]].map(|n| self.number(&e, n, 0, MAX_CHUNKS as i64));
        let mut tbs: Vec<Option<Tb>> = vec![];
        let nodes = self.children(&e, "tb");
        let count = nodes.len();
        tbs.resize_with(count, || None);
        for node in nodes {
            let Some((tb_id, tb)) = self.tb(node, id, ranks, &e.what) else { continue };
            match tbs.get_mut(tb_id) {
                None => {
                    let title = format!("{} has {count} thread blocks, and one has the id {tb_id}", e.what);
                    self.error("E383", title, tb.span, "ids must be 0, 1, 2, .. without a gap");
                }
                Some(None) => tbs[tb_id] = Some(tb),
                Some(Some(first)) => {
                    let d = Diagnostic::error(
                        "E383",
                        format!("{} has two thread blocks with id {tb_id}", e.what),
                    )
                    .primary(tb.span, "again here")
                    .secondary(first.span, "first here");
                    self.out.push(d);
                }
            }
        }
        let [i, o, s] = sizes;
        let chunks = [i? as u64, o? as u64, s? as u64];
        Some((id? as usize, Gpu { chunks, tbs: tbs.into_iter().collect::<Option<_>>()?, span: e.span() }))
    }

    fn tb(&mut self, node: Node, gpu: Option<i64>, ranks: u64, of: &str) -> Option<(usize, Tb)> {
        let mut e = self.element(node, format!("a <tb> of {of}"));
        let id = self.number(&e, "id", 0, i64::from(u16::MAX));
        if let Some(id) = id {
            e.what = format!("{of} tb {id}");
        }
        self.known(&e, &TB);
        let peer = |r: &mut Self, name: &str| {
            let v = r.number(&e, name, -1, ranks as i64 - 1)?;
            if v >= 0 && Some(v) == gpu {
                let title = format!("`{name}` of {} is its own rank", e.what);
                r.error(
                    "E382",
                    title,
                    e.at(name),
                    "a thread block can send only to other ranks and receive only from other ranks",
                );
                return None;
            }
            Some(u64::try_from(v).ok())
        };
        let (send, recv) = (peer(self, "send"), peer(self, "recv"));
        let chan = self.number(&e, "chan", 0, MAX_CHANNELS as i64 - 1);
        let nodes = self.children(&e, "step");
        let (send, recv) = (send?, recv?);
        let mut steps = vec![];
        let mut complete = true;
        for (number, node) in nodes.into_iter().enumerate() {
            match self.step(node, number, &e.what, (send, recv)) {
                Some(s) => steps.push(s),
                None => complete = false,
            }
        }
        if !complete {
            return None;
        }
        Some((id? as usize, Tb { send, recv, chan: chan? as u64, steps, span: e.span() }))
    }

    fn step(
        &mut self,
        node: Node,
        number: usize,
        of: &str,
        (send, recv): (Option<u64>, Option<u64>),
    ) -> Option<Step> {
        let e = self.element(node, format!("{of} step {number}"));
        self.known(&e, &STEP);
        let s = self.number(&e, "s", 0, i64::from(u32::MAX));
        if s.is_some_and(|s| s != number as i64) {
            let title = format!("{} has the number {}", e.what, s.unwrap_or(0));
            self.error("E383", title, e.at("s"), "steps must be numbered 0, 1, 2, .. in order");
        }
        if e.node.attribute("type") == Some("ra") {
            let d = Diagnostic::error("E381", format!("{} has the unsupported type `ra`", e.what))
                .primary(e.at("type"), "here");
            let note = "microsoft/msccl accepts `ra` but does not implement it: the thread block stops there";
            self.out.push(d.note(note).help("write `re` for a local reduction"));
            return None;
        }
        let types = Op::ALL.map(|o| o.0);
        let op = self.word(&e, "type", |t| Op::ALL.iter().find(|o| o.0 == t).map(|o| o.1), &types);
        let place = |r: &mut Self, buf: &str, off: &str| {
            let b = r.word(&e, buf, Buf::parse, &["i", "o", "s"]);
            let o = r.number(&e, off, -1, MAX_CHUNKS as i64);
            Some(ChunkRun { buf: b?, off: o? })
        };
        let (src, dst) = (place(self, "srcbuf", "srcoff"), place(self, "dstbuf", "dstoff"));
        let cnt = self.number(&e, "cnt", 0, MAX_CHUNKS as i64);
        let depid = self.number(&e, "depid", -1, i64::from(u16::MAX));
        let deps = self.number(&e, "deps", -1, i64::from(u32::MAX));
        let hasdep = self.number(&e, "hasdep", 0, 1);
        let (op, cnt) = (op?, cnt? as u64);
        for (needed, peer, name) in [(op.sends(), send, "send"), (op.receives(), recv, "recv")] {
            if needed && peer.is_none() {
                let title =
                    format!("{} is `{}`, and its thread block has no `{name}` peer", e.what, op.name());
                self.error("E382", title, e.span(), "here");
            }
        }
        let (src, dst) = (src?, dst?);
        for (used, p, name) in [(op.reads(), src, "src"), (op.writes(), dst, "dst")] {
            if used && p.off < 0 && cnt > 0 {
                let title = format!("{} is `{}`, and its {name}off is {}", e.what, op.name(), p.off);
                self.error("E382", title, e.at(&format!("{name}off")), "expected an offset on this rank");
            }
        }
        let (depid, deps) = (depid?, deps?);
        let dep = (depid >= 0).then(|| Dep { tb: depid, step: deps, span: e.at("depid").to(e.at("deps")) });
        Some(Step { op, src, dst, cnt, dep, hasdep: hasdep? == 1, waits: vec![], span: e.span() })
    }
}
