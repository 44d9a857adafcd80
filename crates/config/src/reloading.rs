//! Keys of `[server]` about loading zones and reloading the configuration, for `zones` of `zone-manager`.

use super::table::keys;
use super::table::value::{Share, Time};

keys! {
    /// Keys about loading zones and reloads.
    pub struct Reloading {
        /// Largest share of all zones that one reload removes because the configuration no longer names them.
        /// A reload that would remove more, and at least ten zones, or that would leave no zone, as with an
        /// empty file, is refused; `nomen ctl reload --force` applies it. Zones missing from a template's
        /// folder or from a catalog zone have limits of their own. 1: only a reload that would leave no zone
        /// is refused.
        live "max-removed" max_removed: Share = Share(0.5), example 0.2;
        /// Longest time that the loading of one zone may make no progress, as on a file system that does not
        /// respond. The zone then counts as bad until its loading ends: the previous version stays in
        /// service, or, without one, its names are answered with SERVFAIL, and nothing waits for it.
        live "load-stall-timeout" load_stall: Time<1_000, 86_400_000> = Time::secs(300), example "1m";
    }
}
