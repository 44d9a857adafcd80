//! Documents about zones that another part of the server stores, and that end with the zones.

use std::io;

use wire::ZoneName;

/// Documents about zones, such as comments of their RRsets, on disk.
pub trait ZoneDocumentStore: Send + Sync {
    /// Removes the document of a zone; does nothing if there is none. Waits for the disk.
    ///
    /// # Errors
    /// Those of the system; then the document may stay.
    fn forget(&self, apex: &ZoneName) -> io::Result<()>;
}
