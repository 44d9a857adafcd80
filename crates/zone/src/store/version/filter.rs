//! A filter of the names and addresses that may have changed. Most lookups in a changed zone need only this
//! test.
//!
//! Each bit covers several numbers, so a set bit may have been set for another number. The filter has two
//! bits for each node of the base, so few are set by the time a new base is made. It never grows: its pages
//! are allocated as needed, and a change copies the pages it modifies.

use std::sync::Arc;

/// Bits of a page: four KiB.
const PAGE_BITS: u32 = 15;
/// Minimum and maximum number of bits, as powers of two.
const SIZES: std::ops::RangeInclusive<u32> = PAGE_BITS..=24;

type Page = [u64; 1 << (PAGE_BITS - 6)];

/// A set of numbers with some false positives.
#[derive(Clone)]
pub(super) struct Filter {
    pages: Box<[Option<Arc<Page>>]>,
    /// The bit shift that turns a number into the index of its bit.
    shift: u32,
}

impl Filter {
    /// Creates an empty filter for a base with `nodes` nodes.
    pub(super) fn new(nodes: usize) -> Filter {
        let bits = (2 * nodes).next_power_of_two().ilog2().clamp(*SIZES.start(), *SIZES.end());
        Filter { pages: vec![None; 1 << (bits - PAGE_BITS)].into(), shift: u64::BITS - bits }
    }

    /// Whether the number may have been added. The upper bits of numbers must be evenly spread.
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        let bit = (number >> self.shift) as usize;
        match &self.pages[bit >> PAGE_BITS] {
            Some(page) => page[bit / 64 % page.len()] >> (bit % 64) & 1 != 0,
            None => false,
        }
    }

    pub(super) fn add(&mut self, number: u64) {
        let bit = (number >> self.shift) as usize;
        let page = self.pages[bit >> PAGE_BITS].get_or_insert_with(|| Arc::new([0; size_of::<Page>() / 8]));
        let page = Arc::make_mut(page);
        page[bit / 64 % page.len()] |= 1 << (bit % 64);
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        size_of_val(&*self.pages) + self.pages.iter().flatten().count() * size_of::<Page>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_there_and_little_else() {
        for nodes in [0, 1, 70_000, 4_000_000, usize::MAX / 8] {
            let mut filter = Filter::new(nodes);
            let number = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            assert!(!filter.has(number(1)));
            let empty = filter.clone();
            (0..2000).for_each(|i| filter.add(number(i)));
            assert!((0..2000).all(|i| filter.has(number(i))));
            let wrong = (2000..12_000).filter(|&i| filter.has(number(i))).count();
            assert!(wrong < 1000, "{nodes}: {wrong} of 10,000");
            assert!((0..2000).all(|i| !empty.has(number(i))), "the clone stays");
        }
    }
}
