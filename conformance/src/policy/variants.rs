//! Known differences of servers from the model: each is a change of the model with a name and a reason, and
//! explains a response only if the model with it predicts exactly that response. `EXPLAINED.md` has the same
//! reasons, and a test compares the two.

use super::model::Hit;
use crate::servers::Kind;
use Kind::{Bind, Nomen, Recursor, Unbound};
use Often::{Always, Sometimes};

/// A change of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Variant {
    WildcardOfZone,
    PrefixesByLabels,
    PrefixLengthLost,
    OneRecord,
    AddressesTooLate,
    CnameTypeFollowed,
    CnameTypeOneStep,
    RewritesSigned,
    OverrideBlockTtl,
    OverrideShortTtl,
    Authoritative,
    NoSoa,
    AdOfTarget,
    AdKept,
    AdLost,
    AdOfTooLong,
    ClientsFirst,
    NamesFirst,
    WithoutNs,
    NsOfZone,
    WithoutNsDots,
    NsOfTop,
    NsWildcardFirst,
    PassthruOnce,
    CnameAlone,
    TargetLeftOut,
    TargetOneStep,
    RewritesAgain,
    LoopFails,
    LoopLeftOut,
    SelfAliasPasses,
    TwoAliases,
    WildcardKept,
    WildcardNotFound,
    TooLongSilent,
    TcpOnlyIsNodata,
    TcpOnlyLeaks,
    NsFails,
    NsDataLost,
    OwnDataRewritten,
    DataOrAnswer,
    ChainDropped,
    AtQueryName,
    DnameLeftOut,
    /// Not a change of the model by itself.
    OtherRule,
    /// Not a change of the model by itself.
    AfterAlias,
    /// Not a change of the model by itself.
    OtherAddress,
    /// Not a change of the model by itself.
    OverrideLeftOut,
    /// Not a change of the model by itself.
    AnswerCut,
}

/// Whether a server differs always, or depending on its cache and on the kind of rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Often {
    Always(Kind),
    Sometimes(Kind),
}

/// A change with its servers and its reason.
#[derive(Debug)]
pub(crate) struct Known {
    /// The change.
    pub variant: Variant,
    /// Short name, printed with its count.
    pub id: &'static str,
    /// The servers that differ so.
    pub servers: &'static [Often],
    /// What differs, and the document that decides.
    pub why: &'static str,
}

/// All changes, those of BIND first.
pub(crate) const KNOWN: &[Known] = &[
    Known {
        variant: Variant::WildcardOfZone,
        id: "policy-wildcard-of-zone",
        servers: &[Always(Bind), Sometimes(Unbound)],
        why: "A wildcard rule, and another rule of the same zone at a name between the wildcard and the name \
              that is asked for. In BIND the rule is found as a wildcard record is, by RFC 4592, section 3.3.1: \
              only the wildcard at the closest encloser counts, and there is none. The model goes by the draft, \
              section 5.4: of all rules that match, the one with the longest name.",
    },
    Known {
        variant: Variant::PrefixesByLabels,
        id: "policy-prefixes-by-labels",
        servers: &[Always(Bind)],
        why: "Several addresses of one RRset match prefixes of equal length. The draft, section 5.5: the rule \
              with the smallest address decides. BIND compares the owner names of the rules label by label from \
              the left, so it starts with the address's last byte.",
    },
    Known {
        variant: Variant::PrefixLengthLost,
        id: "policy-prefix-length-lost",
        servers: &[Sometimes(Bind)],
        why: "Several addresses of one RRset match prefixes of different length. The draft, section 5.5: the \
              longest prefix decides. In BIND a rule with a shorter one does in a few responses, the first by the \
              order of policy-prefixes-by-labels.",
    },
    Known {
        variant: Variant::OneRecord,
        id: "policy-one-record",
        servers: &[Sometimes(Unbound)],
        why: "A rule by an address with several records of the QTYPE. Unbound sends one of them. The draft, \
              section 3.6: the response has the records.",
    },
    Known {
        variant: Variant::AddressesTooLate,
        id: "policy-addresses-too-late",
        servers: &[Sometimes(Bind), Sometimes(Unbound), Sometimes(Recursor)],
        why: "An IP rule is passed over. In BIND this is so only where a rule of a later kind or zone matches \
              too, for the first queries for a name that is not in the cache: it looks the addresses up in the \
              cache again, before they are there (query.c, rpz_rrset_find). Unbound and PowerDNS pass over \
              these rules after another rule has matched, and for records from the cache.",
    },
    Known {
        variant: Variant::CnameTypeFollowed,
        id: "policy-cname-type-followed",
        servers: &[Always(Bind)],
        why: "QTYPE CNAME, and the alias is a wildcard alias or an override. BIND follows it all the same. RFC \
              1034, section 4.3.2, step 3a: the query goes on at the target unless QTYPE is CNAME.",
    },
    Known {
        variant: Variant::CnameTypeOneStep,
        id: "policy-cname-type-one-step",
        servers: &[Sometimes(Recursor)],
        why: "QTYPE CNAME, and the rule makes an alias. PowerDNS asks for the CNAME of the target too. RFC 1034, \
              section 4.3.2, step 3a: the query goes on at the target unless QTYPE is CNAME.",
    },
    Known {
        variant: Variant::RewritesSigned,
        id: "policy-rewrites-signed",
        servers: &[Always(Unbound), Always(Recursor)],
        why: "A client with DO, and data with signatures. BIND rewrites such data only with break-dnssec; \
              Unbound and PowerDNS always do, and have no such setting.",
    },
    Known {
        variant: Variant::OverrideBlockTtl,
        id: "policy-override-block-ttl",
        servers: &[Always(Nomen)],
        why: "The TTL of an alias that an override makes. In nomen it is block-ttl (docs/BLOCKING.md), capped by \
              max-ttl, as the record is none of the zone; in BIND it is that of the rule's own records.",
    },
    Known {
        variant: Variant::OverrideShortTtl,
        id: "policy-override-short-ttl",
        servers: &[Always(Bind)],
        why: "The TTL of an alias that an override makes, where the rule itself has records of other types only. \
              BIND has no TTL of the rule then, and takes 5 seconds (DNS_RPZ_TTL_DEFAULT).",
    },
    Known {
        variant: Variant::Authoritative,
        id: "policy-authoritative",
        servers: &[Sometimes(Unbound)],
        why: "AA in a rewritten response. Unbound sets it, as for its local zones. The data is not that of the \
              zone, and BIND and PowerDNS do not set it.",
    },
    Known {
        variant: Variant::NoSoa,
        id: "policy-without-soa",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "The SOA record of the policy zone. BIND adds it to each rewritten response, PowerDNS with \
              includeSOA, except beside an error; Unbound only to some that it rewrites without a query of its own.",
    },
    Known {
        variant: Variant::AdOfTarget,
        id: "policy-ad-of-target",
        servers: &[Always(Recursor)],
        why: "AD in a rewritten response. PowerDNS sets it if the target of the rule's alias is secure. RFC 4035, \
              section 3.2.3: all RRsets of the answer must be authentic, and the alias is not.",
    },
    Known {
        variant: Variant::AdKept,
        id: "policy-ad-kept",
        servers: &[Sometimes(Recursor)],
        why: "AD in a rewritten response. PowerDNS leaves it as it was before an IP rule rewrote the answer. RFC \
              4035, section 3.2.3: all RRsets of the answer must be authentic.",
    },
    Known {
        variant: Variant::AdLost,
        id: "policy-ad-lost",
        servers: &[Sometimes(Unbound)],
        why: "A secure response without AD. With respip, Unbound sends some from its cache without a check, \
              after a query with CD has brought them there.",
    },
    Known {
        variant: Variant::AdOfTooLong,
        id: "policy-ad-of-too-long",
        servers: &[Sometimes(Bind)],
        why: "A wildcard alias whose target is too long. BIND sends some of these responses with AD. RFC 4035, \
              section 3.2.3: AD is for authentic data, and there is none.",
    },
    Known {
        variant: Variant::ClientsFirst,
        id: "policy-clients-first",
        servers: &[Always(Recursor)],
        why: "CLIENT-IP rules of a later zone come before the other rules of an earlier one. The draft, section \
              5.2: the first zone with a rule that matches decides, and only then the kind of rule.",
    },
    Known {
        variant: Variant::NamesFirst,
        id: "policy-names-first",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "Rules of a later zone by names come before rules of an earlier one by name servers or addresses. \
              The draft, section 5.2: the first zone with a rule that matches decides. Unbound and PowerDNS \
              apply what they know before they ask other servers, as if BIND had qname-wait-recurse no for all \
              zones.",
    },
    Known {
        variant: Variant::WithoutNs,
        id: "policy-without-ns",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule about name servers is passed over. Unbound and PowerDNS compare the servers that they are \
              about to ask, so no rule of this kind applies to records from the cache. BIND looks up the NS \
              records for each response.",
    },
    Known {
        variant: Variant::NsOfZone,
        id: "policy-ns-of-zone",
        servers: &[Sometimes(Bind), Sometimes(Unbound)],
        why: "A rule about the name servers of a zone above that of the name. The draft, section 4.4: the name \
              servers of all these zones count, up to min-ns-dots. Unbound compares those of the zone whose \
              servers it asks; in BIND the others are missing where a later zone has a rule about the nearest ones.",
    },
    Known {
        variant: Variant::WithoutNsDots,
        id: "policy-without-ns-dots",
        servers: &[Always(Unbound), Always(Recursor)],
        why: "A rule about the name servers of a zone below a top-level domain, with min-ns-dots 2. That is a \
              setting of BIND, which then leaves these servers out; Unbound and PowerDNS have none.",
    },
    Known {
        variant: Variant::NsOfTop,
        id: "policy-ns-of-top",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule about the name servers of a top-level domain or of the root. BIND leaves these out, by its \
              default of min-ns-dots; Unbound and PowerDNS apply the rule when they ask these servers, so for \
              all names below.",
    },
    Known {
        variant: Variant::NsWildcardFirst,
        id: "policy-ns-wildcard-first",
        servers: &[Sometimes(Bind)],
        why: "A zone has several servers, and a policy zone has an exact rule about the name of one and a \
              wildcard rule about another. The draft, section 5.4: the longest name decides. In BIND the wildcard \
              rule does in some responses.",
    },
    Known {
        variant: Variant::PassthruOnce,
        id: "policy-passthru-once",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "PASSTHRU, and the name has an alias. BIND ends rewriting with it; Unbound and PowerDNS do not \
              rewrite this name, but the next.",
    },
    Known {
        variant: Variant::CnameAlone,
        id: "policy-cname-alone",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule makes an alias, and the response has it without the records of the target. The draft, \
              section 3.6: the response is as if the name had this alias, so it is followed.",
    },
    Known {
        variant: Variant::TargetLeftOut,
        id: "policy-target-left-out",
        servers: &[Sometimes(Unbound)],
        why: "A rule makes an alias, and the response has the RCODE of its target without the records.",
    },
    Known {
        variant: Variant::TargetOneStep,
        id: "policy-target-one-step",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule by name servers or addresses makes an alias, and its target is an alias. The response ends \
              with the second alias (PowerDNS/pdns, pull request 15893, says that this is to be mended).",
    },
    Known {
        variant: Variant::RewritesAgain,
        id: "policy-rewrites-again",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "The target of a rule's alias has a rule too. BIND does not rewrite it, so that no rules can make a \
              chain without end; Unbound does, and responds with SERVFAIL where it does not end.",
    },
    Known {
        variant: Variant::LoopFails,
        id: "policy-loop-fails",
        servers: &[Always(Nomen), Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule's alias leads back to a name of the chain. RFC 1034, section 3.6.2: CNAME loops are \
              \"signalled as an error\", so the response is SERVFAIL without records. BIND's chain ends where \
              rules end.",
    },
    Known {
        variant: Variant::SelfAliasPasses,
        id: "policy-alias-to-itself",
        servers: &[Always(Nomen)],
        why: "A rule, or an override, makes an alias of a name to itself. That is the old form of \"rpz-passthru.\", \
              and the alias would be a loop (RFC 1034, section 3.6.2), so nomen exempts the query. BIND does that \
              only for a QNAME rule with its own name (dns_rpz_decode_cname); otherwise it sends the alias.",
    },
    Known {
        variant: Variant::LoopLeftOut,
        id: "policy-loop-left-out",
        servers: &[Sometimes(Recursor)],
        why: "A rule's alias leads back to a name of the chain. PowerDNS leaves such a rule out.",
    },
    Known {
        variant: Variant::TwoAliases,
        id: "policy-two-aliases",
        servers: &[Sometimes(Recursor)],
        why: "A rule's alias leads back to a name of the chain. The answer of PowerDNS has both aliases of that \
              name. RFC 2181, section 10.1: there is one.",
    },
    Known {
        variant: Variant::WildcardKept,
        id: "policy-wildcard-kept",
        servers: &[Sometimes(Unbound)],
        why: "A wildcard alias. The draft, section 3.6: the name that is asked for replaces the asterisk. In \
              Unbound it does not where an IP rule, a CLIENT-IP rule or a second rule makes the alias.",
    },
    Known {
        variant: Variant::WildcardNotFound,
        id: "policy-wildcard-not-found",
        servers: &[Sometimes(Unbound)],
        why: "A wildcard alias whose asterisk stays (policy-wildcard-kept), with NXDOMAIN.",
    },
    Known {
        variant: Variant::TooLongSilent,
        id: "policy-too-long-silent",
        servers: &[Sometimes(Recursor)],
        why: "A wildcard alias whose target is too long. BIND responds with YXDOMAIN, as RFC 6672, section 2.2 \
              does for a DNAME; PowerDNS does not respond.",
    },
    Known {
        variant: Variant::TcpOnlyIsNodata,
        id: "policy-tcp-only-is-nodata",
        servers: &[Sometimes(Unbound)],
        why: "TCP-only, and the query came by TCP. The draft, section 3.5: the response is then that without any \
              rule. Unbound sends NODATA.",
    },
    Known {
        variant: Variant::TcpOnlyLeaks,
        id: "policy-tcp-only-leaks",
        servers: &[Sometimes(Recursor)],
        why: "TCP-only by a rule about name servers, and the query came by TCP. The draft, section 3.5: the \
              response is then that without any rule. PowerDNS sends RCODE 14, which is not assigned.",
    },
    Known {
        variant: Variant::NsFails,
        id: "policy-ns-fails",
        servers: &[Sometimes(Unbound), Sometimes(Recursor)],
        why: "A rule about a name server, its name or its address, and the server is in another zone. Unbound and \
              PowerDNS apply it to their own queries for the server's address too, so they have no server to \
              ask, and respond with SERVFAIL; PowerDNS truncates some of these responses.",
    },
    Known {
        variant: Variant::NsDataLost,
        id: "policy-ns-data-lost",
        servers: &[Sometimes(Unbound)],
        why: "A rule about name servers with records. Unbound responds with NODATA to some queries of a type \
              that these records have. The draft, section 3.6: the response has the records.",
    },
    Known {
        variant: Variant::OwnDataRewritten,
        id: "policy-own-data-rewritten",
        servers: &[Sometimes(Unbound)],
        why: "A rule about names or name servers with addresses, and an IP rule matches these addresses. Unbound \
              applies the IP rule to them. The draft, section 4.2: an IP rule is about the addresses that are found \
              without rules.",
    },
    Known {
        variant: Variant::DataOrAnswer,
        id: "policy-data-or-answer",
        servers: &[Sometimes(Recursor)],
        why: "An IP rule with records of other types only. The draft, section 3.6: the response is NODATA. \
              PowerDNS sends the answer that the rule should replace.",
    },
    Known {
        variant: Variant::ChainDropped,
        id: "policy-chain-dropped",
        servers: &[Sometimes(Recursor)],
        why: "A rule applies to a later name of a chain. BIND and Unbound keep the aliases before it; PowerDNS \
              leaves them out beside NXDOMAIN, NODATA and records.",
    },
    Known {
        variant: Variant::AtQueryName,
        id: "policy-at-query-name",
        servers: &[Sometimes(Recursor)],
        why: "A rule by name servers or addresses applies to a later name of a chain. PowerDNS gives the records \
              of the rule the name that was asked for, not that of the chain to which the rule applies.",
    },
    Known {
        variant: Variant::DnameLeftOut,
        id: "policy-dname-left-out",
        servers: &[Sometimes(Recursor)],
        why: "QTYPE CNAME below a DNAME, without a rule. PowerDNS sends the CNAME without its DNAME. RFC 6672, \
              section 3.1: both are in the answer.",
    },
];

/// Another rule about an address decides.
pub(crate) const OTHER_ADDRESS: Known = Known {
    variant: Variant::OtherAddress,
    id: "policy-other-address-rule",
    servers: &[Sometimes(Bind)],
    why: "Several addresses of one RRset match IP rules. The draft, section 5: the first zone decides, then the \
          longest prefix. In BIND the rule of a later zone or a shorter one does in a few responses (see \
          policy-prefix-length-lost). The response must be exactly that of an IP rule that matches.",
};

/// Another rule decides, or none. Tried when no change explains a response by itself.
pub(crate) const OTHER_RULE: Known = Known {
    variant: Variant::OtherRule,
    id: "policy-other-rule",
    servers: &[Sometimes(Unbound), Sometimes(Recursor)],
    why: "Another rule that matches decides, or none: which one depends on the state of the cache and on the \
          servers that are asked. The draft, section 5, has one order for all rules, which BIND and the model \
          keep. The response must be exactly that of a rule that matches.",
};

/// The response after a rule's alias is another one.
pub(crate) const AFTER_ALIAS: Known = Known {
    variant: Variant::AfterAlias,
    id: "policy-after-alias",
    servers: &[Sometimes(Unbound), Sometimes(Recursor)],
    why: "A rule that matches makes an alias, and what comes after it fits none of the other reasons: the \
          target is rewritten again in an order of its own, or the chain goes round until it fails or is \
          truncated. The response must have the alias or no other records than without a rule, be truncated, or \
          be SERVFAIL.",
};

/// A rule's own action holds where an override makes an alias.
pub(crate) const OVERRIDE_LEFT_OUT: Known = Known {
    variant: Variant::OverrideLeftOut,
    id: "policy-override-left-out",
    servers: &[Sometimes(Unbound)],
    why: "rpz-cname-override, and the rule matches at a later name of a chain, or its target has a rule again. \
          Unbound applies the action of the rule itself. The manual of unbound.conf: the override replaces the \
          actions of all rules of the zone. The response must be exactly that of the rule's own action.",
};

/// A part of the answer is missing.
pub(crate) const ANSWER_CUT: Known = Known {
    variant: Variant::AnswerCut,
    id: "policy-answer-cut",
    servers: &[Sometimes(Unbound), Sometimes(Recursor)],
    why: "A rule matches, and the name has an alias. PowerDNS, and Unbound after a rule with records, send NOERROR \
          with only a part of the chain; Unbound truncates a few of these responses. The draft, section 3: the \
          response has the chain and what the rule says. All records must be of the response without rules.",
};

/// Returns all reasons, in the order of `EXPLAINED.md`.
pub(crate) fn all() -> impl Iterator<Item = &'static Known> {
    KNOWN.iter().chain([&OTHER_ADDRESS, &AFTER_ALIAS, &OVERRIDE_LEFT_OUT, &ANSWER_CUT, &OTHER_RULE])
}

/// A set of changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variants {
    /// The changes.
    pub set: Vec<Variant>,
    /// Set if this rule decides, or none, whatever the order of rules says.
    pub forced: Option<Option<Hit>>,
}

impl Variants {
    /// Whether a change is in the set.
    pub(crate) fn has(&self, variant: Variant) -> bool {
        self.set.contains(&variant)
    }
}
