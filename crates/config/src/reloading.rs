//! Keys of `[server]` about loading zones and reloading the configuration, for `zones` of `zone-manager`.

use super::table::keys;
use super::table::value::{Share, Time};

keys! {
    /// Keys about loading zones and reloads.
    pub struct Reloading {
        /// Largest share of all zones that one reload removes because the configuration no longer asks for
        /// them. If more, and ten at least, would go, or no zone at all would be left, such as with a
        /// configuration file that is empty, the reload is refused and the configuration before stays in
        /// force; `nomen ctl reload --force` takes the new one. What is missing from the folder of a template
        /// or from a catalog zone has keys of its own. 1: only a reload that would leave no zone is refused.
        live "max-removed" max_removed: Share = Share(0.5), example 0.2;
        /// Longest time that the loading of one zone may go without progress, as on a file system that no
        /// longer answers. The zone counts as bad then, until its loading ends: the version before stays in
        /// service, or its names are answered with SERVFAIL, and nothing waits for it any more.
        live "load-stall-timeout" load_stall: Time<1_000, 86_400_000> = Time::secs(300), example "1m";
    }
}
