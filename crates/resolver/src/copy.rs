//! Copies of zones on this machine, which are asked in place of the zones' servers (RFC 8806).

use std::fmt;
use std::sync::Arc;

use crate::inquiry::Inquiry;

/// A copy of a zone. It answers at once, and is quick about it.
pub trait ZoneCopy: Send + Sync {
    /// Puts the response into `message` that an authoritative server of the zone would send to this question: whole, however
    /// long, without OPT, with AA where it is an answer. Returns whether there is one; if not, the zone's servers are asked.
    fn respond(&self, inquiry: &Inquiry, message: &mut Vec<u8>) -> bool;
}

/// A [`ZoneCopy`] of the zone that a rule begins with. What it says is judged as what the zone's servers say, and it may say
/// no more than they. Two are equal if they are the same.
#[derive(Clone)]
pub struct LocalCopy(Arc<dyn ZoneCopy>);

impl LocalCopy {
    /// This copy.
    pub fn new(copy: Arc<dyn ZoneCopy>) -> Self {
        LocalCopy(copy)
    }

    pub(crate) fn respond(&self, inquiry: &Inquiry, message: &mut Vec<u8>) -> bool {
        self.0.respond(inquiry, message)
    }
}

impl fmt::Debug for LocalCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LocalCopy")
    }
}

impl PartialEq for LocalCopy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for LocalCopy {}
