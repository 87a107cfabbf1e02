//! Perturbed machines: the machine that results from a perturbation and a seed.
//!
//! This module owns the drawing of random numbers. Every number depends only on the seed, the
//! entry, the effect, and the rank or link. So another entry, or another rank in an entry, does not
//! change the other numbers. The description of a perturbation is in
//! [`kbc_machine::topology::perturb`]. The engine simulates a perturbed machine like any other.

use kbc_diag::{Diagnostic, Span};
use kbc_machine::topology::perturb::{Distribution, DrawnQuantity, Perturb, PerturbTargets, RankName};
use kbc_machine::topology::{DeviceId, LinkId, MAX_OWN_LINKS, Node, Topology};
use kbc_numerics::rng::{Rng, mix64};

/// The purpose of a drawn number. Purposes have independent numbers.
#[derive(Clone, Copy)]
enum Purpose {
    Choice = 1,
    Slow = 2,
    Added = 3,
}

/// Returns the perturbed machine of a run.
///
/// # Errors
/// Returns E465 for ranks or links that the machine does not have, for more of them than it has,
/// and for more links than can have rates of their own. Returns E447 for links selected by name
/// that do not exist.
pub fn perturbed(topo: &Topology, perturb: &Perturb, seed: u64) -> Result<Topology, Diagnostic> {
    let mut out = topo.clone();
    for (i, entry) in perturb.stragglers.iter().enumerate() {
        let draws = Draws { seed, entry: 2 * i as u64 };
        for id in draws.ranks(topo, &entry.who, perturb.span)? {
            let mut pace = out.pace(DeviceId(id));
            if let Some(spread) = &entry.slow {
                let factor = draws.value(spread, DrawnQuantity::Factor, Purpose::Slow, id);
                pace.slower.iter_mut().zip(entry.units).filter(|(_, u)| *u).for_each(|(s, _)| *s *= factor);
            }
            if let Some(spread) = &entry.late {
                pace.late_ns += draws.value(spread, DrawnQuantity::Time, Purpose::Added, id);
            }
            out.set_pace(DeviceId(id), pace)?;
        }
    }
    for (i, entry) in perturb.links.iter().enumerate() {
        let draws = Draws { seed, entry: 2 * i as u64 + 1 };
        for id in draws.links(topo, &entry.who, perturb.span)? {
            let mut rate = out.rate(LinkId(id));
            if let Some(spread) = &entry.slow {
                rate.bandwidth /= draws.value(spread, DrawnQuantity::Factor, Purpose::Slow, id);
            }
            if let Some(spread) = &entry.latency {
                rate.latency_ns += draws.value(spread, DrawnQuantity::Time, Purpose::Added, id);
            }
            out.set_rate(LinkId(id), rate)?;
        }
    }
    Ok(out)
}

/// The random numbers of an entry in a run.
struct Draws {
    seed: u64,
    entry: u64,
}

impl Draws {
    fn rng(&self, purpose: Purpose, element: u32) -> Rng {
        let place = mix64(self.entry << 2 | purpose as u64) ^ u64::from(element);
        Rng::new(mix64(self.seed) ^ mix64(place))
    }

    fn ranks(
        &self,
        topo: &Topology,
        who: &PerturbTargets<RankName>,
        at: Span,
    ) -> Result<Vec<u32>, Diagnostic> {
        let n = topo.device_count();
        let PerturbTargets::These(names) = who else { return self.some(n as u64, who, "ranks", at) };
        let find = |name: &RankName| match name {
            RankName::Number(k) => u32::try_from(*k).ok().filter(|k| (*k as usize) < n),
            RankName::At(c) => topo.find(&Node::Device(c.clone())).or_else(|| topo.device(c)).map(|d| d.0),
        };
        let mut out = vec![];
        for name in names {
            match find(&name.node) {
                Some(id) => out.push(id),
                None => {
                    return Err(Diagnostic::error("E465", format!("{} has no such rank", topo.shape()))
                        .primary(name.span, "this rank")
                        .help(format!(
                            "write a rank from 0 to {}, or coordinates such as {}",
                            n - 1,
                            topo.name(DeviceId(n as u32 - 1))
                        )));
                }
            }
        }
        Ok(once(out))
    }

    fn links(
        &self,
        topo: &Topology,
        who: &PerturbTargets<kbc_machine::topology::LinkSet>,
        at: Span,
    ) -> Result<Vec<u32>, Diagnostic> {
        let PerturbTargets::These(sets) = who else { return self.some(topo.link_count(), who, "links", at) };
        let mut out = vec![];
        for set in sets {
            out.extend(topo.select(set)?.iter().map(|l| l.0));
        }
        Ok(once(out))
    }

    /// Chooses some of the numbers below `n`, in ascending order: those with the smallest random
    /// keys.
    fn some<T>(&self, n: u64, who: &PerturbTargets<T>, what: &str, at: Span) -> Result<Vec<u32>, Diagnostic> {
        let (count, at) = match who {
            PerturbTargets::Share(share) => (((n as f64 * share).ceil() as u64).min(n), at),
            PerturbTargets::Count(count) => (count.node, count.span),
            PerturbTargets::These(_) => (0, at),
        };
        let fault = |title: String| Err(Diagnostic::error("E465", title).primary(at, "here"));
        if count > n {
            return fault(format!("{count} {what} cannot be perturbed: the machine has {n}"));
        }
        if count > MAX_OWN_LINKS {
            return fault(format!("{count} {what} cannot be perturbed (limit: {MAX_OWN_LINKS})"));
        }
        if n > 1 << 26 {
            return fault(format!("{what} cannot be chosen at random: the machine has {n} (limit: 2^26)"));
        }
        // `n` fits into 32 bits because of the check above.
        let mut keys: Vec<(u64, u32)> =
            (0..n as u32).map(|i| (self.rng(Purpose::Choice, i).bits(), i)).collect();
        if (count as usize) < keys.len() {
            keys.select_nth_unstable(count as usize);
        }
        let mut out: Vec<u32> = keys[..count as usize].iter().map(|k| k.1).collect();
        out.sort_unstable();
        Ok(out)
    }

    fn value(&self, spread: &Distribution, of: DrawnQuantity, purpose: Purpose, element: u32) -> f64 {
        draw(spread, of.least(), &mut self.rng(purpose, element))
    }
}

/// Returns the sorted distinct numbers.
fn once(mut list: Vec<u32>) -> Vec<u32> {
    list.sort_unstable();
    list.dedup();
    list
}

/// Draws uniformly from 0..1, never 0 or 1.
fn unit(rng: &mut Rng) -> f64 {
    ((rng.bits() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// Draws from the standard normal distribution (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    let (u, v) = (unit(rng), unit(rng));
    libm::sqrt(-2.0 * libm::log(u)) * libm::cos(2.0 * std::f64::consts::PI * v)
}

fn draw(spread: &Distribution, least: f64, rng: &mut Rng) -> f64 {
    match *spread {
        Distribution::Constant(x) => x,
        Distribution::Uniform(a, b) => a + (b - a) * unit(rng),
        Distribution::Exponential(mean) => least - (mean - least) * libm::log(unit(rng)),
        Distribution::Lognormal(median, sigma) => least + (median - least) * libm::exp(sigma * normal(rng)),
        Distribution::Normal(mean, deviation) => truncated(mean, deviation, mean - least, rng),
    }
}

/// Draws from the normal distribution within `reach` of its mean, by rejection. Candidates come
/// from the normal distribution if most of it is inside, and from the interval if most of it is
/// outside. At least 60 % of the candidates are accepted in both cases.
fn truncated(mean: f64, deviation: f64, reach: f64, rng: &mut Rng) -> f64 {
    if deviation == 0.0 || reach == 0.0 {
        return mean;
    }
    loop {
        let off = if deviation <= reach {
            normal(rng) * deviation
        } else {
            let off = reach * (2.0 * unit(rng) - 1.0);
            let z = off / deviation;
            if unit(rng) > libm::exp(-z * z / 2.0) {
                continue;
            }
            off
        };
        if off.abs() <= reach {
            return mean + off;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(spread: Distribution, of: DrawnQuantity) -> Vec<f64> {
        let draws = Draws { seed: 5, entry: 0 };
        let mut all: Vec<f64> = (0..40_000).map(|i| draws.value(&spread, of, Purpose::Slow, i)).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    fn mean(all: &[f64]) -> f64 {
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn distributions_are_what_they_say() {
        let uniform = many(Distribution::Uniform(1.0, 3.0), DrawnQuantity::Factor);
        assert!(uniform[0] >= 1.0 && uniform[39_999] <= 3.0 && (mean(&uniform) - 2.0).abs() < 0.02);
        let exponential = many(Distribution::Exponential(2.0), DrawnQuantity::Factor);
        assert!(exponential[0] >= 1.0 && (mean(&exponential) - 2.0).abs() < 0.02);
        // The median of an exponential distribution is ln 2 of its mean.
        assert!((exponential[20_000] - 1.0 - std::f64::consts::LN_2).abs() < 0.02);
        let lognormal = many(Distribution::Lognormal(10.0, 0.5), DrawnQuantity::Time);
        assert!(lognormal[0] >= 0.0 && (lognormal[20_000] - 10.0).abs() < 0.2);
        assert!((mean(&lognormal) - 10.0 * (0.125f64).exp()).abs() < 0.2);
        for deviation in [0.1, 0.5, 1.0, 3.0, 1e9] {
            let normal = many(Distribution::Normal(2.0, deviation), DrawnQuantity::Factor);
            assert!(normal[0] >= 1.0 && normal[39_999] <= 3.0, "{deviation}");
            assert!((mean(&normal) - 2.0).abs() < 0.02, "{deviation}: {}", mean(&normal));
        }
        let narrow = many(Distribution::Normal(2.0, 0.1), DrawnQuantity::Factor);
        let variance = narrow.iter().map(|x| (x - 2.0).powi(2)).sum::<f64>() / 40_000.0;
        assert!((variance.sqrt() - 0.1).abs() < 0.002, "{variance}");
        // A distribution much wider than its interval is nearly uniform in it: the variance of an
        // interval of half width 1 is 1/3.
        let wide = many(Distribution::Normal(2.0, 1e9), DrawnQuantity::Factor);
        let variance = wide.iter().map(|x| (x - 2.0).powi(2)).sum::<f64>() / 40_000.0;
        assert!((variance - 1.0 / 3.0).abs() < 0.01, "{variance}");
    }
}
