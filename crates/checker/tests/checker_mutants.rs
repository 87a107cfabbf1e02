//! Tests of mutants of the good schedules: each is rejected for its proper reason, or listed with
//! the reason why it behaves like the original.

use crate::common;

use common::{codes, files, schedule};
use kbc_checker::mutate::field::type_name;
use kbc_checker::mutate::{Change, Mutation, MutationKind, all, apply, describe, harmless, mutations};
use kbc_checker::{CheckOptions, check};
use kbc_diag::FileId;
use kbc_ir::host::with_host_region;
use kbc_ir::schedule::{Schedule, SignalUse};
use kbc_ir::text::parse;
use kbc_ir::visit::{ExprUse, FieldMut, RefUse, each_field, each_field_mut};
use kbc_ir::walk::{Cursor, Program, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Returns a short name for the kind of a mutation, with the side for slots.
fn what(m: &Mutation) -> &'static str {
    match m.kind {
        MutationKind::Drop => "drop",
        MutationKind::Duplicate => "duplicate",
        MutationKind::Swap => "swap",
        MutationKind::NoReduce => "no reduce",
        MutationKind::Reduce => "reduce",
        MutationKind::Field(spot, change) => match (spot.of, change) {
            (Some(ExprUse::Peer(_)), _) => "peer",
            (Some(ExprUse::Slot), _) if spot.side == Some(RefUse::Read) => "slot read",
            (Some(ExprUse::Slot), _) => "slot written",
            (Some(ExprUse::ChunkIndex), _) => "chunk",
            (Some(ExprUse::Counter), _) => "counter",
            (Some(ExprUse::Value(_)), Change::Less) => "less",
            (Some(ExprUse::Value(_)), Change::More) => "more",
            (Some(ExprUse::Value(_)), _) => "before",
            (Some(ExprUse::Guard), _) => "guard",
            (Some(ExprUse::Ranks), _) => "role",
            (Some(ExprUse::Bound), _) => "turns",
            _ => "other",
        },
        _ => "other",
    }
}

/// Returns the codes with which a mutant of this kind may be rejected. At least one of them must
/// occur, and no other.
fn admissible(m: &Mutation) -> &'static [&'static str] {
    // Contents are missing, or not those of the contract.
    const CONTENTS: &[&str] = &["E341", "E342", "E343", "E344"];
    // An operation happens before what it depends on.
    const EARLY: &[&str] = &["E347", "E348", "E349", "E358"];
    // A fence does not cover what it should.
    const FENCE: &[&str] = &["E345", "E348", "E349", "E350"];
    match (what(m), m.word) {
        ("drop", "put" | "get" | "copy" | "local") => &["E341", "E342", "E343", "E344"],
        ("drop", "combine") => &["E341"],
        ("drop", "notify" | "record") => &["E340"],
        ("drop", "wait" | "await") => EARLY,
        ("drop", "fence.release") => FENCE,
        ("drop", "fence.acquire") => &["E346"],
        ("duplicate", "put") => &["E348"],
        // No notify arrives for the second wait.
        ("duplicate", "wait") => &["E340"],
        // Both transfers are in flight at once.
        ("duplicate", "get") => &["E350"],
        ("peer", "get") => &["E347", "E350", "E341", "E342"],
        // What it brings is read, or told to others, before it is complete.
        ("swap", "get" | "get.combine") => &["E345", "E350"],
        ("drop" | "swap", "fence.complete") => &["E345", "E350"],
        ("duplicate", "combine") => &["E342"],
        // A second notify announces something that has not happened yet.
        ("duplicate", "notify") => EARLY,
        ("swap", "put" | "fence.release") => {
            &["E345", "E348", "E349", "E350", "E340", "E341", "E343", "E344"]
        }
        ("swap", "notify") => &["E340", "E345"],
        ("swap", "wait") => &["E346", "E347", "E340", "E348", "E349", "E358"],
        ("swap", "fence.acquire") => &["E346"],
        ("swap", "combine" | "copy") => &["E341", "E343", "E344", "E345", "E347", "E348", "E349", "E350"],
        ("swap", "local" | "record" | "await") => &["E344", "E347", "E348", "E349", "E340"],
        ("swap", "for" | "if") => {
            &["E340", "E341", "E343", "E344", "E345", "E346", "E347", "E348", "E349", "E350", "E358"]
        }
        ("peer", "put") => &["E341", "E342", "E343", "E344", "E347", "E348", "E349", "E303"],
        ("peer", "notify") => {
            &["E340", "E341", "E343", "E344", "E351", "E345", "E347", "E348", "E349", "E358"]
        }
        ("slot written", _) => &["E341", "E343", "E344", "E347", "E348", "E349"],
        ("slot read", _) => &["E341", "E343", "E344", "E346", "E347", "E348", "E349", "E305"],
        ("chunk", _) => &["E341", "E342", "E343", "E344", "E346", "E347", "E348", "E350", "E305"],
        ("counter", _) => &["E340", "E351", "E347", "E348", "E349", "E358"],
        // One more or one less is the other sense, or none.
        ("less" | "before", _) => &["E347", "E348", "E349", "E358", "E302", "E340"],
        ("more", _) => &["E340", "E302", "E347", "E348", "E349", "E358"],
        ("no reduce", _) => &["E341"],
        ("reduce", _) => &["E335", "E341", "E342", "E343", "E344"],
        ("turns", _) => {
            &["E340", "E341", "E343", "E344", "E345", "E346", "E347", "E348", "E349", "E350", "E358"]
        }
        ("guard", _) => &["E304", "E340", "E341", "E343", "E344"],
        ("role", _) => &["E302", "E303", "E304", "E340", "E341", "E342", "E343", "E344", "E351", "E363"],
        _ => CONTENTS,
    }
}

/// Returns the reason why an accepted mutant behaves like the original.
fn equivalent(file: &str, line: usize, m: &Mutation) -> Option<&'static str> {
    let once_more = "done again at once, it changes nothing";
    Some(match (what(m), m.word) {
        ("duplicate", "wait" | "fence.release" | "fence.acquire" | "fence.complete" | "record" | "await") => {
            once_more
        }
        ("duplicate", "copy" | "local") => once_more,
        _ => match (file, line, what(m)) {
            ("broadcast_credit.kir", 34 | 46, "more") => "a credit for one slot less: slower, not wrong",
            ("broadcast_credit.kir", 45, "swap") => "the credit is given after waiting for the own one",
            ("irregular.kir", 39, "counter") => "all three counters are waited for, in another order",
            ("irregular.kir", 41 | 42 | 57 | 66 | 75, "swap") => {
                "two copies of different slots to different chunks"
            }
            ("irregular.kir", 45 | 88, "swap") => "two puts to different slots before one release",
            ("pull_all_gather.kir", 42 | 44, "counter") => {
                "both counters are waited for, and each has one writer"
            }
            ("combining_gets.kir", 36 | 38 | 46 | 48, "counter") => {
                "both counters are waited for, and each has one writer"
            }
            ("combining_gets.kir", 43, "swap") => "no other rank reads the sum",
            ("mesh2x3.kir", _, "swap") if m.word == "for" => {
                "the other stream is awaited before the last copies"
            }
            (central, _, "swap") if central.starts_with("central_") && m.word == "fence.release" => {
                "it still comes before the next notify"
            }
            (central, _, "swap") if central.starts_with("central_") && m.site.role == 0 => match m.word {
                "notify" => "the other rank of the phase notifies before it waits",
                "for" => "what rank 0 puts waits for nobody that it releases",
                _ => return None,
            },
            ("central_epoch.kir" | "central_sense.kir", _, "counter") if m.site.role == 0 => {
                "rank 0 waits for all three alike"
            }
            (dissemination, 31, "peer") if dissemination.starts_with("dissemination_") => {
                "two and three ranks on reach everybody, too"
            }
            ("host_program.kir", 36 | 43, _) => "nothing is promised of what the host reads there",
            ("host_program.kir", 60 | 69, "no reduce") => "a sum onto zeros is a copy",
            ("host_program.kir", 56 | 65, "swap") => "the other rank notifies before it waits",
            _ => return None,
        },
    })
}

#[test]
fn mutants_are_rejected_for_their_right_reason() {
    let (mut rejected, mut special, mut wrong) = (0, 0, vec![]);
    for (name, text) in files("good") {
        let s = schedule(&name, &text);
        for m in mutations(&s) {
            let v = check(&apply(&s, &m), &CheckOptions::default());
            let line =
                if m.span.is_none() { 0 } else { text[..m.span.start as usize].matches('\n').count() + 1 };
            let what = format!("{name}:{line}: {} ({:?})", m.text, m.site.path);
            if v.ok() {
                if equivalent(&name, line, &m).is_none() {
                    wrong.push(format!("{what}: accepted"));
                }
                special += (m.kind != MutationKind::Duplicate) as usize;
                continue;
            }
            let allowed = admissible(&m);
            match codes(&v).iter().find(|c| !allowed.contains(c)) {
                Some(_) => wrong.push(format!("{what}: {:?}", codes(&v))),
                None => rejected += 1,
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rejected >= 200, "{rejected} rejected");
    assert!(special <= 48, "{special} accepted beside duplicates");
}

#[test]
fn mutations_are_deterministic_and_change_something() {
    for (name, text) in files("good") {
        let s = schedule(&name, &text);
        let list = mutations(&s);
        assert_eq!(list, mutations(&s), "{name}");
        for m in &list {
            assert!(apply(&s, m) != s, "{name}: {} changes nothing", m.text);
        }
    }
}

/// Returns every schedule of the hand-written texts.
fn corpus() -> Vec<(String, Schedule)> {
    let mut out = vec![];
    for dir in ["good", "queues", "forms"] {
        for (name, text) in files(dir) {
            let module = parse(FileId(0), &text).unwrap_or_else(|d| panic!("{name}: {:#?}", d.list));
            out.extend(module.schedule().map(|s| (name, s.clone())));
        }
    }
    out
}

/// Returns the names of the variants of `Field`, read from the source that declares them.
fn variants() -> BTreeSet<String> {
    let text = include_str!("../../ir/src/visit.rs");
    let (_, rest) = text.split_once("pub enum $field<'a> {").expect("the enumeration is there");
    let (body, _) = rest.split_once("\n        }").expect("it ends");
    let lines = body.lines().map(str::trim).filter(|l| !l.starts_with("//"));
    lines.filter_map(|l| l.split_once('(')).map(|(name, _)| name.to_owned()).collect()
}

/// Every type of field occurs in the hand-written texts, and has mutants there or a reason why it
/// needs none.
#[test]
fn every_field_has_mutants_or_a_reason() {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let (mut harmed, mut free): (BTreeSet<&str>, BTreeSet<&str>) = (BTreeSet::new(), BTreeSet::new());
    let mut all_types: BTreeSet<&str> = BTreeSet::new();
    for (name, s) in corpus() {
        let mut names = vec![];
        each_field(&s, &mut |_, field| {
            let variant = format!("{field:?}");
            seen.insert(variant.split('(').next().unwrap_or("").to_owned());
            names.push((type_name(&field), harmless(&field).is_some()));
        });
        for (ty, free_of) in &names {
            all_types.insert(ty);
            if *free_of {
                free.insert(ty);
            }
        }
        for m in all(&s) {
            if let MutationKind::Field(spot, _) = m.kind {
                assert_eq!(names[spot.number as usize].0, spot.name, "{name}: {}", m.text);
                assert!(!names[spot.number as usize].1, "{name}: {} is said to change nothing", m.text);
                assert!(apply(&s, &m) != s, "{name}: {} changes nothing", m.text);
                harmed.insert(spot.name);
            }
        }
    }
    assert_eq!(seen, variants(), "a type of field that no text of tests/kir has");
    let missing: Vec<_> = all_types.iter().filter(|t| !harmed.contains(*t) && !free.contains(*t)).collect();
    assert!(missing.is_empty(), "neither a mutant nor a reason: {missing:?}");
}

/// Returns the operations of every rank and stream in two calls, as words.
fn executed(s: &Schedule) -> Vec<String> {
    let spelled = with_host_region(s);
    let p = Program::compile(&spelled).expect("it compiles");
    let mut out = vec![];
    for (rank, stream, call) in (0..p.ranks())
        .flat_map(|r| (0..p.streams.len() as u32).flat_map(move |s| (0..2).map(move |c| (r, s, c))))
    {
        let mut cursor = Cursor::new(&p, rank, stream, call);
        while let Ok(Some(step)) = cursor.next_step() {
            if let Step::Act(act, _, n) = step {
                out.push(format!("{rank} {stream} {call} {n} {act:?}"));
            }
        }
    }
    out
}

/// Mutants that are listed as harmless change neither what is executed nor the checker's verdict.
#[test]
fn harmless_fields_change_nothing() {
    let mut changed = BTreeSet::new();
    for (name, s) in corpus().into_iter().filter(|(name, _)| name != "all_forms.kir") {
        let mut free = vec![];
        each_field(&s, &mut |_, field| free.push(harmless(&field).is_some()));
        let mut other = s.clone();
        let mut number = 0;
        each_field_mut(&mut other, &mut |_, field| {
            if free[number] {
                match field {
                    FieldMut::Hint(what, n) => {
                        changed.insert(what);
                        *n = format!("{n}_renamed").as_str().into();
                    }
                    FieldMut::Label(l) => {
                        changed.insert("label");
                        *l = Some("another".into());
                    }
                    FieldMut::SignalUse(u) => {
                        changed.insert("use");
                        *u = if *u == SignalUse::Barrier { SignalUse::Credit } else { SignalUse::Barrier };
                    }
                    FieldMut::Via(via) => {
                        changed.insert("via");
                        let first = via.relays().first().copied().unwrap_or(0);
                        *via = [first + 1].as_slice().into();
                    }
                    FieldMut::Body(_) => {}
                    other => panic!("{name}: {other:?} is said to change nothing, and nothing tests it"),
                }
            }
            number += 1;
        });
        assert_eq!(executed(&s), executed(&other), "{name}");
        let verdict = |s: &Schedule| codes(&check(s, &CheckOptions::default()));
        assert_eq!(verdict(&s), verdict(&other), "{name}");
    }
    for what in [
        "schedule",
        "buffer",
        "window",
        "signal",
        "queue",
        "region",
        "role",
        "collective",
        "label",
        "use",
        "via",
    ] {
        assert!(changed.contains(what), "no text has a {what}");
    }
}

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/mutation.md");

/// The tables of changes on the page are those of the code. With `KBC_BLESS` set, they are written.
#[test]
fn the_page_has_the_table_of_changes() {
    let mut fields: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut made: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut reasons: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (_, s) in corpus() {
        each_field(&s, &mut |_, field| {
            if let Some(why) = harmless(&field) {
                reasons.entry(why).or_default().insert(type_name(&field));
            }
        });
        for m in all(&s) {
            match m.kind {
                MutationKind::Field(spot, change) => {
                    fields.entry(spot.name).or_default().insert(change.kind());
                }
                kind => {
                    made.entry(describe(kind)).or_default().insert(m.word);
                }
            }
        }
    }
    let list = |s: &BTreeSet<&str>| s.iter().copied().collect::<Vec<_>>().join("; ");
    let mut table = "| field | changes |\n|---|---|\n".to_owned();
    fields.iter().for_each(|(f, c)| table += &format!("| {f} | {} |\n", list(c)));
    table += "\n| hand-made change | of |\n|---|---|\n";
    made.iter().for_each(|(c, w)| table += &format!("| {c} | {} |\n", list(w)));
    table += "\n| no mutants of | because |\n|---|---|\n";
    reasons.iter().for_each(|(why, f)| table += &format!("| {} | {why} |\n", list(f)));
    let page = std::fs::read_to_string(PAGE).expect("the page is there");
    let (open, close) = ("<!-- changes -->\n", "<!-- end -->");
    let start = page.find(open).expect("the page has the table") + open.len();
    let end = start + page[start..].find(close).expect("the table ends");
    let mut fresh = page.clone();
    fresh.replace_range(start..end, &table);
    if std::env::var_os("KBC_BLESS").is_some() {
        std::fs::write(PAGE, &fresh).expect("the page can be written");
    }
    assert!(
        fresh == page,
        "docs/explanation/mutation.md is not what mutate says; run this test with KBC_BLESS=1"
    );
}

/// Returns the names of the types that a source declares.
fn declared(text: &str) -> Vec<&str> {
    let names = text.lines().filter_map(|l| {
        // The other names of operations are aliases.
        let alias = l.strip_prefix("pub type ").filter(|rest| rest.contains("= Op<"));
        let rest = l.strip_prefix("pub enum ").or_else(|| l.strip_prefix("pub struct ")).or(alias)?;
        rest.split(|c: char| !c.is_alphanumeric()).next()
    });
    names.collect()
}

/// Returns the patterns of a text that end with `..` and match one of these types, by their first
/// words.
fn hiding<'t>(text: &'t str, types: &BTreeSet<&str>) -> Vec<&'t str> {
    let mut open = vec![];
    let mut found = vec![];
    for (at, c) in text.char_indices() {
        match c {
            '{' => open.push(at),
            '}' => {
                let begin = open.pop().expect("braces are in pairs");
                if !text[begin..at].trim_end().ends_with("..") {
                    continue;
                }
                let path = text[..begin].trim_end();
                let first =
                    path.rfind(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).map_or(0, |i| i + 1);
                // The last word of a longer path is a variant.
                let of = path[first..].rsplit_once("::").map_or(&path[first..], |(of, _)| of);
                if of.split("::").any(|word| types.contains(word)) {
                    found.push(&text[first..=at]);
                }
            }
            _ => {}
        }
    }
    found
}

/// Code that judges schedules takes operations and headers apart completely: `..` would hide a
/// field that is added later, and `_ =>` an operation. (The lint does not see a `_` beside another
/// pattern, but no such match is over operations alone.)
#[test]
fn no_pattern_of_a_judge_hides_a_field() {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ir/src");
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).expect("a source");
        // Comments and strings may contain braces.
        text.lines()
            .map(|l| l.split("//").next().unwrap_or(""))
            .collect::<Vec<_>>()
            .join("\n")
            .replace("'{'", "")
            .replace("'}'", "")
    };
    let headers =
        ["schedule.rs", "op.rs", "refs.rs", "local_op.rs", "contract.rs", "graph.rs", "form.rs", "fill.rs"]
            .map(|f| read(&source.join(f)));
    let types: BTreeSet<&str> = headers.iter().flat_map(|t| declared(t)).collect();
    let known =
        ["SOp", "Op", "SStmt", "Ref", "LocalOp", "Region", "Role", "Buffer", "Signal", "Queue", "Contract"];
    for known in known {
        assert!(types.contains(known), "{known} is declared elsewhere");
    }
    let mut files = vec![source.join("visit.rs"), source.join("walk/compile.rs")];
    let mut folders = vec![own, source.join("verify")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    assert!(files.len() > 35, "{}", files.len());
    let mut wrong = vec![];
    for file in &files {
        let text = read(file);
        wrong.extend(hiding(&text, &types).into_iter().map(|p| format!("{}: {p}", file.display())));
        if (file.ends_with("mod.rs") || file.ends_with("lib.rs"))
            && !file.parent().is_some_and(|p| p.ends_with("engine"))
        {
            assert!(text.contains("#![deny(clippy::wildcard_enum_match_arm"), "{}", file.display());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let types = BTreeSet::from(["SOp"]);
    assert_eq!(
        hiding("a { SOp::Put { src, .. } => b, Act::Put { .. } => c }", &types),
        ["SOp::Put { src, .. }"]
    );
}
