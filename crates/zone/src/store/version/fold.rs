//! A new base: a version built as a whole.

use super::apply::{Touched, memory};
use crate::store::room::Room;
use crate::store::{BuildError, Zone, ZoneBuilder};

/// Bytes of nodes between two checks of the memory.
const MEMORY_CHECK_BYTES: usize = 64 << 10;

impl Zone {
    /// Returns the same zone with a base of its own, already sorted, and no overlay; its first change costs
    /// no more than later ones. Takes as long as building a zone without reading and encoding its records.
    /// Meanwhile this version can be served and changed.
    ///
    /// # Errors
    /// As for [`ZoneBuilder::finish`].
    pub fn folded(&self) -> Result<Zone, BuildError> {
        let folded = self.rebuilt(&[], &mut Room::new(&mut |_| true))?;
        folded.order();
        Ok(folded)
    }

    /// Builds the zone in which the names of `touched`, in canonical order, have their new records.
    pub(super) fn rebuilt(&self, touched: &[Touched], room: &mut Room<'_>) -> Result<Zone, BuildError> {
        let beside = memory(touched);
        let mut builder = ZoneBuilder::new(self.apex().as_name(), self.key());
        let (mut touched, mut added) = (touched.iter().peekable(), 0);
        for node in self {
            let owner = node.owner();
            let mut replaced = false;
            while let Some(new) = touched.next_if(|new| new.name.as_name() <= owner.as_name()) {
                replaced = new.name.as_lower() == owner;
                new.blob.iter().for_each(|blob| builder.add_blob(blob));
            }
            if !replaced {
                builder.add_blob(node.blob());
            }
            added += node.blob().len();
            if added >= MEMORY_CHECK_BYTES {
                added = 0;
                room.takes(beside + builder.memory())?;
            }
        }
        touched.filter_map(|new| new.blob.as_deref()).for_each(|blob| builder.add_blob(blob));
        builder.finish_within(&mut |bytes| room.may_take(beside + bytes))
    }
}
