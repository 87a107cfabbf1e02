//! Rankings of `select` that are kept from one run to another.
//!
//! The key of a ranking is a digest of its question ([`RankingStore`]) and of the code of kbc: of
//! all sources that this crate is built from, which the build script finds, with the library of
//! algorithms and the versions of packages. Numbers are kept bit by bit, so a run that finds a
//! ranking gives what a run gives that does not.

use crate::entries::{self, Entries, KeptEntry, Key};
use kbc_diag::Diagnostic;
use kbc_ir::Name;
use kbc_ir::graph::UsingArg;
use kbc_passes::RankingStore;
use kbc_passes::cost::{Method, Price};
use kbc_passes::findings::select::{Candidate, Ranking, SearchRecord, Verdict};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;

/// Version of the form of entries.
const FORM: &str = "kbc ranking 1";

/// A digest of the sources of this build.
const CODE: &str = env!("KBC_CODE");

/// Rankings among the entries of an environment.
pub struct Rankings<'a> {
    entries: &'a dyn Entries,
    /// Keys of damaged entries.
    damaged: RefCell<Vec<String>>,
}

impl<'a> Rankings<'a> {
    /// Uses these entries.
    pub fn new(entries: &'a dyn Entries) -> Self {
        Rankings { entries, damaged: RefCell::default() }
    }

    /// Returns a warning about the damaged entries, if some were.
    pub fn damaged(&self) -> Option<Diagnostic> {
        let note = "kbc compared the algorithms again and rewrote the entries";
        entries::damaged(self.entries, &self.damaged.borrow(), note)
    }
}

fn key(question: &str) -> String {
    let mut key = Key::new(FORM);
    key.word(CODE);
    key.word(question);
    key.hex()
}

impl RankingStore for Rankings<'_> {
    fn digest(&self, text: &str) -> String {
        key(text)
    }

    fn find(&self, question: &str) -> Option<Ranking> {
        let key = key(question);
        match entries::load::<StoredRanking>(self.entries, FORM, &key) {
            KeptEntry::Missing => None,
            KeptEntry::Damaged => {
                self.damaged.borrow_mut().push(key);
                None
            }
            KeptEntry::Found(stored) => Some(stored.into()),
        }
    }

    fn keep(&self, question: &str, ranking: &Ranking) {
        entries::keep(self.entries, FORM, &key(question), &StoredRanking::from(ranking.clone()));
    }
}

/// The bits of a number.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Bits(u64);

impl From<f64> for Bits {
    fn from(number: f64) -> Self {
        Bits(number.to_bits())
    }
}

impl From<Bits> for f64 {
    fn from(bits: Bits) -> Self {
        f64::from_bits(bits.0)
    }
}

/// A [`Ranking`].
#[derive(Serialize, Deserialize)]
struct StoredRanking {
    candidates: Vec<StoredCandidate>,
    bound: Option<(Bits, String)>,
    orders: u64,
    tried: u64,
    given_up: u64,
    exhausted: bool,
    skipped: Option<String>,
}

/// Arguments or options.
type StoredArguments = Vec<(String, StoredArgument)>;

/// A [`UsingArg`].
#[derive(Serialize, Deserialize)]
enum StoredArgument {
    Int(i64),
    Name(String),
}

/// A [`Candidate`].
#[derive(Serialize, Deserialize)]
struct StoredCandidate {
    algorithm: String,
    arguments: StoredArguments,
    options: StoredArguments,
    verdict: StoredVerdict,
}

/// A [`Verdict`].
#[derive(Serialize, Deserialize)]
enum StoredVerdict {
    Priced {
        ns: Bits,
        simulated: Option<Bits>,
        rounds: u64,
        sent: u64,
        busiest_ns: Bits,
        method: StoredMethod,
        low: bool,
    },
    Unpriced,
    Pruned(String),
    Rejected(String),
}

/// A [`Method`].
#[derive(Serialize, Deserialize)]
enum StoredMethod {
    Rounds,
    SomeGroups(usize, usize),
    Extrapolated([u64; 3]),
}

impl From<Ranking> for StoredRanking {
    fn from(Ranking { candidates, search }: Ranking) -> Self {
        let SearchRecord { bound, orders, tried, given_up, exhausted, skipped } = search;
        let candidates = candidates.into_iter().map(StoredCandidate::from).collect();
        let bound = bound.map(|(ns, why)| (ns.into(), why));
        StoredRanking { candidates, bound, orders, tried, given_up, exhausted, skipped }
    }
}

impl From<StoredRanking> for Ranking {
    fn from(stored: StoredRanking) -> Self {
        let StoredRanking { candidates, bound, orders, tried, given_up, exhausted, skipped } = stored;
        let candidates = candidates.into_iter().map(Candidate::from).collect();
        let bound = bound.map(|(ns, why)| (ns.into(), why));
        Ranking { candidates, search: SearchRecord { bound, orders, tried, given_up, exhausted, skipped } }
    }
}

fn stored(list: Vec<(Name, UsingArg)>) -> StoredArguments {
    let value = |value| match value {
        UsingArg::Int(n) => StoredArgument::Int(n),
        UsingArg::Name(name) => StoredArgument::Name(name.to_string()),
    };
    list.into_iter().map(|(name, v)| (name.to_string(), value(v))).collect()
}

fn read(list: StoredArguments) -> Vec<(Name, UsingArg)> {
    let value = |value| match value {
        StoredArgument::Int(n) => UsingArg::Int(n),
        StoredArgument::Name(name) => UsingArg::Name(Name::from(name.as_str())),
    };
    list.into_iter().map(|(name, v)| (Name::from(name.as_str()), value(v))).collect()
}

impl From<Candidate> for StoredCandidate {
    fn from(Candidate { algorithm, arguments, options, verdict }: Candidate) -> Self {
        let verdict = match verdict {
            Verdict::Priced(Price { ns, simulated, rounds, sent, busiest_ns, method, low }) => {
                StoredVerdict::Priced {
                    ns: ns.into(),
                    simulated: simulated.map(Bits::from),
                    rounds,
                    sent,
                    busiest_ns: busiest_ns.into(),
                    method: match method {
                        Method::Rounds => StoredMethod::Rounds,
                        Method::SomeGroups(some, all) => StoredMethod::SomeGroups(some, all),
                        Method::Extrapolated(ranks) => StoredMethod::Extrapolated(ranks),
                    },
                    low,
                }
            }
            Verdict::Unpriced => StoredVerdict::Unpriced,
            Verdict::Pruned(why) => StoredVerdict::Pruned(why),
            Verdict::Rejected(why) => StoredVerdict::Rejected(why),
        };
        let algorithm = algorithm.to_string();
        StoredCandidate { algorithm, arguments: stored(arguments), options: stored(options), verdict }
    }
}

impl From<StoredCandidate> for Candidate {
    fn from(StoredCandidate { algorithm, arguments, options, verdict }: StoredCandidate) -> Self {
        let verdict = match verdict {
            StoredVerdict::Priced { ns, simulated, rounds, sent, busiest_ns, method, low } => {
                Verdict::Priced(Price {
                    ns: ns.into(),
                    simulated: simulated.map(f64::from),
                    rounds,
                    sent,
                    busiest_ns: busiest_ns.into(),
                    method: match method {
                        StoredMethod::Rounds => Method::Rounds,
                        StoredMethod::SomeGroups(some, all) => Method::SomeGroups(some, all),
                        StoredMethod::Extrapolated(ranks) => Method::Extrapolated(ranks),
                    },
                    low,
                })
            }
            StoredVerdict::Unpriced => Verdict::Unpriced,
            StoredVerdict::Pruned(why) => Verdict::Pruned(why),
            StoredVerdict::Rejected(why) => Verdict::Rejected(why),
        };
        let algorithm = Name::from(algorithm.as_str());
        Candidate { algorithm, arguments: read(arguments), options: read(options), verdict }
    }
}
