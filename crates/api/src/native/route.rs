//! [`Route`]: a method and a path, what a request for them may have, which right it needs, and what it does.

use std::future::Future;
use std::pin::Pin;

use config::api::ApiRight;
use control::protocol::ControlCommand;
use wire::ZoneName;

use super::arguments::Arguments;
use super::schemas::Schema;
use crate::parts::ApiParts;
use crate::reply::{ApiFault, Reply};
use crate::request::ApiRequest;
use crate::rights::{Caller, Scope};

/// The placeholder of a zone's name in a path.
pub(super) const ZONE: &str = "{zone}";

/// What an argument is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentKind {
    /// Text.
    Text,
    /// One of these words.
    Words(&'static [&'static str]),
    /// True or false; in a query string also without a value.
    Flag,
    /// A number from 0 on.
    Number,
    /// A list of texts.
    Texts,
    /// A list of objects of this schema.
    Objects(&'static str),
}

/// An argument: a parameter of the query string of GET and DELETE, a member of the body of POST.
#[derive(Debug, Clone, Copy)]
pub(super) struct Argument {
    pub(super) name: &'static str,
    pub(super) kind: ArgumentKind,
    pub(super) required: bool,
    pub(super) about: &'static str,
}

/// Returns an argument that may be missing.
pub(super) const fn optional(name: &'static str, kind: ArgumentKind, about: &'static str) -> Argument {
    Argument { name, kind, required: false, about }
}

/// Returns an argument that must be given.
pub(super) const fn required(name: &'static str, kind: ArgumentKind, about: &'static str) -> Argument {
    Argument { name, kind, required: true, about }
}

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// A valid token.
    Token,
    /// A right for the whole server.
    Server(ApiRight),
    /// A right for the zone in the path.
    Zone(ApiRight),
    /// A right for all records of the zone in the path.
    AllRecords(ApiRight),
    /// A right for some zone; the handler checks the rest.
    SomeZone(ApiRight),
}

impl Need {
    /// Returns an error if the caller lacks the right.
    pub(super) fn check(self, caller: &Caller, zone: Option<&ZoneName>) -> Result<(), ApiFault> {
        let no_zone = || ApiFault::bad_request("the path has no zone");
        match self {
            Need::Token => Ok(()),
            Need::Server(right) => caller.must(right, Scope::Server),
            Need::SomeZone(right) => caller.must(right, Scope::SomeZone),
            Need::Zone(right) => caller.must(right, Scope::Zone(zone.ok_or_else(no_zone)?)),
            Need::AllRecords(right) => caller.must(right, Scope::AllRecords(zone.ok_or_else(no_zone)?)),
        }
    }

    /// Returns the right and what it is needed for, for the document.
    pub(super) fn in_words(self) -> (Option<ApiRight>, &'static str) {
        match self {
            Need::Token => (None, "any token"),
            Need::Server(right) => (Some(right), "the whole server"),
            Need::SomeZone(right) => (Some(right), "the zones concerned"),
            Need::Zone(right) => (Some(right), "the zone"),
            Need::AllRecords(right) => (Some(right), "all records of the zone"),
        }
    }
}

/// A future reply.
pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Reply, ApiFault>> + Send>>;

/// What a request does.
#[derive(Clone, Copy)]
pub(super) enum Run {
    /// Executes a command of the control socket, whose result is the reply.
    Command(fn(&Arguments) -> Result<ControlCommand, ApiFault>),
    /// Executes such a command, whose text is the reply.
    Text(fn(&Arguments) -> Result<ControlCommand, ApiFault>),
    /// Calls this function.
    Handler(fn(ApiParts, ApiRequest, Arguments) -> Answering),
}

/// A method and a path.
pub(super) struct Route {
    /// GET, POST or DELETE.
    pub(super) method: &'static str,
    /// The path behind [`BASE`](super::BASE), with [`ZONE`] for the name of a zone.
    pub(super) path: &'static str,
    /// What it does.
    pub(super) about: &'static str,
    pub(super) need: Need,
    pub(super) arguments: &'static [Argument],
    /// The reply.
    pub(super) reply: &'static Schema,
    pub(super) run: Run,
}

impl Route {
    /// Returns whether the path of a request is this one.
    pub(super) fn matches(&self, segments: &[&str]) -> bool {
        let own = self.path.split('/').skip(1);
        let same = own.clone().zip(segments).all(|(own, segment)| own == ZONE || own == *segment);
        same && own.count() == segments.len()
    }

    /// Returns the name of the zone in the path of a request.
    pub(super) fn zone<'s>(&self, segments: &[&'s str]) -> Option<&'s str> {
        let at = self.path.split('/').skip(1).position(|own| own == ZONE)?;
        segments.get(at).copied()
    }

    /// Returns whether its arguments are those of the query string.
    pub(super) fn has_query(&self) -> bool {
        self.method != "POST"
    }
}
