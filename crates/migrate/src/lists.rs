//! Lists that the conversion makes, for `[[policy.list]]`.

use std::path::PathBuf;

/// A list that the printed configuration names, for the operator to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFile {
    /// Its path in the configuration.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
}

/// Lists that are made, each with its lines.
#[derive(Debug, Default)]
pub(crate) struct MadeLists {
    /// The folder of their files.
    pub(crate) folder: PathBuf,
    lists: Vec<(String, Vec<String>)>,
}

impl MadeLists {
    /// The files of all lists.
    pub(crate) fn files(&self) -> Vec<ListFile> {
        let of = |(name, lines): &(String, Vec<String>)| ListFile {
            path: self.path(name),
            text: lines.iter().map(|line| format!("{line}\n")).collect(),
        };
        self.lists.iter().map(of).collect()
    }

    /// Adds a line to a list. Returns the path of the list's file if the list is new.
    pub(crate) fn add(&mut self, name: &str, line: String) -> Option<PathBuf> {
        if let Some((_, lines)) = self.lists.iter_mut().find(|(other, _)| other == name) {
            lines.push(line);
            return None;
        }
        self.lists.push((name.to_owned(), vec![line]));
        Some(self.path(name))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.txt"))
    }
}
