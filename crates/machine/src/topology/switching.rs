//! The setting `switch`: whether switches combine and copy messages.

use std::fmt;

use kbc_diag::{Diagnostic, Spanned};

use super::value::{SettingValue, word};
use super::{LinkId, Topology};

/// What switches do with messages besides forwarding them. All switches of a machine do the same.
///
/// NVIDIA's SHARP (R. Graham et al., "Scalable hierarchical aggregation protocol (SHARP)", COMHPC
/// 2016) and NVLink SHARP do both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Switching {
    /// Messages that a rank fetches to be combined are combined where their routes meet.
    pub reduce: bool,
    /// A message for several ranks passes the links that their routes share once.
    pub multicast: bool,
}

impl Switching {
    /// The words of the setting, each with what it states.
    const WORDS: [(&'static str, Switching); 3] = [
        ("forward", Switching { reduce: false, multicast: false }),
        ("reduce", Switching { reduce: true, multicast: false }),
        ("multicast", Switching { reduce: false, multicast: true }),
    ];

    /// Checks whether switches neither combine nor copy.
    pub fn only_forwards(self) -> bool {
        self == Switching::default()
    }

    /// Parses the values of the setting.
    ///
    /// # Errors
    /// Returns E445 for an unknown word, a word that is given twice, and `forward` beside others.
    pub(super) fn parse(
        name: &Spanned<String>,
        values: &[Spanned<SettingValue>],
    ) -> Result<Switching, Diagnostic> {
        let help = "with `switch: reduce, multicast` switches add what a rank fetches from several ranks, and copy what goes to several ranks; `switch: forward` is the default";
        let mut out = Switching::default();
        for (i, value) in values.iter().enumerate() {
            let one = word(name, std::slice::from_ref(value), &Switching::WORDS, help)?;
            let said =
                Switching { reduce: out.reduce && one.reduce, multicast: out.multicast && one.multicast };
            if !said.only_forwards() || one.only_forwards() && values.len() > 1 {
                let title = format!("value {} of `switch` does not go with the ones before it", i + 1);
                return Err(Diagnostic::error("E445", title).primary(value.span, "here").help(help));
            }
            out = Switching { reduce: out.reduce || one.reduce, multicast: out.multicast || one.multicast };
        }
        if values.is_empty() {
            word(name, values, &Switching::WORDS, help)?;
        }
        Ok(out)
    }
}

impl fmt::Display for Switching {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.reduce, self.multicast) {
            (true, true) => "reduce, multicast",
            (true, false) => "reduce",
            (false, true) => "multicast",
            (false, false) => "forward",
        })
    }
}

impl Topology {
    /// Checks whether a link ends at a switch or relay, which may combine and copy messages.
    pub fn ends_at_switch(&self, link: LinkId) -> bool {
        self.link(link).is_some_and(|l| l.to.0 as usize >= self.device_count())
    }
}
