//! Damage to files that uses some knowledge of their structure: numbers, names, brackets, lines and
//! indentation of texts, lengths and headers of binary files.

use crate::fuzz::rng::Rng;

/// Largest size of a file in bytes.
const MAX_BYTES: usize = 1 << 18;

/// Numbers at which behaviour may change.
const NUMBERS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "63",
    "64",
    "4097",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "0.0000001",
];

/// Pieces of text with a meaning in one of the formats.
const PIECES: [&str; 32] = [
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "<",
    ">",
    ",",
    ";",
    ":",
    ".",
    "..",
    "@",
    "%",
    "->",
    "=",
    "==",
    "\"",
    "'",
    "\\",
    "\n",
    "  ",
    "\t",
    "#",
    "//",
    "&a ",
    "*a",
    "- ",
    "if 1 {",
    "\u{1b}[31m",
    "\u{feff}",
];

/// Returns a damaged file. `other` is a file of the same kind.
pub fn damage(bytes: &[u8], other: &[u8], binary: bool, rng: &mut Rng) -> Vec<u8> {
    let mut out = bytes.to_vec();
    // Sometimes the file stays unchanged, because it must be read, too.
    let changes = [0, 1, 1, 1, 2, 3, 5, 8][rng.below(8)];
    for _ in 0..changes {
        match binary {
            true => change_bytes(&mut out, other, rng),
            false => change_text(&mut out, other, rng),
        }
        out.truncate(MAX_BYTES);
    }
    if !binary {
        // A cut may have split a character.
        out = String::from_utf8_lossy(&out).into_owned().into_bytes();
    }
    out
}

/// Splits a text into tokens: words, numbers, runs of spaces, single characters.
fn tokens(text: &str) -> Vec<(usize, usize)> {
    let kind = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 1,
        ' ' | '\t' => 2,
        _ => 0,
    };
    let mut out: Vec<(usize, usize)> = vec![];
    let mut last = 0;
    for (at, c) in text.char_indices() {
        let k = kind(c);
        match out.last_mut() {
            Some(t) if k != 0 && k == last => t.1 = at + c.len_utf8(),
            _ => out.push((at, at + c.len_utf8())),
        }
        last = k;
    }
    out
}

fn replace(out: &mut Vec<u8>, (from, to): (usize, usize), with: &[u8]) {
    out.splice(from..to, with.iter().copied());
}

/// Returns the bounds of a random line.
fn line(text: &str, rng: &mut Rng) -> (usize, usize) {
    let starts: Vec<usize> = std::iter::once(0)
        .chain(text.match_indices('\n').map(|m| m.0 + 1))
        .filter(|s| *s < text.len())
        .collect();
    let Some(i) = (!starts.is_empty()).then(|| rng.below(starts.len())) else { return (0, 0) };
    (starts[i], starts.get(i + 1).copied().unwrap_or(text.len()))
}

fn change_text(out: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let text = String::from_utf8_lossy(out).into_owned();
    *out = text.clone().into_bytes();
    let other = String::from_utf8_lossy(other);
    let all = tokens(&text);
    if all.is_empty() {
        out.extend(rng.pick(&PIECES).bytes());
        return;
    }
    let at = *rng.pick(&all);
    let word = |t: &&(usize, usize)| text[t.0..].starts_with(|c: char| c.is_alphabetic());
    let number = |t: &&(usize, usize)| text[t.0..].starts_with(|c: char| c.is_ascii_digit());
    match rng.below(14) {
        0 | 1 => {
            let numbers: Vec<_> = all.iter().filter(number).collect();
            if !numbers.is_empty() {
                let t = **rng.pick(&numbers);
                replace(out, t, rng.pick(&NUMBERS).as_bytes());
            }
        }
        2 | 3 => {
            let words: Vec<_> = all.iter().filter(word).collect();
            if !words.is_empty() {
                let (t, u) = (**rng.pick(&words), **rng.pick(&words));
                replace(out, t, &text.as_bytes()[u.0..u.1]);
            }
        }
        4 => replace(out, at, b""),
        5 => replace(out, (at.0, at.0), &text.as_bytes()[at.0..at.1]),
        6 => replace(out, (at.0, at.0), rng.pick(&PIECES).as_bytes()),
        7 => {
            let (from, to) = line(&text, rng);
            replace(out, (from, to), b"");
        }
        8 => {
            let ((from, to), (at, _)) = (line(&text, rng), line(&text, rng));
            replace(out, (at, at), &text.as_bytes()[from..to]);
        }
        9 => {
            let ((from, to), (at, _)) = (line(&other, rng), line(&text, rng));
            replace(out, (at, at), other[from..to].as_bytes());
        }
        10 => {
            // Changes the indentation.
            let (from, to) = line(&text, rng);
            let blanks = text[from..to].len() - text[from..to].trim_start_matches(' ').len();
            match rng.chance(50) {
                true => replace(out, (from, from), b"  "),
                false => replace(out, (from, from + blanks.min(2)), b""),
            }
        }
        11 => {
            // Repeats a piece many times.
            let piece = match rng.chance(50) {
                true => (*rng.pick(&PIECES)).to_owned(),
                false => {
                    let (from, to) = line(&text, rng);
                    text[from..to].to_owned()
                }
            };
            let times = [10, 200, 3000, 20_000][rng.below(4)].min(MAX_BYTES / piece.len().max(1));
            replace(out, (at.0, at.0), piece.repeat(times).as_bytes());
        }
        12 => out.truncate(at.0),
        _ => {
            let c = char::from_u32(rng.below(0x3000) as u32).unwrap_or('?');
            replace(out, (at.0, at.0), c.to_string().as_bytes());
        }
    }
}

fn change_bytes(out: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let n = out.len();
    let at = rng.below(n.max(1)).min(n);
    // Headers are at the beginning, directories of archives at the end.
    let at = match rng.below(4) {
        0 => at.min(128),
        1 => at.max(n.saturating_sub(256)).min(n),
        _ => at,
    };
    let upto = (at + 1 + rng.below(16)).min(n);
    match rng.below(9) {
        0 | 1 if at < n => out[at] = rng.draw() as u8,
        2 if at < n => out[at] ^= 1 << rng.below(8),
        3 => replace(out, (at, upto), b""),
        4 => {
            let part = out[at..upto].to_vec();
            replace(out, (at, at), &part);
        }
        5 => {
            // Overwrites a length or an offset.
            let values = [0u64, 1, 0xff, 0xffff, 1 << 31, u64::from(u32::MAX), 1 << 40, u64::MAX, n as u64];
            let bytes = rng.pick(&values).to_le_bytes();
            let width = [1, 2, 4, 8][rng.below(4)].min(n - at);
            out[at..at + width].copy_from_slice(&bytes[..width]);
        }
        6 => out.truncate(at),
        7 => {
            // Inserts words of a header.
            let text = [
                "'fortran_order': True",
                "'shape': (",
                "99999999999",
                "'descr': '<f8'",
                "{\"a\":",
                "(),",
                "\0\0\0\0",
            ];
            replace(out, (at, upto), rng.pick(&text).as_bytes());
        }
        _ => {
            let from = rng.below(other.len().max(1)).min(other.len());
            let part = &other[from..(from + rng.below(64)).min(other.len())];
            replace(out, (at, at), part);
        }
    }
}
