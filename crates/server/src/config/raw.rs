//! From TOML text to typed sections: the `section!` macro, the values keys can hold, and the reader that
//! collects every fault instead of stopping at the first. One declaration per key gives the field, the
//! parser, the default and the documentation, so none of them can disagree. What the keys are: `schema`.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{XdpAttach, XdpCopy};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::report::{Diagnostic, Place, did_you_mean};
use super::units::{
    Endpoint, Identity, LogFormat, LogLevel, LogTarget, Nsid, Proto, QueryLog, Workers, format_duration,
    format_size, parse_duration, parse_size,
};

/// A value together with the place it was written at; values that are defaults have no place.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Where the operator wrote it.
    pub place: Option<Place>,
}

impl<T> At<T> {
    /// A value nobody wrote: a default.
    pub fn default_value(value: T) -> Self {
        Self { value, place: None }
    }
}

impl<T> Deref for At<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

/// Places do not count: two files that say the same in different lines are the same configuration.
impl<T: PartialEq> PartialEq for At<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// Faults found so far, and which text is being read.
#[derive(Debug)]
pub struct Reader<'f> {
    /// Number of the text in `Sources`.
    pub source: usize,
    /// Folder that relative paths in this text start from.
    pub base: PathBuf,
    /// Where faults go.
    pub faults: &'f mut Vec<Diagnostic>,
}

impl Reader<'_> {
    /// The place of a byte range of the text being read.
    pub fn place(&self, span: std::ops::Range<usize>) -> Place {
        Place { source: self.source, span }
    }

    fn wrong_type(&mut self, node: &Spanned<DeValue<'_>>, wanted: &str) {
        let got = describe(node.get_ref());
        let place = self.place(node.span());
        self.faults.push(Diagnostic::error(place, format!("expected {wanted}, found {got}")));
    }

    fn bad_value(&mut self, node: &Spanned<DeValue<'_>>, message: impl Into<String>) {
        let place = self.place(node.span());
        self.faults.push(Diagnostic::error(place, message));
    }

    /// Reads a string and converts it; type and conversion faults are reported here.
    pub(super) fn text<T>(
        &mut self,
        node: &Spanned<DeValue<'_>>,
        wanted: &str,
        convert: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = node.get_ref().as_str() else {
            self.wrong_type(node, wanted);
            return None;
        };
        convert(text).map_err(|message| self.bad_value(node, message)).ok()
    }

    /// Reads a string that must be one of a few words.
    fn word<T: Copy>(&mut self, node: &Spanned<DeValue<'_>>, words: &[(&str, T)]) -> Option<T> {
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

    fn resolve(&self, text: &str) -> PathBuf {
        self.base.join(Path::new(text))
    }
}

/// `"a", "b" or "c"`.
fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = words.map(|w| format!("\"{w}\"")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Something a key can hold.
pub trait Value: Sized {
    /// What the reference page and error messages call it.
    fn kind() -> String;
    /// A TOML value of this kind, for the reference page and for tests.
    fn example() -> String;
    /// Reads it; faults are reported to the reader.
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self>;
    /// The value as TOML; none where "not set" is the value.
    fn render(&self) -> Option<String>;
}

/// What the reference page says about one key.
#[derive(Debug, Clone)]
pub struct KeyDoc {
    /// Its name.
    pub name: &'static str,
    /// The kind of value.
    pub kind: String,
    /// The default as TOML; none if the key must be given or stays unset.
    pub default: Option<String>,
    /// Whether the key must be given.
    pub required: bool,
    /// A value that is accepted.
    pub example: String,
    /// The words beside its declaration.
    pub doc: &'static str,
}

/// What the reference page says about one section.
#[derive(Debug, Clone)]
pub struct SectionDoc {
    /// The header, such as `[server]` or `[[zone]]`.
    pub header: &'static str,
    /// The words beside its declaration.
    pub doc: &'static str,
    /// Its keys in the order they were declared.
    pub keys: Vec<KeyDoc>,
}

/// The keys of one table while they are taken out one by one; what is left over in the end is unknown.
pub struct Fields<'t, 'i> {
    left: BTreeMap<&'t str, (&'t Spanned<toml::de::DeString<'i>>, &'t Spanned<DeValue<'i>>)>,
    header: &'static str,
    known: Vec<&'static str>,
    span: std::ops::Range<usize>,
}

impl<'t, 'i> Fields<'t, 'i> {
    /// Starts on a table.
    pub fn new(table: &'t DeTable<'i>, span: std::ops::Range<usize>, header: &'static str) -> Self {
        let left = table.iter().map(|(k, v)| (k.get_ref().as_ref(), (k, v))).collect();
        Self { left, header, known: Vec::new(), span }
    }

    /// Takes a key; a bad or missing value yields the default after its fault was reported.
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
            return default.map(At::default_value);
        };
        let place = Some(reader.place(node.span()));
        match T::read(node, reader) {
            Some(value) => Some(At { value, place }),
            None => default.map(At::default_value),
        }
    }

    /// Reports the keys nobody took.
    pub fn finish(self, reader: &mut Reader<'_>) {
        for (name, (key, _)) in self.left {
            let place = reader.place(key.span());
            let mut fault = Diagnostic::error(place, format!("unknown key `{name}` in {}", self.header));
            if let Some(near) = did_you_mean(name, self.known.iter().copied()) {
                fault = fault.hint(format!("did you mean `{near}`?"));
            }
            reader.faults.push(fault);
        }
    }
}

/// Declares a section: `"key" field: Type = default;` or, for a key that must be given, `"key" field: Type;`.
macro_rules! section {
    (
        $(#[doc = $section_doc:literal])*
        $name:ident, $header:literal {
            $( $(#[doc = $doc:literal])* $key:literal $field:ident : $ty:ty $(= $default:expr)? ; )*
        }
    ) => {
        $(#[doc = $section_doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $crate::config::raw::At<$ty>, )*
        }

        impl $name {
            /// Reads the section from its table, reporting every fault in it.
            pub fn read(
                table: &toml::de::DeTable<'_>,
                span: std::ops::Range<usize>,
                reader: &mut $crate::config::raw::Reader<'_>,
            ) -> Option<Self> {
                let mut fields = $crate::config::raw::Fields::new(table, span, $header);
                $( let $field = fields.take::<$ty>($key, section!(@default $($default)?), reader); )*
                fields.finish(reader);
                Some(Self { $( $field: $field?, )* })
            }

            /// The section with nothing written in it; none if a key must be given.
            pub fn unset() -> Option<Self> {
                Some(Self {
                    $( $field: $crate::config::raw::At::default_value(
                        section!(@default $($default)?)?,
                    ), )*
                })
            }

            /// The section as the reference page shows it.
            pub fn describe() -> $crate::config::raw::SectionDoc {
                use $crate::config::raw::{KeyDoc, SectionDoc, Value};
                SectionDoc {
                    header: $header,
                    doc: concat!($($section_doc, "\n",)*),
                    keys: vec![ $( {
                        let default: Option<$ty> = section!(@default $($default)?);
                        KeyDoc {
                            name: $key,
                            kind: <$ty as Value>::kind(),
                            required: default.is_none(),
                            default: default.as_ref().and_then(Value::render),
                            example: <$ty as Value>::example(),
                            doc: concat!($($doc, "\n",)*),
                        }
                    }, )* ],
                }
            }
        }
    };
    (@default $default:expr) => {
        Some($default)
    };
    (@default) => {
        None
    };
}
pub(crate) use section;

/// A TOML string with what must be escaped escaped.
pub fn quote(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl<T: Value> Value for Option<T> {
    fn kind() -> String {
        T::kind()
    }
    fn example() -> String {
        T::example()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Some)
    }
    fn render(&self) -> Option<String> {
        self.as_ref().and_then(Value::render)
    }
}

/// Lists keep each member's place, so that a fault found later points at the member.
impl<T: Value> Value for Vec<At<T>> {
    fn kind() -> String {
        format!("list of {}", plural(&T::kind()))
    }
    fn example() -> String {
        format!("[{}]", T::example())
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(array) = node.get_ref().as_array() else {
            reader.wrong_type(node, &format!("a {}", Self::kind()));
            return None;
        };
        if array.is_empty() {
            reader.bad_value(node, "the list is empty");
            return None;
        }
        let mut all = Vec::with_capacity(array.len());
        let mut good = true;
        for member in array.iter() {
            let place = Some(reader.place(member.span()));
            match T::read(member, reader) {
                Some(value) => all.push(At { value, place }),
                None => good = false,
            }
        }
        good.then_some(all)
    }
    fn render(&self) -> Option<String> {
        let members: Option<Vec<String>> = self.iter().map(|m| m.value.render()).collect();
        members.map(|m| format!("[{}]", m.join(", ")))
    }
}

fn plural(kind: &str) -> String {
    match kind.split_once(' ') {
        Some((first, rest)) if rest.starts_with("`") || rest.starts_with("(") => format!("{first}s {rest}"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}

impl Value for bool {
    fn kind() -> String {
        "true or false".into()
    }
    fn example() -> String {
        "true".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = node.get_ref().as_bool();
        if value.is_none() {
            reader.wrong_type(node, "true or false");
        }
        value
    }
    fn render(&self) -> Option<String> {
        Some(self.to_string())
    }
}

/// An integer within bounds, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Int<MIN, MAX> {
    /// The number, for counts of things in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl<const MIN: u64, const MAX: u64> Value for Int<MIN, MAX> {
    fn kind() -> String {
        format!("integer ({MIN} to {MAX})")
    }
    fn example() -> String {
        MIN.to_string()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let Some(integer) = node.get_ref().as_integer() else {
            reader.wrong_type(node, "an integer");
            return None;
        };
        match i128::from_str_radix(integer.as_str(), integer.radix()).ok().and_then(|n| u64::try_from(n).ok())
        {
            Some(n) if (MIN..=MAX).contains(&n) => Some(Self(n)),
            _ => {
                reader.bad_value(node, format!("{integer} is out of range: {MIN} to {MAX}"));
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}

/// A duration within bounds given in milliseconds, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Time<const MIN_MS: u64, const MAX_MS: u64>(pub Duration);

impl<const MIN: u64, const MAX: u64> Value for Time<MIN, MAX> {
    fn kind() -> String {
        let text = |ms| format_duration(Duration::from_millis(ms));
        format!("duration ({} to {})", text(MIN), text(MAX))
    }
    fn example() -> String {
        quote(&format_duration(Duration::from_millis(MIN)))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = reader.text(node, "a duration such as \"30s\"", parse_duration)?;
        let (min, max) = (Duration::from_millis(MIN), Duration::from_millis(MAX));
        if (min..=max).contains(&value) {
            return Some(Self(value));
        }
        let [value, min, max] = [value, min, max].map(format_duration);
        reader.bad_value(node, format!("{value} is out of range: {min} to {max}"));
        None
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format_duration(self.0)))
    }
}

/// A size in bytes within bounds, both included: an integer or text such as "64KiB".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size<const MIN: u64, const MAX: u64>(pub u64);

impl<const MIN: u64, const MAX: u64> Value for Size<MIN, MAX> {
    fn kind() -> String {
        format!("size ({} to {})", format_size(MIN), format_size(MAX))
    }
    fn example() -> String {
        quote(&format_size(MIN))
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let value = match node.get_ref().as_integer() {
            Some(n) => u64::from_str_radix(n.as_str(), n.radix()).unwrap_or(u64::MAX),
            None => reader.text(node, "a size such as \"64KiB\"", parse_size)?,
        };
        if (MIN..=MAX).contains(&value) {
            return Some(Self(value));
        }
        let [shown, min, max] = [value, MIN, MAX].map(format_size);
        reader.bad_value(node, format!("{shown} is out of range: {min} to {max}"));
        None
    }
    fn render(&self) -> Option<String> {
        Some(quote(&format_size(self.0)))
    }
}

/// Text that is not empty and has no control characters.
impl Value for String {
    fn kind() -> String {
        "text".into()
    }
    fn example() -> String {
        quote("nomen")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", |text| match text {
            "" => Err("the text is empty".into()),
            t if t.chars().any(char::is_control) => Err("control characters have no place here".into()),
            t => Ok(t.to_owned()),
        })
    }
    fn render(&self) -> Option<String> {
        Some(quote(self))
    }
}

/// A path; relative ones start from the folder of the file that names them.
impl Value for PathBuf {
    fn kind() -> String {
        "path".into()
    }
    fn example() -> String {
        quote("some/path")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        let text = String::read(node, reader)?;
        Some(reader.resolve(&text))
    }
    fn render(&self) -> Option<String> {
        self.to_str().map(quote)
    }
}

impl Value for Endpoint {
    fn kind() -> String {
        "address `ip@port`".into()
    }
    fn example() -> String {
        quote("192.0.2.1@53")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "an address such as \"192.0.2.1@53\"", |text| Self::parse(text, None))
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

impl Value for Proto {
    fn kind() -> String {
        "transport (\"udp\", \"tcp\")".into()
    }
    fn example() -> String {
        quote("udp")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, &Self::ALL)
    }
    fn render(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// Words of [`XdpAttach`].
const ATTACH: [(&str, XdpAttach); 3] =
    [("auto", XdpAttach::Auto), ("driver", XdpAttach::Driver), ("generic", XdpAttach::Generic)];

/// Words of [`XdpCopy`].
const COPY: [(&str, XdpCopy); 3] =
    [("auto", XdpCopy::Auto), ("zero-copy", XdpCopy::ZeroCopy), ("copy", XdpCopy::Copy)];

impl Value for XdpAttach {
    fn kind() -> String {
        list(ATTACH.iter().map(|(word, _)| *word))
    }
    fn example() -> String {
        quote("driver")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, &ATTACH)
    }
    fn render(&self) -> Option<String> {
        ATTACH.iter().find(|(_, value)| value == self).map(|(word, _)| quote(word))
    }
}

impl Value for XdpCopy {
    fn kind() -> String {
        list(COPY.iter().map(|(word, _)| *word))
    }
    fn example() -> String {
        quote("copy")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, &COPY)
    }
    fn render(&self) -> Option<String> {
        COPY.iter().find(|(_, value)| value == self).map(|(word, _)| quote(word))
    }
}

impl Value for Workers {
    fn kind() -> String {
        "\"auto\" or integer (1 to 1024)".into()
    }
    fn example() -> String {
        "2".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        if node.get_ref().is_str() {
            return reader.word(node, &[("auto", Self::Auto)]);
        }
        let count = Int::<1, 1024>::read(node, reader)?;
        u16::try_from(count.0).ok().map(Self::Count)
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quote("auto"),
            Self::Count(n) => n.to_string(),
        })
    }
}

impl Value for Identity {
    fn kind() -> String {
        "\"auto\", \"hide\" or text".into()
    }
    fn example() -> String {
        quote("hide")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", |text| match text {
            "auto" => Ok(Self::Auto),
            "hide" => Ok(Self::Hide),
            t if t.is_empty() || t.len() > 255 => Err("1 to 255 octets fit in an answer".into()),
            t => Ok(Self::Text(t.to_owned())),
        })
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::Auto => quote("auto"),
            Self::Hide => quote("hide"),
            Self::Text(text) => quote(text),
        })
    }
}

impl Value for Nsid {
    fn kind() -> String {
        "text, or octets as \"0x…\"".into()
    }
    fn example() -> String {
        quote("ams1")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a string", Self::parse)
    }
    fn render(&self) -> Option<String> {
        let hex: String = self.0.iter().map(|b| format!("{b:02x}")).collect();
        Some(quote(&format!("0x{hex}")))
    }
}

impl Value for QueryLog {
    fn kind() -> String {
        "true, false, or the share of queries as a number above 0 and up to 1".into()
    }
    fn example() -> String {
        "0.01".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(true) => Some(Self::On),
            DeValue::Boolean(false) => Some(Self::Off),
            DeValue::Float(share) => match share.as_str().parse::<f64>() {
                Ok(share) if share > 0.0 && share <= 1.0 => Some(Self::Sample(share)),
                _ => {
                    reader.bad_value(node, format!("{share} is not a share above 0 and up to 1"));
                    None
                }
            },
            _ => {
                reader.wrong_type(node, &format!("{} (such as 0.01)", Self::kind()));
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::Off => "false".into(),
            Self::On => "true".into(),
            Self::Sample(share) => format!("{share:?}"),
        })
    }
}

impl Value for LogFormat {
    fn kind() -> String {
        "\"text\" or \"json\"".into()
    }
    fn example() -> String {
        quote("json")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, &[("text", Self::Text), ("json", Self::Json)])
    }
    fn render(&self) -> Option<String> {
        Some(quote(match self {
            Self::Text => "text",
            Self::Json => "json",
        }))
    }
}

impl LogLevel {
    const WORDS: [(&'static str, Self); 5] = [
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}

impl Value for LogLevel {
    fn kind() -> String {
        list(Self::WORDS.iter().map(|(word, _)| *word))
    }
    fn example() -> String {
        quote("debug")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.word(node, &Self::WORDS)
    }
    fn render(&self) -> Option<String> {
        Self::WORDS.iter().find(|(_, level)| level == self).map(|(word, _)| quote(word))
    }
}

impl Value for LogTarget {
    fn kind() -> String {
        "\"stderr\", \"stdout\" or path".into()
    }
    fn example() -> String {
        quote("stdout")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match String::read(node, reader)?.as_str() {
            "stderr" => Some(Self::Stderr),
            "stdout" => Some(Self::Stdout),
            path => Some(Self::File(reader.resolve(path))),
        }
    }
    fn render(&self) -> Option<String> {
        match self {
            Self::Stderr => Some(quote("stderr")),
            Self::Stdout => Some(quote("stdout")),
            Self::File(path) => path.to_str().map(quote),
        }
    }
}
