//! No tracked file names a path of a developer's machine or a tool outside the project.

use std::path::Path;

use super::Fault;
use crate::tree::Tree;

/// Roots of machine paths, and names of tools outside the project. Split in halves, as this file is checked
/// too.
const FOREIGN: &[&str] = &[
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/tmp/br", "ief"),
    concat!("/tmp/st", "udio"),
    concat!(".lib", "rary/"),
    concat!("farm", "-bench"),
    concat!("farm", "-studio"),
];

/// Reports lines that contain one of these or the checkout's own path.
pub(crate) fn check(tree: &Tree, root: &Path) -> Vec<Fault> {
    let own = root.to_string_lossy();
    // A checkout at the root of a container (`/src`) would match ordinary text.
    let own = if root.components().count() > 2 { own.as_ref() } else { "" };
    let mut faults = Vec::new();
    for file in &tree.files {
        for (number, line) in file.bytes.split(|&b| b == b'\n').enumerate() {
            let line = String::from_utf8_lossy(line);
            let found = FOREIGN.iter().copied().chain([own]).find(|f| !f.is_empty() && stands_in(&line, f));
            if let Some(found) = found {
                let text = format!(
                    "names `{found}`, which is a place outside the project; make it relative or take it out"
                );
                faults.push(Fault::new(&file.path, number + 1, text));
            }
        }
    }
    faults
}

/// Whether a path begins at the match: `bench/home/` would be a folder of ours.
fn stands_in(line: &str, path: &str) -> bool {
    let joins = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')');
    line.match_indices(path).any(|(at, _)| !path.starts_with('/') || !line[..at].ends_with(joins))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check(&Tree::of(&[("docs/a.md", text)]), Path::new("/srv/builds/nomen")).len()
    }

    #[test]
    fn foreign_places_are_found() {
        for place in FOREIGN {
            assert_eq!(faults(&format!("see\n`{place}x`\n")), 1, "{place}");
        }
        assert_eq!(faults("run in /srv/builds/nomen/target"), 1);
        assert_eq!(faults(concat!("path = \"/wo", "rk/x\"")), 1);
    }

    #[test]
    fn our_own_folders_are_not() {
        assert_eq!(faults(concat!("bench/wo", "rk/out and ${dir}/ho", "me/x")), 0);
        assert_eq!(faults("/etc/nomen, /var/lib/nomen, /tmp/x"), 0);
    }
}
