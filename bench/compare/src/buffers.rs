//! The kernel's default sizes of socket buffers, raised while a server starts, for servers without a setting
//! of their own. Needs root.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::failure::{Context, Result};

/// Size of a socket buffer in bytes, each for receiving and sending: the size that nomen sets.
pub(crate) const SOCKET_BUFFER: u64 = 4 << 20;

/// The folder of the kernel's settings.
pub(crate) const KERNEL: &str = "/proc/sys/net/core";

/// The settings, and the values that they are raised to. A program that sets a size gets twice as many bytes,
/// up to the maximum; one that does not gets the default unchanged.
const SIZES: [(&str, u64); 4] = [
    ("rmem_max", SOCKET_BUFFER),
    ("wmem_max", SOCKET_BUFFER),
    ("rmem_default", 2 * SOCKET_BUFFER),
    ("wmem_default", 2 * SOCKET_BUFFER),
];

/// The kernel's settings. The files remain those of the namespace in which they were opened: only there the
/// settings can be changed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffers(Arc<Vec<Size>>);

#[derive(Debug)]
struct Size {
    file: File,
    wanted: u64,
}

impl Size {
    fn read(&self) -> Result<u64> {
        let mut bytes = [0; 32];
        let length = self.file.read_at(&mut bytes, 0)?;
        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
        text.trim().parse().ok().context(|| format!("a size of socket buffers: {text}"))
    }

    fn write(&self, bytes: u64) -> Result<()> {
        Ok(self.file.write_all_at(format!("{bytes}\n").as_bytes(), 0)?)
    }
}

impl Buffers {
    /// Opens the settings in this folder. Fails if they cannot be changed.
    pub(crate) fn open(folder: &Path) -> Result<Buffers> {
        let open = |(name, wanted): (&str, u64)| -> Result<Size> {
            let path = folder.join(name);
            let file = OpenOptions::new().read(true).write(true).open(&path);
            let size = Size { file: file.context(|| path.display().to_string())?, wanted };
            size.write(size.read()?)?;
            Ok(size)
        };
        Ok(Buffers(Arc::new(SIZES.into_iter().map(open).collect::<Result<_>>()?)))
    }

    /// Raises the settings that are lower, until the returned value is dropped.
    pub(crate) fn raise(&self) -> Result<Raised<'_>> {
        let mut raised = Raised(Vec::new());
        for size in self.0.iter() {
            let before = size.read()?;
            if before < size.wanted {
                raised.0.push((size, before));
                size.write(size.wanted)?;
            }
        }
        Ok(raised)
    }
}

/// Raised settings with their previous values, restored on drop.
pub(crate) struct Raised<'a>(Vec<(&'a Size, u64)>);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        for (size, before) in &self.0 {
            if let Err(failure) = size.write(*before) {
                eprintln!("the kernel's size of socket buffers is not put back to {before}: {failure}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn sizes_are_raised_while_a_server_starts_and_never_lowered() {
        let folder = tempfile::tempdir().unwrap();
        let sizes =
            [("rmem_max", 9 << 20), ("wmem_max", 212_992), ("rmem_default", 212_992), ("wmem_default", 8)];
        // In a plain file the rest of a longer number would remain; the kernel's files have one line.
        let read = |name: &str| -> u64 {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            text.lines().next().unwrap().parse().unwrap()
        };
        assert!(Buffers::open(folder.path()).is_err(), "there are none");
        for (name, bytes) in sizes {
            fs::write(folder.path().join(name), format!("{bytes}\n")).unwrap();
        }
        let buffers = Buffers::open(folder.path()).unwrap();
        let raised = buffers.raise().unwrap();
        let now = sizes.map(|(name, _)| read(name));
        assert_eq!(now, [9 << 20, SOCKET_BUFFER, 2 * SOCKET_BUFFER, 2 * SOCKET_BUFFER]);
        drop(raised);
        assert_eq!(sizes.map(|(name, _)| read(name)), sizes.map(|(_, bytes)| bytes));
        assert!(Buffers::default().raise().unwrap().0.is_empty(), "where they cannot be changed");
    }
}
