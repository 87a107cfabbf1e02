//! Nearest names, for the hint "did you mean".
//!
//! This module owns the distance and the threshold. The caller supplies the list of candidates.

/// Returns the number of single-character insertions, deletions, replacements and swaps of
/// neighbours that turn one word into the other (the Damerau-Levenshtein distance in its form
/// "optimal string alignment").
pub fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row[j] = best;
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

/// Returns a number that the distance of two words is not below, from their letters alone. It takes
/// no memory and little time.
fn at_least(a: &str, b: &str) -> usize {
    let by_length = a.chars().count().abs_diff(b.chars().count());
    if !a.is_ascii() || !b.is_ascii() {
        return by_length;
    }
    // A change adds at most one letter and removes at most one.
    let mut counts = [0i32; 128];
    a.bytes().for_each(|c| counts[usize::from(c)] += 1);
    b.bytes().for_each(|c| counts[usize::from(c)] -= 1);
    let more: i32 = counts.iter().filter(|n| **n > 0).sum();
    let less: i32 = counts.iter().filter(|n| **n < 0).sum();
    more.max(-less).unsigned_abs() as usize
}

/// The longest name, in bytes, that is compared. Nobody mistypes a longer name, and the time to
/// compare two names grows with the product of their lengths.
const LONGEST: usize = 200;

/// Returns the candidate that is closest to `name`, if one is close enough: at most a third of the
/// characters of the longer word may differ, but always one character may. Of equally close
/// candidates, the first is returned. If none is close enough, the function returns a candidate
/// whose words (the parts between `_`) all occur in `name`, or a candidate that contains all words
/// of `name`.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    let mut related: Option<(usize, &str)> = None;
    for candidate in candidates {
        if name.len().max(candidate.len()) > LONGEST {
            continue;
        }
        let common = shared(name, candidate);
        if common > 0 && related.is_none_or(|(most, _)| common > most) {
            related = Some((common, candidate));
        }
        let lengths = [name.chars().count(), candidate.chars().count()];
        let allowed = (lengths[0].max(lengths[1]) / 3).max(1);
        // Any two one-letter names are one replacement apart, so their distance means nothing.
        let meaningful = |d: usize| d < lengths[0].min(lengths[1]);
        let better = |d: usize| d <= allowed && meaningful(d) && best.is_none_or(|(e, _)| d < e);
        if better(at_least(name, candidate)) {
            let d = distance(name, candidate);
            if better(d) {
                best = Some((d, candidate));
            }
        }
    }
    best.or(related).map(|(_, c)| c)
}

/// Returns the number of letters in the words that two names share, provided that all words of the
/// shorter name occur in the longer one and that these are at least two words or at least 6
/// letters. Otherwise returns 0.
fn shared(a: &str, b: &str) -> usize {
    fn words(s: &str) -> impl Iterator<Item = &str> {
        s.split('_').filter(|w| !w.is_empty())
    }
    if words(a).count() == words(b).count() {
        return 0;
    }
    let lower = |s: &str| words(s).map(str::to_lowercase).collect::<Vec<_>>();
    let (a, b) = (lower(a), lower(b));
    let (less, more) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    let letters = less.iter().map(String::len).sum();
    let telling = less.len() > 1 || letters >= 6;
    if telling && less.len() < more.len() && less.iter().all(|w| more.contains(w)) { letters } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, d) in
            [("", "", 0), ("ring", "ring", 0), ("rnig", "ring", 1), ("ring", "rings", 1), ("", "abc", 3)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (d, d), "{a} {b}");
        }
    }

    #[test]
    fn no_distance_is_below_its_bound() {
        let letters = ["a", "b", "_", "ä"];
        let words: Vec<String> = (0..4usize.pow(4) * 5)
            .map(|n| (0..n % 5).map(|i| letters[n / 5 / 4usize.pow(i as u32) % 4]).collect())
            .collect();
        for (i, a) in words.iter().enumerate() {
            for b in words.iter().skip(i % 7).step_by(7) {
                assert!(at_least(a, b) <= distance(a, b), "{a} {b}");
            }
        }
        assert_eq!([at_least("ring", "rings"), at_least("ring", "gnir"), at_least("ab", "cd")], [1, 0, 2]);
    }

    #[test]
    fn nearest_names() {
        assert_eq!(nearest("rnig", ["direct", "ring", "line"]), Some("ring"));
        assert_eq!(nearest("tree", ["direct", "ring"]), None);
        assert_eq!(nearest("x", ["y"]), None);
        let long = "a".repeat(LONGEST + 1);
        assert_eq!(nearest(&long, [&*long]), None, "too long to be mistyped");
        assert_eq!(nearest(&long[..LONGEST], [&long[1..]]), Some(&long[1..]));
        let layers = ["attention", "column_linear", "row_linear", "layer_norm", "all_reduce"];
        for (name, meant) in [
            ("column_parallel_linear", Some("column_linear")),
            ("RowParallel_linear", None),
            ("row_parallel_linear", Some("row_linear")),
            ("multi_head_attention", Some("attention")),
            ("all_reduce_sum", Some("all_reduce")),
            ("norm_of_a", None),
        ] {
            assert_eq!(nearest(name, layers), meant, "{name}");
        }
    }
}
