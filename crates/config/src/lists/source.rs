//! Where the text of a list is from: a file, or a URL that is fetched again and again.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;
use toml::de::DeValue;
use url::Url;

use super::PolicyList;
use crate::report::Diagnostic;
use crate::table::read::{At, Reader};
use crate::table::value::{Value, quote};

/// Where the text of a list is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListSource {
    /// A file.
    File(PathBuf),
    /// A document by HTTPS.
    Url(ListFetching),
}

/// What a list is fetched from, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListFetching {
    /// Its URL.
    pub url: Url,
    /// Time between two fetches.
    pub refresh: Duration,
    /// Longest time of one.
    pub timeout: Duration,
    /// PEM file of the CA certificates to trust, in place of those of the system.
    pub ca_file: Option<PathBuf>,
}

impl ListSource {
    /// Returns what is fetched, if the list has a URL.
    pub fn fetching(&self) -> Option<&ListFetching> {
        match self {
            Self::File(_) => None,
            Self::Url(fetching) => Some(fetching),
        }
    }

    /// Whether both have the same file or URL.
    pub fn is_same_text(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => one == other,
            (Self::Url(one), Self::Url(other)) => one.url == other.url,
            _ => false,
        }
    }
}

impl fmt::Display for ListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Url(fetching) => fetching.url.fmt(f),
        }
    }
}

/// The URL of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListUrl(pub(super) Url);

/// What is wrong with the URL of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum UrlFault {
    /// Not a URL.
    Syntax(String, url::ParseError),
    /// Of another scheme.
    Scheme(String),
    /// With a user name or password.
    User,
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(text, url::ParseError::RelativeUrlWithoutBase) => {
                write!(f, "`{text}` is not a URL: it does not begin with https://")
            }
            Self::Syntax(text, fault) => write!(f, "`{text}` is not a URL: {fault}"),
            Self::Scheme(scheme) => write!(f, "`{scheme}` is not a scheme that lists can have, use https"),
            Self::User => f.write_str("a user name or password in the URL is not supported"),
        }
    }
}

impl ListUrl {
    fn parse(text: &str) -> Result<Self, UrlFault> {
        let mut url = Url::parse(text).map_err(|fault| UrlFault::Syntax(text.to_owned(), fault))?;
        if !["https", "http"].contains(&url.scheme()) {
            return Err(UrlFault::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(UrlFault::User);
        }
        // Servers do not get it.
        url.set_fragment(None);
        Ok(ListUrl(url))
    }
}

impl Value for ListUrl {
    fn kind() -> String {
        "URL".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a URL such as \"https://lists.example.org/ads.txt\"", Self::parse)
    }
    fn render(&self) -> Option<String> {
        Some(quote(self.0.as_str()))
    }
}

impl PolicyList {
    /// Returns the source; `None` for a list with neither a file nor a URL, which is a fault.
    pub(super) fn source(&self) -> Option<ListSource> {
        let PolicyList { file, url, refresh, timeout, ca_file, .. } = self;
        let [refresh, timeout] =
            [refresh.value.0, timeout.value.0].map(|seconds| Duration::from_secs(seconds.into()));
        match (&url.value, &file.value) {
            (Some(ListUrl(url)), _) => {
                let (url, ca_file) = (url.clone(), ca_file.value.clone());
                Some(ListSource::Url(ListFetching { url, refresh, timeout, ca_file }))
            }
            (None, file) => file.clone().map(ListSource::File),
        }
    }

    /// Reports two sources, none, and keys of the other one.
    pub(super) fn check_source(&self, block: &At<PolicyList>, faults: &mut Vec<Diagnostic>) {
        let PolicyList { file, url, refresh, timeout, ca_file, .. } = self;
        match (&file.value, &url.value) {
            (Some(_), Some(_)) => {
                let fault = Diagnostic::at(url.place.as_ref(), "a list has a `file` or a `url`, not both");
                faults.push(fault.also(file.place.as_ref(), "the file is here"));
            }
            // A source with a fault of its own is reported.
            (None, None) if file.place.is_some() || url.place.is_some() => {}
            (None, None) => {
                let message = format!("the list `{}` has neither `file` nor `url`", self.name.value);
                faults.push(Diagnostic::at(block.place.as_ref(), message));
            }
            (None, Some(_)) => {}
            (Some(_), None) => {
                let given = [&refresh.place, &timeout.place, &ca_file.place];
                for (key, place) in ["refresh", "timeout", "ca-file"].into_iter().zip(given) {
                    if place.is_some() {
                        let message = format!("`{key}` has no effect: the list has no `url`");
                        faults.push(Diagnostic::at(place.as_ref(), message));
                    }
                }
            }
        }
    }

    /// Returns warnings about a URL whose text can be changed on the way, or is not stored.
    pub(super) fn warnings(&self, has_state: bool) -> Vec<Diagnostic> {
        let (name, Some(ListUrl(url))) = (&self.name.value, &self.url.value) else { return Vec::new() };
        let mut warnings = Vec::new();
        let place = self.url.place.as_ref();
        if url.scheme() == "http" {
            let message =
                format!("the list `{name}` is fetched without TLS: others can change it on the way");
            warnings.push(Diagnostic::at(place, message).hint("use https:// if the server has it"));
        }
        if !has_state {
            let message = format!(
                "the list `{name}` is not stored on disk: after a start it has no rules until it is fetched"
            );
            warnings.push(Diagnostic::at(place, message).hint("set `state-dir` in [server]"));
        }
        warnings
    }
}
