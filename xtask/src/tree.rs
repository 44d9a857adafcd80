//! The tree to check: every file that git would commit, with its contents.

use std::path::Path;
use std::process::Command;

use crate::source::Source;

/// One file, by its path from the repository root with `/` between parts.
pub(crate) struct File {
    /// Path from the repository root.
    pub(crate) path: String,
    /// Contents on disk.
    pub(crate) bytes: Vec<u8>,
}

impl File {
    /// The contents as text; `None` for a binary file.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    /// Whether this is Rust source.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The files, and the facts about the Rust files.
pub(crate) struct Tree {
    /// Every file, sorted by path.
    pub(crate) files: Vec<File>,
    /// Facts of each Rust file that parses.
    pub(crate) sources: Vec<Source>,
    /// Rust files that do not parse: path, line, the parser's message.
    pub(crate) unparsed: Vec<(String, usize, String)>,
}

impl Tree {
    /// Reads tracked files and those that git does not ignore, so that new files are checked before they are
    /// added.
    pub(crate) fn read(root: &Path) -> Result<Tree, String> {
        let listing = Command::new("git")
            .args(["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .map_err(|e| format!("cannot run git: {e}"))?;
        if !listing.status.success() {
            return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&listing.stderr).trim()));
        }
        let mut files = Vec::new();
        for name in listing.stdout.split(|&b| b == 0).filter(|n| !n.is_empty()) {
            let path = String::from_utf8_lossy(name).into_owned();
            // A deleted file is listed until the deletion is committed; it is not part of the tree.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.push(File { path, bytes });
            }
        }
        Ok(Tree::new(files))
    }

    fn new(mut files: Vec<File>) -> Tree {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        let mut sources = Vec::new();
        let mut unparsed = Vec::new();
        for file in files.iter().filter(|f| f.is_rust()) {
            match Source::parse(&file.path, file.text().unwrap_or_default()) {
                Ok(source) => sources.push(source),
                Err((line, why)) => unparsed.push((file.path.clone(), line, why)),
            }
        }
        crate::source::mark_test_files(&mut sources);
        Tree { files, sources, unparsed }
    }

    /// The file at `path`, if it is in the tree.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.binary_search_by(|f| f.path.as_str().cmp(path)).ok().map(|i| &self.files[i])
    }

    /// Whether `path` is a file of the tree, or a folder with files.
    pub(crate) fn holds(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.file(path).is_some() || self.files.iter().any(|f| f.path.starts_with(&folder))
    }

    /// Creates a tree from text, for tests of the checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Tree {
        Tree::new(
            files
                .iter()
                .map(|(path, text)| File { path: (*path).to_owned(), bytes: text.as_bytes().to_vec() })
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_held_through_its_files() {
        let tree = Tree::of(&[("docs/a.md", "")]);
        assert!(tree.holds("docs/a.md") && tree.holds("docs") && tree.holds("docs/"));
        assert!(!tree.holds("doc") && !tree.holds("docs/b.md"));
    }

    #[test]
    fn a_file_that_does_not_parse_is_reported_with_its_line() {
        let tree = Tree::of(&[("a.rs", "//! x\nfn f( {}\n")]);
        assert_eq!(tree.unparsed.len(), 1);
        assert_eq!(tree.unparsed[0].1, 2);
    }
}
