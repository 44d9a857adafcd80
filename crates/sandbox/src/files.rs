//! Access to files by Landlock: folders that may be read, folders that may be written, and nothing else. Also
//! TCP ports that may be bound, and other processes.
//!
//! A rule is about a folder with all that it contains, not about a file: files are replaced by renaming.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};

/// The rights that are handled: those of this version, which newer kernels have, too. A later version has
/// more rights to deny, and each must be tried with this server first.
const HANDLED: ABI = ABI::V7;

/// Files of the system that the server reads while it runs. None of them holds a secret.
const SYSTEM_FILES: [&str; 26] = [
    // The process itself: memory, descriptors, interfaces.
    "/proc/self",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/stat",
    "/proc/sys/kernel",
    "/proc/sys/net",
    "/proc/sys/vm",
    // Limits of memory and of CPUs.
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/sys/kernel/mm/transparent_hugepage",
    // Randomness, if the kernel has no call for it.
    "/dev/urandom",
    // Times of the day for groups of clients.
    "/etc/localtime",
    "/etc/zoneinfo",
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    // The resolvers of the system, for the names of a CA's server and of parental servers.
    "/etc/resolv.conf",
    // The names of databases.
    "/etc/hosts",
    // Certificates of servers that lists are fetched from, and of a CA's.
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/cacert.pem",
    "/etc/pki/ca-trust",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];

/// What the server may access. Paths that do not exist are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SandboxGrants {
    /// Files that are read, with what else is in their folders.
    pub read_files: Vec<PathBuf>,
    /// Folders that are read.
    pub read: Vec<PathBuf>,
    /// Files that are written, with what else is in their folders.
    pub written_files: Vec<PathBuf>,
    /// Folders in which files are made, replaced and removed.
    pub written: Vec<PathBuf>,
    /// Files that are appended to; they are made in their folders if they are missing.
    pub appended: Vec<PathBuf>,
    /// Files that are removed at the end; nothing else may be done in their folders.
    pub removed_files: Vec<PathBuf>,
    /// TCP ports that listeners are opened at, also again.
    pub tcp_ports: Vec<u16>,
    /// Whether messages go to a Unix socket without a path that another process has opened.
    pub abstract_sockets: bool,
}

/// Folders, and single files, with what may be done in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) read: BTreeSet<PathBuf>,
    pub(crate) written: BTreeSet<PathBuf>,
    pub(crate) appended: BTreeSet<PathBuf>,
    pub(crate) removing: BTreeSet<PathBuf>,
}

/// Returns the folder of a file, with links resolved: of the link, and of what it leads to.
fn folders_of(file: &Path) -> impl Iterator<Item = PathBuf> {
    let is_link = fs::symlink_metadata(file).is_ok_and(|about| about.is_symlink());
    let target = if is_link { file.canonicalize().ok() } else { None };
    let own = match file.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new(".").canonicalize().ok(),
        Some(folder) => folder.canonicalize().ok(),
        None => None,
    };
    let of_target = target.and_then(|path| path.parent().map(Path::to_owned));
    // A file directly in the root folder does not open everything.
    let narrow =
        |folder: PathBuf| if folder == Path::new("/") { file.canonicalize().ok() } else { Some(folder) };
    [own, of_target].into_iter().flatten().filter_map(narrow)
}

/// Returns the real folders of files. There may be a million files in one folder.
fn all_folders<'a>(files: impl Iterator<Item = &'a PathBuf>) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut last: Option<&Path> = None;
    for file in files {
        let is_link = fs::symlink_metadata(file).is_ok_and(|about| about.is_symlink());
        if is_link || file.parent() != last {
            all.extend(folders_of(file));
            last = file.parent();
        }
    }
    all
}

impl Roots {
    pub(crate) fn of(grants: &SandboxGrants) -> Roots {
        let real = |paths: &[PathBuf]| -> BTreeSet<PathBuf> {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let mut roots =
            Roots { read: real(&grants.read), written: real(&grants.written), ..Roots::default() };
        roots.read.extend(all_folders(grants.read_files.iter()));
        roots.read.extend(SYSTEM_FILES.iter().filter_map(|path| Path::new(path).canonicalize().ok()));
        roots.written.extend(all_folders(grants.written_files.iter()));
        roots.removing.extend(all_folders(grants.removed_files.iter()));
        for file in &grants.appended {
            // A terminal or a pipe is there already, and its folder has others.
            let is_special = fs::metadata(file).is_ok_and(|about| {
                let kind = about.file_type();
                kind.is_char_device() || kind.is_fifo() || kind.is_socket()
            });
            match is_special {
                true => roots.appended.extend(file.canonicalize()),
                false => roots.appended.extend(folders_of(file)),
            }
        }
        roots
    }

    /// Returns whether a file that exists, or is yet to be made, may be read.
    pub(crate) fn may_read(&self, path: &Path) -> bool {
        let real = path.canonicalize().ok().or_else(|| {
            let folder = path.parent()?.canonicalize().ok()?;
            Some(folder.join(path.file_name()?))
        });
        let all = || self.read.iter().chain(&self.written).chain(&self.appended);
        // Without the folder, reading fails for another reason.
        real.is_none_or(|real| all().any(|root| real.starts_with(root)))
    }
}

/// Rights to read a folder with all that it contains.
fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// Rights to append to files, and to make them.
fn appending() -> BitFlags<AccessFs> {
    reading() | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg
}

/// Rights to make, replace and remove files and folders: no devices, nothing to execute. Whatever stands in
/// the place of a file can be moved aside; the calls that make pipes, links and sockets are filtered.
fn writing() -> BitFlags<AccessFs> {
    let odd = AccessFs::MakeFifo | AccessFs::MakeSym | AccessFs::MakeSock;
    appending() | AccessFs::RemoveFile | AccessFs::RemoveDir | AccessFs::MakeDir | AccessFs::Refer | odd
}

/// Applies the rules to this thread and to those that start after it. Returns the version of Landlock that
/// applies them; 0 if the kernel has none.
///
/// # Errors
/// [`RulesetError`] if the kernel refuses what it should know.
pub(crate) fn restrict(roots: &Roots, grants: &SandboxGrants) -> Result<u32, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(HANDLED))?
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::Signal)?;
    if !grants.abstract_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut ruleset = ruleset.create()?;
    let removing = AccessFs::RemoveFile.into();
    let sets = [
        (&roots.read, reading()),
        (&roots.appended, appending()),
        (&roots.written, writing()),
        (&roots.removing, removing),
    ];
    for (paths, rights) in sets {
        for path in paths {
            let is_folder = path.is_dir();
            let rights = if is_folder { rights } else { rights & AccessFs::from_file(HANDLED) };
            // A file directly in the root folder cannot be removed: that is a right of the folder.
            if rights.is_empty() {
                continue;
            }
            // It may have been removed in the meantime.
            let Ok(opened) = PathFd::new(path) else { continue };
            ruleset = ruleset.add_rule(PathBeneath::new(opened, rights))?;
        }
    }
    // Connections to other servers are bound to port 0, which the kernel replaces.
    for port in grants.tcp_ports.iter().copied().chain([0]) {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::BindTcp))?;
    }
    let status = ruleset.restrict_self()?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, landlock::LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn folders_of_files_and_of_what_their_links_lead_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().canonicalize().expect("real").join(name);
        for name in ["zones", "elsewhere", "log"] {
            fs::create_dir(at(name)).expect("made");
        }
        fs::write(at("elsewhere/b.zone"), "").expect("written");
        symlink(at("elsewhere/b.zone"), at("zones/b.zone")).expect("a link");
        let grants = SandboxGrants {
            read_files: vec![at("zones/a.zone"), at("zones/b.zone"), at("missing/c.zone")],
            appended: vec![at("log/file"), "/dev/null".into()],
            ..SandboxGrants::default()
        };
        let roots = Roots::of(&grants);
        let ours = |all: &BTreeSet<PathBuf>| -> Vec<PathBuf> {
            all.iter().filter(|path| path.starts_with(at(""))).cloned().collect()
        };
        assert_eq!(ours(&roots.read), [at("elsewhere"), at("zones")]);
        assert_eq!(ours(&roots.appended), [at("log")]);
        assert!(!roots.appended.contains(Path::new("/dev")), "{:?}", roots.appended);
        assert!(roots.may_read(&at("zones/new.zone")) && !roots.may_read(&at("other.zone")));
        assert!(!roots.may_read(Path::new("/etc/passwd")));
    }

    #[test]
    fn a_file_in_the_root_folder_does_not_open_everything() {
        let grants = SandboxGrants { read_files: vec!["/nomen.toml".into()], ..SandboxGrants::default() };
        assert!(!Roots::of(&grants).read.contains(Path::new("/")));
    }

    #[test]
    fn a_socket_in_the_root_folder_prevented_the_start() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let roots = Roots { removing: [file.path().to_owned()].into(), ..Roots::default() };
        // Only the thread is restricted, which then ends.
        let restricted = std::thread::spawn(move || restrict(&roots, &SandboxGrants::default()));
        restricted.join().expect("no panic").expect("restricted");
    }
}
