//! The memory limit of building a zone.

use super::build::BuildError;

/// Change in bytes after which the caller is asked again.
const STEP_BYTES: usize = 256 << 10;

/// Asks the caller of a builder, or of a change, whether a number of bytes may be taken.
pub(super) struct Room<'a> {
    ask: &'a mut dyn FnMut(usize) -> bool,
    /// The number of bytes asked for last.
    asked: usize,
}

impl<'a> Room<'a> {
    /// `ask` returns whether this many bytes in all may be taken.
    pub(super) fn new(ask: &'a mut dyn FnMut(usize) -> bool) -> Self {
        Room { ask, asked: 0 }
    }

    /// Reports the number of bytes that are taken, or about to be.
    ///
    /// # Errors
    /// [`BuildError::OutOfMemory`] if they may not be taken.
    pub(super) fn takes(&mut self, bytes: usize) -> Result<(), BuildError> {
        if bytes.abs_diff(self.asked) < STEP_BYTES || self.may_take(bytes) {
            return Ok(());
        }
        Err(BuildError::OutOfMemory)
    }

    /// Returns whether this many bytes may be taken.
    pub(super) fn may_take(&mut self, bytes: usize) -> bool {
        self.asked = bytes;
        (self.ask)(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_is_asked_where_much_has_changed() {
        let mut asked = Vec::new();
        let mut ask = |bytes| {
            asked.push(bytes);
            bytes < 4 * STEP_BYTES
        };
        let mut room = Room::new(&mut ask);
        for bytes in [1, STEP_BYTES, STEP_BYTES + 1, 3 * STEP_BYTES, STEP_BYTES] {
            assert_eq!(room.takes(bytes), Ok(()), "{bytes}");
        }
        assert_eq!(room.takes(4 * STEP_BYTES), Err(BuildError::OutOfMemory));
        assert_eq!(asked, [STEP_BYTES, 3 * STEP_BYTES, STEP_BYTES, 4 * STEP_BYTES]);
    }
}
