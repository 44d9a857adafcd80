//! The program attached to an interface, and its removal.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use super::bpf::Passed;

/// The program attached to an interface.
pub(crate) struct Attachment {
    pub(super) link: Mutex<Option<OwnedFd>>,
    pub(super) passed: Passed,
}

impl Attachment {
    /// Detaches the program from the interface.
    pub(super) fn detach(&self) {
        drop(self.link.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
