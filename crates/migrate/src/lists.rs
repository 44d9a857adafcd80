//! `[[policy.list]]`: block lists from URLs and files, and lists that the conversion makes.

use std::path::{Path, PathBuf};

use crate::model::{Keys, Setting};
use crate::units;
use crate::work::{Work, path_text};

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
    lists: Vec<(&'static str, Vec<String>)>,
}

impl MadeLists {
    /// The files of all lists.
    pub(crate) fn files(&self) -> Vec<ListFile> {
        let of = |(name, lines): &(&str, Vec<String>)| ListFile {
            path: self.path(name),
            text: lines.iter().map(|line| format!("{line}\n")).collect(),
        };
        self.lists.iter().map(of).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.txt"))
    }
}

/// What a list does with its names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// It blocks them with this answer.
    Block(Setting),
    /// It exempts them from all lists.
    Allow,
}

impl Effect {
    /// Blocks with the answer of this name.
    pub(crate) fn answer(word: &str) -> Self {
        Self::Block(Setting::Text(word.to_owned()))
    }

    fn write(&self, keys: &mut Keys) {
        match self {
            Self::Allow => keys.text("kind", "allow"),
            // It is nomen's default.
            Self::Block(Setting::Text(word)) if word == "nxdomain" => {}
            Self::Block(answer) => keys.set("answer", answer.clone()),
        }
    }
}

impl Work {
    /// Adds a line of adblock syntax to a list that is made.
    pub(crate) fn list_line(&mut self, name: &'static str, effect: &Effect, line: impl Into<String>) {
        if let Some((_, lines)) = self.made_lists.lists.iter_mut().find(|(other, _)| *other == name) {
            return lines.push(line.into());
        }
        let path = self.made_lists.path(name);
        self.list_of_file(name, &path, Some("adblock"), effect);
        self.made_lists.lists.push((name, vec![line.into()]));
    }

    /// Adds a list that is in a file.
    pub(crate) fn list_of_file(&mut self, name: &str, path: &Path, format: Option<&str>, effect: &Effect) {
        let mut keys = self.list(name);
        keys.text("file", path_text(path));
        format.into_iter().for_each(|format| keys.text("format", format));
        effect.write(&mut keys);
        self.nomen.policy_lists.push(keys);
    }

    /// Adds a list that is fetched from a URL, again after `refresh` milliseconds.
    pub(crate) fn list_of_url(&mut self, name: &str, url: &str, refresh: Option<u64>, effect: &Effect) {
        let mut keys = self.list(name);
        keys.text("url", url);
        refresh.into_iter().for_each(|time| keys.text("refresh", units::duration(time)));
        effect.write(&mut keys);
        self.nomen.policy_lists.push(keys);
    }

    /// A list with a name that no other has.
    fn list(&self, wanted: &str) -> Keys {
        let wanted = if wanted.is_empty() { "list" } else { wanted };
        let is_free = |name: &String| {
            let named = Setting::Text(name.clone());
            !self.nomen.policy_lists.iter().any(|list| list.get("name") == Some(&named))
        };
        let mut names =
            std::iter::once(wanted.to_owned()).chain((2..).map(|n: usize| format!("{wanted}-{n}")));
        let mut keys = Keys::default();
        keys.text("name", names.find(is_free).unwrap_or_default());
        keys
    }
}

/// The rule that blocks a name and all names below; `None` for a name that a list cannot have.
pub(crate) fn at_and_below(name: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (name != "." && name.bytes().all(plain)).then(|| format!("||{name}^"))
}
