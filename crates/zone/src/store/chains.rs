//! The chains of denial of a base: NSEC and NSEC3. All versions of the base share them, and all zones without
//! chains share one value.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::nsec3::StoredChain;
use super::sorted::Sorted;

/// Both chains of a base.
pub(super) struct Chains {
    /// The nodes with NSEC, in canonical order.
    pub(super) nsec: Sorted,
    pub(super) nsec3: Option<StoredChain>,
}

static NONE: LazyLock<Arc<Chains>> =
    LazyLock::new(|| Arc::new(Chains { nsec: Sorted::of(Bytes::new()), nsec3: None }));

impl Chains {
    /// Returns these chains, to be shared.
    pub(super) fn shared(nsec: Sorted, nsec3: Option<StoredChain>) -> Arc<Chains> {
        let chains = Chains { nsec, nsec3 };
        if chains.is_empty() { Arc::clone(&NONE) } else { Arc::new(chains) }
    }

    fn is_empty(&self) -> bool {
        self.nsec.is_empty() && self.nsec3.is_none()
    }

    /// Returns the bytes of memory taken.
    pub(super) fn memory(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        size_of::<Chains>() + self.nsec.memory() + self.nsec3.as_ref().map_or(0, StoredChain::memory)
    }
}
