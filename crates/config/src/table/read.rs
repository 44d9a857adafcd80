//! Conversion of TOML to typed values: reading continues after a fault, so that all faults are reported at
//! once. The types of values are in `value` and beside the keys that hold them.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::ConfigSection;
use super::value::{Value, list};
use crate::report::{ConfigPlace, Diagnostic};
use wording::{bounded_list, did_you_mean};

/// A value with its place in the configuration; a default has no place.
#[derive(Debug, Clone, Default)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The place of the value.
    pub place: Option<ConfigPlace>,
}

impl<T> At<T> {
    /// Returns a default value, which has no place.
    pub fn unwritten(value: T) -> Self {
        Self { value, place: None }
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Compares values only: two files with the same values on different lines are the same configuration.
impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// The state of reading one text.
#[derive(Debug)]
pub struct Reader<'f> {
    /// Number of the text in `ConfigTexts`.
    pub source: usize,
    /// Folder that relative paths in this text start from.
    pub base: PathBuf,
    /// The faults found so far.
    pub faults: &'f mut Vec<Diagnostic>,
    /// Keys of the current section that hold blocks, which are read separately.
    pub blocks: Vec<&'static str>,
}

impl Reader<'_> {
    /// Returns the place of a byte range of the current text.
    pub fn place(&self, span: Range<usize>) -> ConfigPlace {
        ConfigPlace { source: self.source, span }
    }

    /// Reports that a value has another type than `wanted`.
    pub fn wrong_type(&mut self, node: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = match node.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.bad_value(node, format!("expected {wanted}, found {found}"));
    }

    /// Reports a fault of a value.
    pub fn bad_value(&mut self, node: &Spanned<DeValue<'_>>, fault: impl Display) {
        let place = self.place(node.span());
        self.faults.push(Diagnostic::error(place, fault.to_string()));
    }

    /// Reads a string and converts it; reports a wrong type and a failed conversion.
    pub fn text<T, E: Display>(
        &mut self,
        node: &Spanned<DeValue<'_>>,
        wanted: &str,
        convert: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let Some(text) = node.get_ref().as_str() else {
            self.wrong_type(node, wanted);
            return None;
        };
        convert(text).map_err(|fault| self.bad_value(node, fault)).ok()
    }

    /// Reads a string that must be one of a few words.
    pub fn word<T: Copy>(&mut self, node: &Spanned<DeValue<'_>>, words: &[(&str, T)]) -> Option<T> {
        let wanted = format!("one of {}", list(words.iter().map(|(word, _)| *word)));
        let Some(text) = node.get_ref().as_str() else {
            self.wrong_type(node, &wanted);
            return None;
        };
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        let place = self.place(node.span());
        let mut fault = Diagnostic::error(place, format!("`{text}` is not {wanted}"));
        if let Some(near) = did_you_mean(text, words.iter().map(|(word, _)| *word)) {
            fault = fault.hint(format!("did you mean \"{near}\"?"));
        }
        self.faults.push(fault);
        None
    }

    /// Returns a path; a relative one starts from the folder of the text.
    pub fn resolve(&self, text: &str) -> PathBuf {
        self.base.join(Path::new(text))
    }

    /// Reads a whole section; reports undeclared keys.
    pub fn section<T: ConfigSection>(&mut self, table: &DeTable<'_>, span: Range<usize>) -> Option<T> {
        let mut fields = Fields::new(table, span, T::HEADER, &self.blocks);
        let section = T::read(&mut fields, self);
        fields.finish(self);
        section
    }
}

/// The keys of one table that are not read yet; those left at the end are unknown.
pub struct Fields<'t, 'i> {
    left: BTreeMap<&'t str, (&'t Spanned<DeString<'i>>, &'t Spanned<DeValue<'i>>)>,
    header: &'static str,
    known: Vec<&'static str>,
    span: Range<usize>,
}

impl<'t, 'i> Fields<'t, 'i> {
    fn new(
        table: &'t DeTable<'i>,
        span: Range<usize>,
        header: &'static str,
        blocks: &[&'static str],
    ) -> Self {
        let all = table.iter().map(|(k, v)| (k.get_ref().as_ref(), (k, v)));
        let left = all.filter(|(name, _)| !blocks.contains(name)).collect();
        Self { left, header, known: blocks.to_vec(), span }
    }

    /// Takes a key; reports a bad or missing value and returns the default.
    pub fn take<T: Value>(
        &mut self,
        name: &'static str,
        default: Option<T>,
        reader: &mut Reader<'_>,
    ) -> Option<At<T>> {
        self.known.push(name);
        let Some((_, node)) = self.left.remove(name) else {
            if default.is_none() {
                let place = reader.place(self.span.clone());
                let message = format!("{} needs the key `{name}`", self.header);
                reader.faults.push(Diagnostic::error(place, message));
            }
            return default.map(At::unwritten);
        };
        let place = Some(reader.place(node.span()));
        match T::read(node, reader) {
            Some(value) => Some(At { value, place }),
            // Its place says that it is written, with a fault that is reported.
            None => default.map(|value| At { value, place }),
        }
    }

    fn finish(self, reader: &mut Reader<'_>) {
        for (name, (key, _)) in self.left {
            let place = reader.place(key.span());
            let fault = Diagnostic::error(place, format!("unknown key `{name}` in {}", self.header));
            reader.faults.push(fault.hint(match did_you_mean(name, self.known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the keys are {}", bounded_list(&self.known)),
            }));
        }
    }
}
