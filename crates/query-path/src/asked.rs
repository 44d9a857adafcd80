//! The input of a source of answers.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use transfer::tsig::Verified;
use transport::{Client, ClientCertificate};
use wire::hash::HashedName;
use wire::{Name, ZoneName};

use crate::client_groups::GroupClient;
use crate::request::{QueryQuestion, Request};
use crate::rule_note::RuleNote;
use crate::stats::QueryStats;

/// Facts about a query that are worked out on request, since few queries need them.
pub trait QueryFacts {
    /// Whether the name is resolved for the client where a zone in memory delegates it.
    fn resolves(&self) -> bool;

    /// See [`Asked::apex`].
    fn apex(&self) -> ZoneName;

    /// See [`Asked::apex_in_view`].
    fn apex_in_view(&self) -> Option<ZoneName>;

    /// See [`Asked::certificate`].
    fn certificate(&self) -> Option<&Arc<ClientCertificate>>;

    /// The name that the client has written for itself, in lower case.
    fn client_name(&self) -> Option<&Arc<str>>;
}

/// A query as memory and sources receive it.
pub struct Asked<'a> {
    /// The message as received.
    pub packet: &'a [u8],
    /// The client's address and transport.
    pub client: &'a Client,
    /// When the batch was received.
    pub received: Instant,
    /// The parsed query.
    pub request: &'a Request,
    /// Its question: QNAME's length, QTYPE, QCLASS. In an UPDATE, the zone (RFC 2136 §2.3).
    pub question: QueryQuestion,
    /// QNAME in lower case, and the hash of each of its suffixes.
    pub qname: &'a HashedName,
    /// Whether recursion is available to the client.
    pub may_recurse: bool,
    /// What few queries need.
    pub facts: &'a dyn QueryFacts,
    /// The TSIG key of the query and the state that signs its reply, if its TSIG is valid.
    pub verified: Option<&'a Verified>,
    /// The counters of the worker that answers.
    pub stats: &'a QueryStats,
    /// The rule of a policy that decides the query, for logs: memory and sources set it.
    pub rule: &'a Cell<Option<RuleNote>>,
}

impl<'a> Asked<'a> {
    /// Returns the zone of the name QNAME that the query is about: that of the client's view, if it has one
    /// of the name, else the one outside views, whether it exists or not.
    pub fn apex(&self) -> ZoneName {
        self.facts.apex()
    }

    /// Returns the name of the zone QNAME in the client's view, whether clients of the view get answers from
    /// such a zone or not; `None` if the client is in no view.
    pub fn apex_in_view(&self) -> Option<ZoneName> {
        self.facts.apex_in_view()
    }

    /// The certificate that the client has shown over TLS.
    pub fn certificate(&self) -> Option<&'a Arc<ClientCertificate>> {
        self.facts.certificate()
    }

    /// Returns the client as groups see it.
    #[inline]
    pub fn group_client(&self) -> GroupClient<'a> {
        GroupClient {
            client: self.client,
            key: self.verified.map(|verified| verified.key().name()),
            ids: self.request.edns.as_ref().and_then(|edns| edns.client_ids(self.packet)),
            name: if self.client.transport.has_client_names() { self.facts.client_name() } else { None },
        }
    }

    /// QNAME as the client wrote it.
    #[inline]
    pub fn name(&self) -> Name<'a> {
        self.question.name(self.packet)
    }
}
