//! Keys of `[server]` about the state folder and the images of zones in it, for `zones::images` of
//! `zone-manager`.

use std::path::PathBuf;

use super::table::keys;
use super::table::value::Int;

keys! {
    /// Keys about state stored between runs.
    pub struct Storage {
        /// Folder for what nomen keeps between its runs: zones from primaries, images of zones and the secret
        /// key behind the hashes of names, `hash-key`; removing that file makes a new key, and new images.
        /// Only the user nomen runs as may have access. Made if it is missing. Unset: the folder of systemd's
        /// `StateDirectory`, else none.
        restart "state-dir" dir: Option<PathBuf> = None, example "/var/lib/nomen";
        /// Keep images of large zones in the state folder, so that a start does not have to read their text
        /// again. An image whose text, or a file it includes, has changed is not used, and neither is a
        /// damaged one.
        restart "images" images: bool = true, example false;
        /// Least number of records of a zone for which an image is kept. `nomen zone compile` makes one of
        /// any zone it is asked for by name, and once there it is kept up.
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
