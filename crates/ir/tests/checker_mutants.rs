//! Mutants of the good schedules: each is rejected for its right reason, or listed with why it behaves the same.

mod common;

use common::{codes, files, schedule};
use kbc_ir::checker::{CheckOptions, check};
use kbc_ir::mutate::{Kind, Mutation, Side, apply, mutations};

/// Codes that say what is wrong with a mutant of this kind; at least one of them must be there, and no other.
fn admissible(m: &Mutation) -> &'static [&'static str] {
    // What is not there, or not what was promised.
    const CONTENTS: &[&str] = &["E341", "E342", "E343", "E344"];
    // Something happens before what it needs.
    const EARLY: &[&str] = &["E347", "E348", "E349", "E358"];
    // A fence does not cover what it should.
    const FENCE: &[&str] = &["E345", "E348", "E349", "E350"];
    match (m.kind, m.word) {
        (Kind::Drop, "put" | "get" | "copy" | "local") => &["E341", "E342", "E343", "E344"],
        (Kind::Drop, "reduce") => &["E341"],
        (Kind::Drop, "notify" | "record") => &["E340"],
        (Kind::Drop, "wait" | "await") => EARLY,
        (Kind::Drop, "fence.release") => FENCE,
        (Kind::Drop, "fence.acquire") => &["E346"],
        (Kind::Duplicate, "put") => &["E348"],
        // Nobody counts twice what is taken twice.
        (Kind::Duplicate, "wait") => &["E340"],
        // Both are on their way at once.
        (Kind::Duplicate, "get") => &["E350"],
        (Kind::Peer(_), "get") => &["E347", "E350"],
        (Kind::Drop | Kind::Swap, "fence.complete") => &["E345", "E350"],
        (Kind::Duplicate, "reduce") => &["E342"],
        // A second notify tells of what has not happened yet.
        (Kind::Duplicate, "notify") => EARLY,
        (Kind::Swap, "put" | "fence.release") => {
            &["E345", "E348", "E349", "E350", "E340", "E341", "E343", "E344"]
        }
        (Kind::Swap, "notify") => &["E340", "E345"],
        (Kind::Swap, "wait") => &["E346", "E347", "E340", "E348", "E349", "E358"],
        (Kind::Swap, "fence.acquire") => &["E346"],
        (Kind::Swap, "reduce" | "copy") => &["E341", "E343", "E344", "E345", "E347", "E348", "E349", "E350"],
        (Kind::Swap, "local" | "record" | "await") => &["E344", "E347", "E348", "E349", "E340"],
        (Kind::Swap, "for" | "if") => {
            &["E340", "E341", "E343", "E344", "E345", "E346", "E347", "E348", "E349", "E350", "E358"]
        }
        (Kind::Peer(_), "put") => &["E341", "E342", "E343", "E344", "E347", "E348", "E349", "E303"],
        (Kind::Peer(_), "notify") => {
            &["E340", "E341", "E343", "E344", "E351", "E345", "E347", "E348", "E349", "E358"]
        }
        (Kind::Slot(Side::Destination), _) => &["E341", "E343", "E344", "E347", "E348", "E349"],
        (Kind::Slot(Side::Source), _) => &["E341", "E343", "E344", "E346", "E347", "E348", "E349", "E305"],
        (Kind::Chunk(..), _) => &["E341", "E342", "E343", "E344", "E346", "E347", "E348", "E350", "E305"],
        (Kind::Counter, _) => &["E340", "E351", "E347", "E348", "E349", "E358"],
        // One more or less is the other sense, or none.
        (Kind::WaitLess | Kind::Epoch, _) => &["E347", "E348", "E349", "E358", "E302", "E340"],
        (Kind::WaitMore, _) => &["E340", "E302", "E347", "E348", "E349", "E358"],
        (Kind::NoReduce, _) => &["E341"],
        (Kind::Reduce, _) => &["E335", "E341", "E342", "E343", "E344"],
        (Kind::EndEarly | Kind::BeginLate, _) => {
            &["E340", "E341", "E343", "E344", "E345", "E346", "E347", "E348", "E349", "E350", "E358"]
        }
        (Kind::Guard, _) => &["E304", "E340", "E341", "E343", "E344"],
        (Kind::Role, _) => &["E302", "E303", "E304", "E340", "E341", "E342", "E343", "E344", "E351", "E363"],
        _ => CONTENTS,
    }
}

/// Why a mutant that is accepted does the same as the original.
fn equivalent(file: &str, line: usize, m: &Mutation) -> Option<&'static str> {
    let once_more = "done again at once, it changes nothing";
    Some(match (m.kind, m.word) {
        (
            Kind::Duplicate,
            "wait" | "fence.release" | "fence.acquire" | "fence.complete" | "record" | "await",
        ) => once_more,
        (Kind::Duplicate, "copy" | "local") => once_more,
        _ => match (file, line, m.kind) {
            ("broadcast_credit.kir", 34 | 46, Kind::WaitMore) => {
                "a credit for one slot less: slower, not wrong"
            }
            ("broadcast_credit.kir", 45, Kind::Swap) => "the credit is given after waiting for the own one",
            ("irregular.kir", 39, Kind::Counter) => "all three counters are waited for, in another order",
            ("irregular.kir", 41 | 42 | 57 | 66 | 75, Kind::Swap) => {
                "two copies of different slots to different chunks"
            }
            ("irregular.kir", 45 | 88, Kind::Swap) => "two puts to different slots before one release",
            ("pull_all_gather.kir", 42 | 44, Kind::Counter) => {
                "both counters are waited for, and each has one writer"
            }
            ("mesh2x3.kir", _, Kind::Swap) if m.word == "for" => {
                "the other stream is awaited before the last copies"
            }
            (central, _, Kind::Swap) if central.starts_with("central_") && m.word == "fence.release" => {
                "it still comes before the next notify"
            }
            (central, _, Kind::Swap) if central.starts_with("central_") && m.site.role == 0 => match m.word {
                "notify" => "the other rank of the phase notifies before it waits",
                "for" => "what rank 0 puts waits for nobody that it releases",
                _ => return None,
            },
            ("central_epoch.kir" | "central_sense.kir", _, Kind::Counter) if m.site.role == 0 => {
                "rank 0 waits for all three alike"
            }
            (dissemination, 31, Kind::Peer(_)) if dissemination.starts_with("dissemination_") => {
                "two and three ranks on reach everybody, too"
            }
            ("host_program.kir", 36 | 43, _) => "nothing is promised of what the host reads there",
            ("host_program.kir", 60 | 69, Kind::NoReduce) => "a sum onto zeros is a copy",
            ("host_program.kir", 56 | 65, Kind::Swap) => "the other rank notifies before it waits",
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
                special += (m.kind != Kind::Duplicate) as usize;
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
