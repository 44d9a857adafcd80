//! Puts a name's new records into a version under construction and updates the nodes that depend on them:
//! empty non-terminals that are created or removed, names occluded by zone cuts and DNAMEs, parents of
//! wildcards, and NSEC3 owners that enter or leave the name space. After each call the whole zone is
//! consistent.

use wire::{LowerName, LowerNameBuf, Name, NameHash};

use super::place::{Draft, Place, Rebuild};
use crate::store::arena::NodeAddress;
use crate::store::blobs::below;
use crate::store::encode::{Encoder, is_nsec3_only};
use crate::store::node::{INHERITED, NodeFlags};
use crate::store::{blob, order};

/// A zone is built anew if more than this many nodes change at once and they are more than an eighth of it.
pub(super) const REBUILD_NODES: usize = 4096;

impl Draft<'_> {
    /// Whether rebuilding is cheaper than changing so many nodes one by one.
    pub(super) fn is_too_much(&self, nodes: usize) -> bool {
        nodes > REBUILD_NODES && nodes > self.from.order().nodes().len() / 8
    }

    /// Replaces the records of a name by those in `blob`, as encoded, or removes them. Returns the node's
    /// address.
    pub(super) fn set(
        &mut self,
        name: LowerName<'_>,
        hash: NameHash,
        blob: Option<&[u8]>,
    ) -> Result<Option<NodeAddress>, Rebuild> {
        let place = self.place(name, hash);
        match blob {
            Some(blob) if blob::flags(blob) & NodeFlags::NSEC3_ONLY.0 == 0 || self.has_below(&place) => {
                self.put_name(&place, blob.to_vec()).map(Some)
            }
            Some(blob) => self.put(&place, blob.to_vec()).map(Some),
            None if place.now.is_none() => Ok(None),
            None if self.has_below(&place) => {
                self.put_name(&place, Encoder::new().empty(name).to_vec()).map(Some)
            }
            None => self.vanish(&place).map(|()| None),
        }
    }

    /// Stores a node of the name space with the flags that it inherits.
    fn put_name(&mut self, place: &Place<'_>, mut blob: Vec<u8>) -> Result<NodeAddress, Rebuild> {
        let old = self.flags(place).filter(|old| old & NodeFlags::NSEC3_ONLY.0 == 0);
        let mut flags = blob::flags(&blob) & !(INHERITED | NodeFlags::NSEC3_ONLY.0);
        flags |= old.unwrap_or(0) & NodeFlags::WILDCARD_CHILD.0;
        let parent = match flags & NodeFlags::APEX.0 {
            0 => self.parent(place),
            _ => None,
        };
        if let Some((parent, hash)) = &parent {
            flags |= below(self.ensure(parent.as_lower(), *hash)?);
        }
        blob::set_flags(&mut blob, flags);
        let at = self.put(place, blob)?;
        if let Some((parent, hash)) = parent.filter(|_| old.is_none() && flags & NodeFlags::WILDCARD.0 != 0) {
            self.set_flag(parent.as_lower(), hash, NodeFlags::WILDCARD_CHILD, true)?;
        }
        if old.is_some_and(|old| below(old) != below(flags)) {
            self.hide_below(place.name, below(flags) != 0)?;
        }
        Ok(at)
    }

    /// Returns name and hash of the parent.
    fn parent(&self, place: &Place<'_>) -> Option<(LowerNameBuf, NameHash)> {
        let parent = place.name.parent()?;
        Some((parent.to_buf(), self.from.key().name(parent)))
    }

    /// Adds a name to the name space, unless it is there. Returns its flags.
    fn ensure(&mut self, name: LowerName<'_>, hash: NameHash) -> Result<u16, Rebuild> {
        let place = self.place(name, hash);
        let blob = match (self.flags(&place), place.now) {
            (Some(flags), _) if flags & NodeFlags::NSEC3_ONLY.0 == 0 => return Ok(flags),
            // An NSEC3 owner with names below it is part of the name space (RFC 5155 §7.2.8).
            (_, Some(at)) => self.blob(at).to_vec(),
            _ => Encoder::new().empty(name).to_vec(),
        };
        let at = self.put_name(&place, blob)?;
        Ok(blob::flags(self.blob(at)))
    }

    /// Removes a node without names below it, and the nodes above that existed only because of it.
    fn vanish(&mut self, place: &Place<'_>) -> Result<(), Rebuild> {
        let Some(flags) = self.flags(place) else { return Ok(()) };
        self.take_out(place);
        if flags & (NodeFlags::NSEC3_ONLY.0 | NodeFlags::APEX.0) != 0 {
            return Ok(());
        }
        let Some((parent, hash)) = self.parent(place) else { return Ok(()) };
        if flags & NodeFlags::WILDCARD.0 != 0 {
            self.set_flag(parent.as_lower(), hash, NodeFlags::WILDCARD_CHILD, false)?;
        }
        self.let_go(parent.as_lower(), hash)
    }

    /// Removes a node from the name space if only removed names below it kept it there.
    fn let_go(&mut self, name: LowerName<'_>, hash: NameHash) -> Result<(), Rebuild> {
        let place = self.place(name, hash);
        let (Some(at), Some(flags)) = (place.now, self.flags(&place)) else { return Ok(()) };
        if flags & NodeFlags::APEX.0 != 0 {
            return Ok(());
        }
        if flags & NodeFlags::EMPTY.0 != 0 {
            return if self.has_below(&place) { Ok(()) } else { self.vanish(&place) };
        }
        if is_nsec3_only(self.blob(at), self.overlay.apex_len) && !self.has_below(&place) {
            let mut blob = self.blob(at).to_vec();
            blob::set_flags(&mut blob, flags & !INHERITED | NodeFlags::NSEC3_ONLY.0);
            self.put(&place, blob)?;
        }
        Ok(())
    }

    /// Sets or clears a flag of a node.
    fn set_flag(
        &mut self,
        name: LowerName<'_>,
        hash: NameHash,
        flag: NodeFlags,
        set: bool,
    ) -> Result<(), Rebuild> {
        let place = self.place(name, hash);
        let Some(at) = place.now else { return Ok(()) };
        let mut blob = self.blob(at).to_vec();
        let flags = blob::flags(&blob) & !flag.0 | if set { flag.0 } else { 0 };
        blob::set_flags(&mut blob, flags);
        self.put(&place, blob).map(|_| ())
    }

    /// Marks all names below `name` as occluded, or unmarks those that no node in between occludes.
    fn hide_below(&mut self, name: LowerName<'_>, hide: bool) -> Result<(), Rebuild> {
        let (mut changed, mut hider) = (Vec::new(), None::<LowerNameBuf>);
        let mut at = self.after(name.as_name());
        while let Some(here) = at {
            let blob = self.blob(here);
            let (owner, flags) = (blob::owner(blob), blob::flags(blob));
            if !owner.is_at_or_below(name) {
                break;
            }
            let hidden = hider.as_ref().is_some_and(|hider| owner.is_at_or_below(hider.as_lower()));
            if flags & NodeFlags::NSEC3_ONLY.0 == 0 && (hide || !hidden) {
                if (flags & NodeFlags::OCCLUDED.0 != 0) != hide {
                    changed.push(owner.to_buf());
                }
                if !hide && flags & (NodeFlags::CUT.0 | NodeFlags::DNAME.0) != 0 {
                    hider = Some(owner.to_buf());
                }
            }
            if self.is_too_much(changed.len()) {
                return Err(Rebuild);
            }
            at = self.after(owner.as_name());
        }
        for name in changed {
            let hash = self.from.key().name(name.as_lower());
            self.set_flag(name.as_lower(), hash, NodeFlags::OCCLUDED, hide)?;
        }
        Ok(())
    }

    /// Whether there are names below this one. If the base does not have the name, it has none below it,
    /// because it has all ancestors of its names.
    fn has_below(&self, place: &Place<'_>) -> bool {
        let (name, overlay) = (place.name, &self.overlay);
        let is_below = |at: NodeAddress| blob::owner(self.blob(at)).is_at_or_below(name);
        let came = overlay.came_after(order::key(name, overlay.apex_len), name.as_name());
        let old = || {
            place.base?;
            let position = overlay.all.first_from(self.from.base_not_after(name.as_name()));
            self.from.order().nodes().get(position).and_then(|&base| overlay.redirect(base))
        };
        came.is_some_and(is_below) || old().is_some_and(is_below)
    }

    /// The address of the node after a name in canonical order.
    fn after(&self, name: Name<'_>) -> Option<NodeAddress> {
        let (order, overlay) = (self.from.order().nodes(), &self.overlay);
        let position = overlay.all.first_from(self.from.base_not_after(name));
        let base = order.get(position).and_then(|&base| overlay.redirect(base));
        let lower = name.to_lower();
        let key = order::key(lower.as_lower(), overlay.apex_len);
        let came = overlay.came_after(key, name);
        let owner = |at: NodeAddress| blob::owner(self.blob(at)).as_name();
        match (base, came) {
            (Some(base), Some(came)) if owner(came) < owner(base) => Some(came),
            (base, came) => base.or(came),
        }
    }
}
