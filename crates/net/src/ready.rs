//! Which of a few descriptors that were waited for together can be read from.

/// Places, in the order of the descriptors, of those that can be read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ready(u8);

impl Ready {
    /// The most descriptors that there may be.
    pub(crate) const MAX_DESCRIPTORS: usize = 8;

    /// Whether there is any.
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    /// Whether the descriptor at this place is among them.
    pub(crate) fn has(self, place: usize) -> bool {
        place < Self::MAX_DESCRIPTORS && self.0 & 1 << place != 0
    }

    /// Adds the descriptor at this place.
    pub(crate) fn add(&mut self, place: usize) {
        if place < Self::MAX_DESCRIPTORS {
            self.0 |= 1 << place;
        }
    }
}
