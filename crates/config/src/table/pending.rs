//! Keys whose change waits for the next start: each reload compares the new configuration with the one in
//! force, key by key, takes over the live keys, and returns the rest.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::read::At;
use super::{ConfigSection, Effect, KeyValue};

/// A key whose configured value differs from the one in force since the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingKey {
    /// Its section, such as `[server]`.
    pub section: String,
    /// The number of the block, from 1, in sections that may occur several times: that of the configuration,
    /// or that of the running server if the configuration has no such block any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<usize>,
    /// Its name.
    pub key: String,
    /// The value in force as TOML; `None` if the key is unset or the section is missing.
    pub running: Option<String>,
    /// The value that the next start would use, in the same form.
    pub configured: Option<String>,
}

/// Prints a sentence without a full stop.
impl fmt::Display for PendingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {}", self.key, self.section)?;
        if let Some(number) = self.block {
            write!(f, " (block {number})")?;
        }
        let [running, configured] =
            [&self.running, &self.configured].map(|value| value.as_deref().unwrap_or("unset"));
        write!(f, " changed from {running} to {configured}; this takes effect at the next start")
    }
}

/// Takes over the live keys of a section that always exists.
pub fn adopt<T: ConfigSection>(running: &mut At<T>, new: At<T>, pending: &mut Vec<PendingKey>) {
    compare::<T>(fixed(&**running), fixed(&*new), None, pending);
    running.value.take_live(new.value);
}

/// Takes over the live keys of a section that may be missing. A section appears or disappears at the next
/// start, unless all its keys are live.
pub fn adopt_option<T: ConfigSection>(
    running: &mut Option<At<T>>,
    new: Option<At<T>>,
    pending: &mut Vec<PendingKey>,
) {
    match (running, new) {
        (running, new) if all_live::<T>() => *running = new,
        (Some(running), Some(new)) => adopt(running, new, pending),
        (Some(running), None) => compare::<T>(whole(&**running), Vec::new(), None, pending),
        (None, Some(new)) => compare::<T>(Vec::new(), whole(&*new), None, pending),
        (None, None) => {}
    }
}

/// Takes over the live keys of blocks. The number of blocks and their restart keys change at the next start;
/// a block is matched by its restart keys, whatever its position. Blocks whose keys are all live are
/// replaced.
pub fn adopt_blocks<T: ConfigSection>(
    running: &mut Vec<At<T>>,
    new: Vec<At<T>>,
    pending: &mut Vec<PendingKey>,
) {
    if all_live::<T>() {
        *running = new;
        return;
    }
    let mut new: Vec<Option<At<T>>> = new.into_iter().map(Some).collect();
    let mut changed = Vec::new();
    for (number, block) in (1..).zip(running) {
        let wanted = fixed(&**block);
        let same = |other: &&mut Option<At<T>>| other.as_ref().is_some_and(|o| fixed(&**o) == wanted);
        match new.iter_mut().find(same).and_then(Option::take) {
            Some(same) => block.value.take_live(same.value),
            None => changed.push((number, block)),
        }
    }
    let mut rest = (1..).zip(new).filter_map(|(number, block)| Some((number, block?)));
    for (number, block) in changed {
        match rest.next() {
            Some((number, new)) => {
                compare::<T>(fixed(&**block), fixed(&*new), Some(number), pending);
                block.value.take_live(new.value);
            }
            None => compare::<T>(whole(&**block), Vec::new(), Some(number), pending),
        }
    }
    for (number, block) in rest {
        compare::<T>(Vec::new(), whole(&*block), Some(number), pending);
    }
}

fn all_live<T: ConfigSection>() -> bool {
    T::describe().iter().all(|key| key.effect == Effect::Live)
}

/// Returns the keys that keep their value until the next start.
fn fixed<T: ConfigSection>(section: &T) -> Vec<KeyValue> {
    section.values().into_iter().filter(|key| key.effect == Effect::Restart).collect()
}

/// Returns the key that represents a section present on one side only: the first one that is set.
fn whole<T: ConfigSection>(section: &T) -> Vec<KeyValue> {
    fixed(section).into_iter().find(|key| key.value.is_some()).into_iter().collect()
}

/// Adds the keys that differ to `pending`; a side without keys has no such section.
fn compare<T: ConfigSection>(
    running: Vec<KeyValue>,
    configured: Vec<KeyValue>,
    block: Option<usize>,
    pending: &mut Vec<PendingKey>,
) {
    let keys: Vec<&str> =
        if running.is_empty() { &configured } else { &running }.iter().map(|key| key.key).collect();
    let values = |side: Vec<KeyValue>| side.into_iter().map(|key| key.value).chain(std::iter::repeat(None));
    for ((key, running), configured) in keys.into_iter().zip(values(running)).zip(values(configured)) {
        if running != configured {
            pending.push(PendingKey {
                section: T::HEADER.into(),
                block,
                key: key.into(),
                running,
                configured,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::keys;

    keys! {
        /// A section without restart keys.
        struct Live in "[live]" {
            /// A key.
            live "a" a: bool = false, example true;
        }
    }

    #[test]
    fn sections_without_restart_keys_come_and_go_at_a_reload() {
        let (mut section, mut blocks, mut pending) = (None, Vec::new(), Vec::new());
        let on = || At::unwritten(Live { a: At::unwritten(true) });
        adopt_option(&mut section, Some(on()), &mut pending);
        adopt_blocks(&mut blocks, vec![on(), on()], &mut pending);
        assert_eq!((&section, blocks.len()), (&Some(on()), 2));
        adopt_option(&mut section, None, &mut pending);
        adopt_blocks(&mut blocks, Vec::new(), &mut pending);
        assert_eq!((section, blocks.len(), pending), (None, 0, vec![]));
    }
}
