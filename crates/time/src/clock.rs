//! Simulated time: fixed-point numbers whose sums are exact and whose quotients are never rounded
//! down.
//!
//! A unit is 2^-64 ns. A quotient (bytes over bandwidth) is rounded *up* to a unit. So no simulated
//! time is below what a link can carry, and 10^6 quotients together are off by less than 10^-13 ns.

/// A point in time or a duration, in units of 2^-64 ns. Sums saturate at [`Time::MAX`], which is
/// far above [`Time::LIMIT`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub(super) struct Time(u128);

/// Returns m and e of a positive finite number `m * 2^e` with odd m.
fn parts(x: f64) -> (u128, i32) {
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> 52) as i32 & 0x7ff, bits & ((1 << 52) - 1));
    let (m, e) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
    let zeros = m.trailing_zeros();
    (u128::from(m >> zeros), e + zeros as i32)
}

/// `ceil(n / 2^d)`
fn ceil_shift(n: u128, d: u32) -> u128 {
    match n.checked_shr(d) {
        Some(q) => q + u128::from(q << d != n),
        None => u128::from(n > 0),
    }
}

impl Time {
    /// The start of the simulation.
    pub(super) const ZERO: Time = Time(0);
    /// The value at which sums saturate.
    pub(super) const MAX: Time = Time(u128::MAX);
    /// 2^63 ns, or 292 years. Simulations that reach it are rejected.
    pub(super) const LIMIT: Time = Time(1 << 127);

    /// Returns the duration of an amount at a rate per second, rounded up. Zero at an infinite
    /// rate.
    pub(super) fn of(amount: u64, per_second: f64) -> Time {
        if amount == 0 || per_second == f64::INFINITY {
            return Time::ZERO;
        }
        let (m, e) = parts(per_second);
        let n = u128::from(amount) * 1_000_000_000;
        // ceil(n * 2^(64 - e) / m), by long division 64 bits at a time: m is below 2^53.
        let Ok(mut left) = u32::try_from(64 - e) else {
            return Time(ceil_shift(n.div_ceil(m), (e - 64) as u32));
        };
        let (mut q, mut r) = (n / m, n % m);
        while left > 0 {
            let step = left.min(64);
            if q.leading_zeros() <= step {
                return Time::MAX;
            }
            (q, r) = ((q << step) + (r << step) / m, (r << step) % m);
            left -= step;
        }
        Time(q + u128::from(r > 0))
    }

    /// Converts a non-negative number of nanoseconds, rounded up.
    pub(super) fn from_ns(ns: f64) -> Time {
        if ns <= 0.0 {
            return Time::ZERO;
        }
        if ns >= (1u64 << 63) as f64 {
            return Time::MAX;
        }
        let (m, e) = parts(ns);
        match u32::try_from(e + 64) {
            Ok(up) => Time(m << up),
            Err(_) => Time(ceil_shift(m, (-64 - e) as u32)),
        }
    }

    /// Returns the nearest `f64` number of nanoseconds.
    pub(super) fn ns(self) -> f64 {
        self.0 as f64 / (1u128 << 64) as f64
    }

    /// Multiplies by an integer.
    pub(super) fn times(self, n: u64) -> Time {
        Time(self.0.saturating_mul(n.into()))
    }

    /// Rounds down to a multiple of `quantum`, which is above zero.
    pub(super) fn down_to(self, quantum: Time) -> Time {
        Time(self.0 - self.0 % quantum.0.max(1))
    }

    /// Rounds up to a multiple of `quantum`, which is above zero.
    pub(super) fn up_to(self, quantum: Time) -> Time {
        let q = quantum.0.max(1);
        Time(self.0.div_ceil(q).saturating_mul(q))
    }

    /// Returns a hash below `n`, a power of two up to 2^16.
    pub(super) fn hash(self, n: usize) -> usize {
        let mixed = ((self.0 >> 64) as u64 ^ self.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 48) as usize & (n - 1)
    }

    /// Returns the duration since `other`. Zero if `other` is later.
    pub(super) fn since(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl std::ops::Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

/// A rate with a cache of durations. Messages come in few sizes, and a 128-bit division is slow.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    per_second: f64,
    known: [(u64, Time); 8],
}

impl Rate {
    pub(super) fn new(per_second: f64) -> Rate {
        Rate { per_second, known: [(0, Time::ZERO); 8] }
    }

    /// Returns [`Time::of`] the amount.
    pub(super) fn time(&mut self, amount: u64) -> Time {
        // Fibonacci hashing: neighbouring sizes get different entries.
        let place = &mut self.known[(amount.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61) as usize];
        if place.0 != amount {
            *place = (amount, Time::of(amount, self.per_second));
        }
        place.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_are_exact_or_rounded_up() {
        assert_eq!(Time::of(9600, 50e9), Time::from_ns(192.0));
        assert_eq!(Time::of(1, 1e9), Time(1 << 64));
        assert_eq!(Time::of(7, f64::INFINITY), Time::ZERO);
        // A third of a nanosecond: one unit more than the floor of 2^64 / 3.
        assert_eq!(Time::of(1, 3e9).0, (1u128 << 64) / 3 + 1);
        for (amount, rate) in
            [(1u64, 3e9), (12_345, 33.3e9), (u64::MAX, 1.5e12), (1 << 10, 7e-3), (5, 1e300), (3, 2e25)]
        {
            let t = Time::of(amount, rate);
            let ns = amount as f64 * 1e9 / rate;
            assert!(t > Time::ZERO);
            // One unit is 2^-64 ns.
            assert!((t.ns() - ns).abs() <= 1e-15 * ns + Time(1).ns(), "{amount} {rate}: {} {ns}", t.ns());
        }
        assert_eq!(Time::of(u64::MAX, 1e-300), Time::MAX);
    }

    #[test]
    fn nanoseconds_come_back() {
        for ns in [0.0, 0.1, 500.0, 1e-3, 123_456_789.123, 9e18] {
            assert_eq!(Time::from_ns(ns).ns(), ns);
        }
        assert_eq!(Time::from_ns(1e-40), Time(1));
        assert_eq!(Time::from_ns(1e40), Time::MAX);
        assert_eq!(Time::MAX + Time(1), Time::MAX);
    }

    #[test]
    fn rounding_down_keeps_multiples() {
        let q = Time::from_ns(1.0);
        for (ns, down) in [(0.0, 0.0), (0.9, 0.0), (1.0, 1.0), (805.17, 805.0)] {
            assert_eq!(Time::from_ns(ns).down_to(q), Time::from_ns(down));
        }
        assert_eq!(Time::from_ns(7.4).down_to(Time::from_ns(2.5)), Time::from_ns(5.0));
    }

    #[test]
    fn a_rate_remembers_nothing_wrong() {
        let mut rate = Rate::new(3e9);
        for amount in (0..100).chain((0..100).rev()) {
            assert_eq!(rate.time(amount), Time::of(amount, 3e9));
        }
    }
}
