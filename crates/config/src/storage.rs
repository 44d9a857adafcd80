//! Keys of `[server]` about the state folder and the images of zones in it, for `zones::images` of
//! `zone-manager`.

use std::path::PathBuf;

use super::table::keys;
use super::table::value::Int;

keys! {
    /// Keys about state stored between runs.
    pub struct Storage {
        /// Folder for data that survives a restart: zones from primaries, images of zones, and `hash-key`,
        /// the secret key of the hashes of names; if that file is removed, the key and the images are created
        /// again. Only the user nomen runs as may have access. Created if it is missing. Unset: the folder of
        /// systemd's `StateDirectory`, else none.
        restart "state-dir" dir: Option<PathBuf> = None, example "/var/lib/nomen";
        /// Store images of large zones in the state folder, so that a start need not parse their text. A
        /// damaged image, or one whose zone file or included file has changed, is not used.
        restart "images" images: bool = true, example false;
        /// Zones with at least this many records get an image. `nomen zone compile NAME` creates one for a
        /// zone of any size, which is then updated with the zone.
        restart "image-min-records" image_min_records: Int<u64, 1, 4_294_967_295> = Int(100_000),
            example 10000;
    }
}

impl Storage {
    /// Returns the state folder: the configured one, or else the one that systemd made for the service.
    pub fn folder(&self) -> Option<PathBuf> {
        // If there are several folders, the first one is used.
        let of_systemd = || {
            let all = std::env::var("STATE_DIRECTORY").ok()?;
            all.split(':').next().map(PathBuf::from).filter(|path| path.is_absolute())
        };
        self.dir.value.clone().or_else(of_systemd)
    }
}
