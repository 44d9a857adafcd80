//! The readable ones among a few descriptors that a thread waits for together.

/// Indices of the readable descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready(u8);

impl Ready {
    /// The most descriptors.
    pub(crate) const MAX_DESCRIPTORS: usize = 8;

    /// Whether any descriptor is readable.
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether the descriptor at this index is readable.
    pub(crate) fn has(self, place: usize) -> bool {
        place < Self::MAX_DESCRIPTORS && self.0 & 1 << place != 0
    }

    /// Marks the descriptor at this index as readable.
    pub(crate) fn add(&mut self, place: usize) {
        if place < Self::MAX_DESCRIPTORS {
            self.0 |= 1 << place;
        }
    }
}
