//! The program at work on an interface, and taking it off.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use super::bpf::Passed;

/// The program at work on an interface.
pub(crate) struct Attachment {
    pub(super) link: Mutex<Option<OwnedFd>>,
    pub(super) passed: Passed,
}

impl Attachment {
    /// Takes the program off the interface.
    pub(super) fn detach(&self) {
        drop(self.link.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
