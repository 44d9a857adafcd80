//! The changes of a row of nodes that the base has in order: removed positions and added nodes.

use std::ops::Range;

use super::tree::{Entry, Tree, by_key};

/// The changes of one row.
#[derive(Clone, Default)]
pub(super) struct RowChange {
    /// Removed positions, in runs as long as possible, so that a search skips a run at once: the first
    /// position of a run → the one after its last.
    gone: Tree,
    gone_count: usize,
    /// Nodes of the overlay that are in the row but not in the base's row, by the keys of the row.
    pub(super) came: Tree,
}

impl RowChange {
    /// Number of nodes in the row; the base's row has `base` nodes.
    pub(super) fn len(&self, base: usize) -> usize {
        base - self.gone_count + self.came.len()
    }

    /// Number of removed positions.
    pub(super) fn gone_count(&self) -> usize {
        self.gone_count
    }

    /// The run that contains a position: its first position, and the one after its last.
    fn run(&self, position: usize) -> Option<(usize, usize)> {
        let run = self.gone.floor(by_key(position as u64))?;
        (position < run.value as usize).then_some((run.key as usize, run.value as usize))
    }

    /// The last position before `end` that is not removed.
    pub(super) fn last_before(&self, end: usize) -> Option<usize> {
        let last = end.checked_sub(1)?;
        match self.run(last) {
            Some((first, _)) => first.checked_sub(1),
            None => Some(last),
        }
    }

    /// The first position from `start` on that is not removed; it may be past the end of the row.
    pub(super) fn first_from(&self, start: usize) -> usize {
        self.run(start).map_or(start, |(_, end)| end)
    }

    /// Marks a position, which must not be removed yet, as removed.
    pub(super) fn go(&mut self, position: usize) {
        self.gone_count += 1;
        let before = position.checked_sub(1).and_then(|before| self.run(before));
        let after = self.run(position + 1);
        if let Some((first, _)) = after {
            self.gone.remove(by_key(first as u64));
        }
        self.put(before.map_or(position, |(first, _)| first), after.map_or(position + 1, |(_, end)| end));
    }

    /// Restores a removed position.
    pub(super) fn come_back(&mut self, position: usize) {
        let Some((first, end)) = self.run(position) else { return };
        self.gone_count -= 1;
        self.gone.remove(by_key(first as u64));
        if first < position {
            self.put(first, position);
        }
        if position + 1 < end {
            self.put(position + 1, end);
        }
    }

    fn put(&mut self, first: usize, end: usize) {
        // There are no more nodes than addresses, which have 32 bits.
        self.gone.insert(Entry { key: first as u64, value: end as u32 }, by_key(first as u64));
    }

    /// Returns the positions that are removed here and not in `other`, or there and not here, in runs.
    pub(super) fn gone_in_one(&self, other: &RowChange) -> Vec<Range<usize>> {
        let mut ends = Vec::new();
        for (row, other) in [(self, other), (other, self)] {
            row.gone.beyond(&other.gone, &mut |run| ends.extend([run.key as usize, run.value as usize]));
        }
        // What is removed in both begins and ends twice.
        ends.sort_unstable();
        let runs = ends.as_chunks().0.iter().map(|[first, end]| *first..*end);
        runs.filter(|run| !run.is_empty()).collect()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.gone.memory() + self.came.memory()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn positions_go_and_come_back(steps in prop::collection::vec((0usize..40, any::<bool>()), 0..300)) {
            let (mut row, mut there) = (RowChange::default(), [true; 40]);
            let mut kept = vec![(row.clone(), there)];
            for (position, goes) in steps {
                match (goes, there[position]) {
                    (true, true) => row.go(position),
                    (false, false) => row.come_back(position),
                    _ => continue,
                }
                there[position] = !goes;
                let left: Vec<usize> = (0..40).filter(|at| there[*at]).collect();
                prop_assert_eq!(row.len(40), left.len());
                for at in 0..=40 {
                    prop_assert_eq!(row.last_before(at), left.iter().copied().rfind(|p| *p < at));
                    prop_assert_eq!(row.first_from(at), left.iter().copied().find(|p| *p >= at).unwrap_or(40));
                }
                for (old, was) in &kept {
                    let runs = old.gone_in_one(&row).into_iter().flatten();
                    prop_assert!(runs.eq((0..40).filter(|at| was[*at] != there[*at])));
                }
                kept.push((row.clone(), there));
            }
        }
    }
}
