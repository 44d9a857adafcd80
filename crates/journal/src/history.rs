//! [`History`]: iterates over stored changes.

use std::ops::Range;

use wire::Serial;
use zone::store::ChangeSet;

use crate::fault::{StoreFault, damaged};
use crate::frame::{FrameKind, FrameReader, HEAD, next};
use crate::records::read_change;

/// Iterates over consecutive changes. Each is read from the disk on demand, so that one is in memory at a
/// time. The iteration ends after a fault. It does not see changes appended or files replaced in the
/// meantime.
pub struct History {
    reader: FrameReader,
    rest: Range<u64>,
    /// Byte range of the base, which lies between changes and is skipped.
    base: Range<u64>,
    version: Serial,
    frame: Vec<u8>,
}

impl History {
    /// The changes in the byte range `rest`, which start from `version`.
    pub(crate) fn new(reader: FrameReader, rest: Range<u64>, base: Range<u64>, version: Serial) -> History {
        History { reader, rest, base, version, frame: Vec::new() }
    }

    fn read(&mut self) -> Result<ChangeSet, StoreFault> {
        let at = self.rest.start;
        let bad = |reader: &FrameReader, what| Err(damaged(reader.path(), at, what));
        let Some(head) = self.reader.frame(at, self.rest.end, &mut self.frame)? else {
            return bad(&self.reader, "a change is not whole");
        };
        if head.kind != FrameKind::Change || head.before != self.version {
            return bad(&self.reader, "a change does not follow the one in front");
        }
        let Ok(change) = read_change(&self.frame[HEAD..], head.before, head.after) else {
            return bad(&self.reader, "a change is malformed");
        };
        self.rest.start = next(at, &head).unwrap_or(self.rest.end);
        self.version = head.after;
        Ok(change)
    }
}

impl Iterator for History {
    type Item = Result<ChangeSet, StoreFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.start == self.base.start {
            self.rest.start = self.base.end;
        }
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest.start = self.rest.end;
        }
        Some(read)
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "History(from serial {}, {} bytes)",
            self.version,
            self.rest.end.saturating_sub(self.rest.start)
        )
    }
}
