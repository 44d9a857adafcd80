//! The table of routes.

use config::api::ApiRight::{Change, Manage, Policy, Read, Server};
use config::upstreams::UpstreamServer;
use control::protocol::{ClientDetails, ControlCommand as Verb, RolledRole, TopKind};

use super::arguments::Arguments;
use super::route::ArgumentKind::{Flag, Number, Objects, Text, Texts, Words};
use super::route::{Argument, Need, Route, Run, optional, required};
use super::schemas::{self, Schema};
use super::{edits, queries, records, server, zones};
use crate::reply::ApiFault;

/// Entries of a top list, unless the request has `count`.
const DEFAULT_COUNT: u64 = 10;
/// Most entries of a top list.
const MAX_COUNT: u64 = 1000;

const LIMIT: Argument = optional("limit", Number, "Most entries, 1 to 1000; 100 if it is missing.");
const COUNT: Argument = optional("count", Number, "Most entries, 1 to 1000; 10 if it is missing.");
const HOUR: Argument = optional("hour", Flag, "In the last hour instead of since the start.");
const NAME: Argument = required("name", Text, "The domain name.");
const CLIENT: Argument = optional("client", Text, "The IP address of the client.");
const TSIG_KEY: Argument = optional("key", Text, "The TSIG key that signs the query.");
const ON: Argument =
    optional("on", Text, "The address of this server that the query is sent to, as IP or IP@PORT.");
const PROTO: Argument = optional("proto", Text, "The transport of the query, such as tls.");
const MAC: Argument =
    optional("mac", Text, "The MAC address that the client, a forwarder, sends in an EDNS option.");
const CLIENT_ID: Argument = optional(
    "client_id",
    Text,
    "The identifier of a client: that a forwarder sends in an EDNS option, or that the client itself writes.",
);
const EDNS_TAG: Argument =
    optional("edns_tag", Number, "The tag of a client that a forwarder sends in an EDNS option.");
const DOMAIN: Argument = required("domain", Text, "The domain.");
const KEY: Argument = required("key", Text, "The key, as TAG or TAG/ALGORITHM.");

/// Returns all routes.
pub(super) fn routes() -> impl Iterator<Item = &'static Route> {
    [SERVER, ZONES, ZONE_COMMANDS, KEYS, RESOLVER, POLICIES].into_iter().flatten()
}

/// Returns a route that reads.
const fn get(
    path: &'static str,
    about: &'static str,
    need: Need,
    arguments: &'static [Argument],
    reply: &'static Schema,
    run: Run,
) -> Route {
    Route { method: "GET", path, about, need, arguments, reply, run }
}

/// Returns a route that changes something.
const fn post(
    path: &'static str,
    about: &'static str,
    need: Need,
    arguments: &'static [Argument],
    reply: &'static Schema,
    run: Run,
) -> Route {
    Route { method: "POST", path, about, need, arguments, reply, run }
}

/// Returns a route that removes something.
const fn delete(
    path: &'static str,
    about: &'static str,
    need: Need,
    arguments: &'static [Argument],
    reply: &'static Schema,
    run: Run,
) -> Route {
    Route { method: "DELETE", path, about, need, arguments, reply, run }
}

const SERVER: &[Route] = &[
    get(
        "/status",
        "The state of the server.",
        Need::Server(Read),
        &[],
        &schemas::SERVER_STATUS,
        Run::Command(|_| Ok(Verb::Status)),
    ),
    get(
        "/stats",
        "Every counter.",
        Need::Server(Read),
        &[],
        &schemas::COUNTERS,
        Run::Command(|_| Ok(Verb::Stats)),
    ),
    get(
        "/rates",
        "Queries, replies and latency of the last ten minutes.",
        Need::Server(Read),
        &[],
        &schemas::RATES,
        Run::Handler(server::rates),
    ),
    get(
        "/self",
        "The token of this request, and its rights.",
        Need::Token,
        &[],
        &schemas::OWN_TOKEN,
        Run::Handler(server::own),
    ),
    get(
        "/tokens",
        "All tokens of the API, and when each was used last.",
        Need::Server(Server),
        &[],
        &schemas::TOKENS,
        Run::Command(|_| Ok(Verb::TokenList)),
    ),
    post(
        "/reload",
        "Reads the configuration and changed zones again.",
        Need::Server(Server),
        &[optional("force", Flag, "Remove zones that are no longer configured, however many they are.")],
        &schemas::ROUND,
        Run::Command(|given| Ok(Verb::Reload { force: given.flag("force") })),
    ),
    get(
        "/limits/top",
        "The networks that are limited most.",
        Need::Server(Read),
        &[COUNT, HOUR],
        &schemas::TOP,
        Run::Command(|given| Ok(Verb::LimitsTop { count: count(given)?, hour: given.flag("hour") })),
    ),
    get(
        "/discovery",
        "How clients discover the encrypted listeners.",
        Need::Server(Read),
        &[],
        &schemas::DISCOVERY,
        Run::Command(|_| Ok(Verb::Discovery)),
    ),
    get(
        "/database",
        "The state of the database of zones, and the nodes that use it. Status 409 without [database].",
        Need::Server(Read),
        &[],
        &schemas::DATABASE,
        Run::Command(|_| Ok(Verb::Database)),
    ),
    get(
        "/secondaries",
        "Zones with primaries or secondaries: transfers, NOTIFY and faults, those with faults first.",
        Need::SomeZone(Read),
        &[LIMIT],
        &schemas::SECONDARIES,
        Run::Handler(server::secondaries),
    ),
    get(
        "/explain",
        "How a query would be answered, and why.",
        Need::Server(Read),
        &[
            NAME,
            optional("type", Text, "The query type; A if it is missing."),
            CLIENT,
            TSIG_KEY,
            ON,
            PROTO,
            MAC,
            CLIENT_ID,
            EDNS_TAG,
            optional("dnssec", Flag, "Whether the DNSSEC OK bit is set."),
        ],
        &schemas::EXPLANATION,
        Run::Command(explain),
    ),
    get(
        "/queries",
        "A stream of answered queries (Server-Sent Events).",
        Need::Server(Server),
        &[
            optional("name", Text, "Only names at or below this one."),
            optional("client", Text, "Only clients with this address, or in this network."),
            optional("type", Text, "Only queries of this type."),
            optional("rcode", Text, "Only answers with this response code."),
        ],
        &schemas::QUERIES,
        Run::Handler(queries::stream),
    ),
];

const ZONES: &[Route] = &[
    get(
        "/zones",
        "The zones that the token may read, by name.",
        Need::SomeZone(Read),
        &[
            optional("search", Text, "Only zones whose name contains this."),
            optional(
                "state",
                Words(&["ok", "old", "failed", "empty", "expired"]),
                "Only zones in this state.",
            ),
            optional(
                "signatures",
                Words(&["expiring", "expired"]),
                "Only zones whose first signature expires within three days, or has expired.",
            ),
            optional("after", Text, "Only zones behind this name: `next` of the page before."),
            LIMIT,
        ],
        &schemas::ZONES,
        Run::Handler(zones::list),
    ),
    get(
        "/zones/{zone}",
        "The state of a zone. The entity tag is its serial.",
        Need::Zone(Read),
        &[],
        &schemas::ZONE_STATUS,
        Run::Handler(zones::status),
    ),
    post(
        "/zones",
        "Creates a zone that this server then serves: with its first records, in the database if there is one, or from primaries. The reply has status 201.",
        Need::SomeZone(Manage),
        &[
            required("name", Text, "The zone's name, or ZONE@VIEW in a view."),
            optional(
                "template",
                Text,
                "Its template; if it is missing, that of [api], or of [database] for a zone in the database.",
            ),
            optional(
                "records",
                Texts,
                "Its first records in zone file syntax, such as `@ 3600 NS ns1.example.net.`. Without an SOA record it gets one.",
            ),
            optional("primaries", Texts, "The servers that it comes from, as in `primaries` of [[zone]]."),
        ],
        &schemas::ROUND,
        Run::Handler(edits::create),
    ),
    delete(
        "/zones/{zone}",
        "Removes a zone that was added or created at run time, or is in the database, with all that is stored of it.",
        Need::Zone(Manage),
        &[],
        &schemas::ROUND,
        Run::Handler(edits::remove),
    ),
    post(
        "/zones/{zone}/edit",
        "Changes records of a zone, all or none. The change is stored and served when the reply comes. With `at_serial` or `If-Match`, status 412 if the zone has another serial.",
        Need::SomeZone(Change),
        &[
            required("edits", Objects("Edit"), "What RRsets hold afterwards, in this order."),
            optional("at_serial", Number, "The serial that the zone must have."),
            optional("dry_run", Flag, "Only report what would change."),
        ],
        &schemas::EDITED,
        Run::Handler(edits::edit),
    ),
    get(
        "/zones/{zone}/history",
        "The newest stored changes of a zone; of one in the database, the newest there.",
        Need::AllRecords(Read),
        &[LIMIT],
        &schemas::HISTORY,
        Run::Handler(edits::history),
    ),
    get(
        "/zones/{zone}/diff",
        "The difference of two stored versions of a zone, without signatures.",
        Need::AllRecords(Read),
        &[
            required("from", Number, "The serial of one version."),
            required("to", Number, "The serial of the other version, earlier or later."),
        ],
        &schemas::DIFFERENCE,
        Run::Handler(edits::difference),
    ),
    get(
        "/zones/{zone}/records",
        "The records of a zone in canonical order, without signatures. The entity tag is its serial.",
        Need::Zone(Read),
        &[
            optional("search", Text, "Only RRsets whose owner or records contain this."),
            optional("type", Text, "Only RRsets of this type."),
            optional("after", Text, "Only owners behind this one: `next` of the page before."),
            LIMIT,
        ],
        &schemas::RECORDS,
        Run::Handler(records::list),
    ),
    get(
        "/zones/{zone}/dump",
        "The zone as master-file text.",
        Need::AllRecords(Read),
        &[],
        &schemas::ZONE_FILE,
        Run::Text(|given| Ok(Verb::ZoneDump { name: given.zone_text() })),
    ),
];

const ZONE_COMMANDS: &[Route] = &[
    post(
        "/zones/{zone}/reload",
        "Reads the zone again.",
        Need::Zone(Manage),
        &[optional(
            "force",
            Flag,
            "Take the contents of its file, even if the zone has been changed otherwise.",
        )],
        &schemas::ROUND,
        Run::Command(|given| Ok(Verb::ZoneReload { name: given.zone_text(), force: given.flag("force") })),
    ),
    post(
        "/zones/{zone}/freeze",
        "Refuses changes from now on, and writes the zone's file.",
        Need::Zone(Manage),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneFreeze { name: given.zone_text() })),
    ),
    post(
        "/zones/{zone}/thaw",
        "Loads the zone from its file, and accepts changes again.",
        Need::Zone(Manage),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneThaw { name: given.zone_text() })),
    ),
    post(
        "/zones/{zone}/write",
        "Writes the zone to its own file.",
        Need::Zone(Manage),
        &[optional("force", Flag, "Overwrite the file even if it was edited.")],
        &schemas::ZONE_RESULT,
        Run::Command(|given| {
            Ok(Verb::ZoneWrite { name: given.zone_text(), to: None, force: given.flag("force") })
        }),
    ),
    post(
        "/zones/{zone}/refresh",
        "Asks the primaries for a newer version.",
        Need::Zone(Manage),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneRefresh { name: given.zone_text() })),
    ),
    post(
        "/zones/{zone}/retransfer",
        "Transfers the zone in full.",
        Need::Zone(Manage),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneRetransfer { name: given.zone_text() })),
    ),
    post(
        "/zones/{zone}/notify",
        "Sends NOTIFY to the zone's secondaries.",
        Need::Zone(Change),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneNotify { name: given.zone_text() })),
    ),
    post(
        "/zones/{zone}/sign",
        "Makes all signatures of the zone again.",
        Need::Zone(Manage),
        &[],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::ZoneSign { name: given.zone_text() })),
    ),
];

const KEYS: &[Route] = &[
    get(
        "/zones/{zone}/keys",
        "The keys of a zone that is signed here.",
        Need::Zone(Read),
        &[],
        &schemas::KEYS,
        Run::Command(|given| Ok(Verb::KeyList { name: given.zone_text() })),
    ),
    get(
        "/zones/{zone}/keys/timeline",
        "The coming events of the zone's keys.",
        Need::Zone(Read),
        &[],
        &schemas::TIMELINE,
        Run::Command(|given| Ok(Verb::KeyTimeline { name: given.zone_text() })),
    ),
    get(
        "/zones/{zone}/keys/ds",
        "The DS records that the parent is to have.",
        Need::Zone(Read),
        &[optional("digests", Texts, "Digest types as numbers, separated by commas; 2 if it is missing.")],
        &schemas::DS,
        Run::Command(ds),
    ),
    post(
        "/zones/{zone}/keys/roll",
        "Starts to replace a key.",
        Need::Zone(Manage),
        &[
            optional("key", Text, "The key, as TAG or TAG/ALGORITHM."),
            optional("role", Words(&["ksk", "zsk", "csk"]), "The role of the key, if no key is named."),
            optional("emergency", Flag, "Whether the standby key takes over at once."),
        ],
        &schemas::ZONE_RESULT,
        Run::Command(roll),
    ),
    post(
        "/zones/{zone}/keys/retire",
        "Removes a key as soon as no cache needs it.",
        Need::Zone(Manage),
        &[KEY],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::KeyRetire { name: given.zone_text(), key: given.given("key") })),
    ),
    post(
        "/zones/{zone}/keys/ds-published",
        "Takes it as given that all servers of the parent have the DS record of a key.",
        Need::Zone(Manage),
        &[KEY],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::KeyDsPublished { name: given.zone_text(), key: given.given("key") })),
    ),
    post(
        "/zones/{zone}/keys/ds-withdrawn",
        "Takes it as given that no server of the parent has the DS record of a key.",
        Need::Zone(Manage),
        &[KEY],
        &schemas::ZONE_RESULT,
        Run::Command(|given| Ok(Verb::KeyDsWithdrawn { name: given.zone_text(), key: given.given("key") })),
    ),
];

const RESOLVER: &[Route] = &[
    get(
        "/cache",
        "The counters of the cache.",
        Need::Server(Read),
        &[],
        &schemas::CACHE,
        Run::Command(|_| Ok(Verb::CacheStats)),
    ),
    get(
        "/cache/dump",
        "Every entry of the cache.",
        Need::Server(Server),
        &[],
        &schemas::CACHE_DUMP,
        Run::Text(|_| Ok(Verb::CacheDump)),
    ),
    post(
        "/cache/flush",
        "Flushes a name from the cache.",
        Need::Server(Server),
        &[
            NAME,
            optional("tree", Flag, "Also all names below it."),
            optional("type", Text, "Only records of this type."),
        ],
        &schemas::CACHE_RESULT,
        Run::Command(|given| {
            Ok(Verb::CacheFlush {
                name: given.given("name"),
                tree: given.flag("tree"),
                rtype: given.text("type"),
            })
        }),
    ),
    post(
        "/cache/save",
        "Writes the cache to the file of the configuration.",
        Need::Server(Server),
        &[],
        &schemas::CACHE_RESULT,
        Run::Command(|_| Ok(Verb::CacheSave { file: None })),
    ),
    post(
        "/cache/load",
        "Reads the file of the configuration into the cache.",
        Need::Server(Server),
        &[],
        &schemas::CACHE_RESULT,
        Run::Command(|_| Ok(Verb::CacheLoad { file: None })),
    ),
    get(
        "/forward",
        "The forwarding rules.",
        Need::Server(Read),
        &[],
        &schemas::FORWARD_RULES,
        Run::Command(|_| Ok(Verb::ForwardList)),
    ),
    post(
        "/forward",
        "Forwards queries for a domain to servers, until the next start.",
        Need::Server(Server),
        &[
            DOMAIN,
            required("servers", Texts, "The servers, as in `servers` of [[resolver.forward]]."),
            optional("stub", Flag, "The servers are authoritative."),
        ],
        &schemas::RULE_RESULT,
        Run::Command(forward),
    ),
    delete(
        "/forward",
        "Removes the rule for a domain.",
        Need::Server(Server),
        &[DOMAIN],
        &schemas::RULE_RESULT,
        Run::Command(|given| Ok(Verb::ForwardRemove { domain: given.given("domain") })),
    ),
    get(
        "/encryption",
        "The encrypted transports of authoritative servers that were probed.",
        Need::Server(Read),
        &[],
        &schemas::ENCRYPTION,
        Run::Command(|_| Ok(Verb::EncryptionList)),
    ),
    get(
        "/trust-anchors",
        "The trust anchors.",
        Need::Server(Read),
        &[],
        &schemas::TRUST_ANCHORS,
        Run::Command(|_| Ok(Verb::TrustAnchorList)),
    ),
    get(
        "/nta",
        "The negative trust anchors.",
        Need::Server(Read),
        &[],
        &schemas::NEGATIVE_ANCHORS,
        Run::Command(|_| Ok(Verb::NtaList)),
    ),
    post(
        "/nta",
        "Does not validate a domain for a while.",
        Need::Server(Server),
        &[DOMAIN, required("time", Text, "The duration, such as 1h.")],
        &schemas::RULE_RESULT,
        Run::Command(|given| Ok(Verb::NtaAdd { domain: given.given("domain"), time: given.given("time") })),
    ),
    delete(
        "/nta",
        "Validates a domain again.",
        Need::Server(Server),
        &[DOMAIN],
        &schemas::RULE_RESULT,
        Run::Command(|given| Ok(Verb::NtaRemove { domain: given.given("domain") })),
    ),
];

const POLICIES: &[Route] = &[
    get(
        "/policy",
        "The state of every response policy zone and block list.",
        Need::Server(Read),
        &[],
        &schemas::POLICY_SOURCES,
        Run::Command(|_| Ok(Verb::PolicyStatus)),
    ),
    get(
        "/policy/top",
        "What policies block most.",
        Need::Server(Read),
        &[
            optional(
                "by",
                Words(&["name", "client", "rule-source"]),
                "What is counted; `name` if it is missing.",
            ),
            COUNT,
            HOUR,
        ],
        &schemas::TOP,
        Run::Command(top),
    ),
    get(
        "/policy/test",
        "Which rule decides about a name.",
        Need::Server(Read),
        &[
            NAME,
            CLIENT,
            TSIG_KEY,
            ON,
            PROTO,
            MAC,
            CLIENT_ID,
            EDNS_TAG,
            optional("type", Text, "The query type; A if it is missing."),
        ],
        &schemas::POLICY_TEST,
        Run::Command(|given| {
            Ok(Verb::PolicyTest {
                name: given.given("name"),
                client: given.parsed("client", "an IP address")?,
                key: given.text("key"),
                details: details(given)?,
                rtype: given.text("type").or_else(|| Some("A".into())),
            })
        }),
    ),
    post(
        "/policy/refresh",
        "Fetches or reads block lists now.",
        Need::Server(Policy),
        &[optional("list", Text, "The list; all if it is missing.")],
        &schemas::POLICY_RESULT,
        Run::Command(|given| Ok(Verb::PolicyRefresh { list: given.text("list") })),
    ),
    post(
        "/policy/pause",
        "Suspends all rules for a group of clients, or ends that.",
        Need::Server(Policy),
        &[
            required("group", Text, "The group."),
            optional("time", Text, "The duration, such as 10m; without it the pause ends."),
        ],
        &schemas::POLICY_RESULT,
        Run::Command(|given| Ok(Verb::PolicyPause { group: given.given("group"), time: given.text("time") })),
    ),
];

fn count(given: &Arguments) -> Result<usize, ApiFault> {
    match given.number("count").unwrap_or(DEFAULT_COUNT) {
        count @ 1..=MAX_COUNT => Ok(count as usize),
        count => {
            Err(ApiFault::bad_request(format!("{count} is out of range: 1 to {MAX_COUNT}")).field("count"))
        }
    }
}

fn explain(given: &Arguments) -> Result<Verb, ApiFault> {
    Ok(Verb::Explain {
        name: given.given("name"),
        rtype: given.text("type").unwrap_or_else(|| "A".into()),
        dnssec: given.flag("dnssec"),
        client: given.parsed("client", "an IP address")?,
        key: given.text("key"),
        details: details(given)?,
    })
}

fn details(given: &Arguments) -> Result<ClientDetails, ApiFault> {
    let tag = |tag: u64| {
        let fault =
            |_| ApiFault::bad_request(format!("{tag} is not a tag from 0 to 65535")).field("edns_tag");
        u16::try_from(tag).map_err(fault)
    };
    Ok(ClientDetails {
        on: given.text("on"),
        proto: given.text("proto"),
        mac: given.text("mac"),
        client_id: given.text("client_id"),
        edns_tag: given.number("edns_tag").map(tag).transpose()?,
    })
}

fn ds(given: &Arguments) -> Result<Verb, ApiFault> {
    let texts = given.texts("digests");
    let fault = |text: &String| ApiFault::bad_request(format!("`{text}` is not the number of a digest type"));
    let digests = texts.iter().map(|text| text.parse().map_err(|_| fault(text).field("digests")));
    let digests: Vec<u8> = digests.collect::<Result<_, _>>()?;
    Ok(Verb::KeyExportDs {
        name: given.zone_text(),
        digests: if digests.is_empty() { vec![2] } else { digests },
    })
}

fn roll(given: &Arguments) -> Result<Verb, ApiFault> {
    let role = given.text("role").and_then(|role| match role.as_str() {
        "ksk" => Some(RolledRole::Ksk),
        "zsk" => Some(RolledRole::Zsk),
        "csk" => Some(RolledRole::Csk),
        _ => None,
    });
    Ok(Verb::KeyRoll {
        name: given.zone_text(),
        key: given.text("key"),
        role,
        emergency: given.flag("emergency"),
    })
}

fn forward(given: &Arguments) -> Result<Verb, ApiFault> {
    let servers = given.texts("servers");
    for text in &servers {
        let fault = |fault| ApiFault::bad_request(format!("`{text}`: {fault}")).field("servers");
        UpstreamServer::parse(text).map_err(fault)?;
    }
    Ok(Verb::ForwardAdd { domain: given.given("domain"), servers, stub: given.flag("stub") })
}

fn top(given: &Arguments) -> Result<Verb, ApiFault> {
    let by = match given.text("by").as_deref() {
        Some("client") => TopKind::Client,
        Some("rule-source") => TopKind::RuleSource,
        _ => TopKind::Name,
    };
    Ok(Verb::PolicyTop { by, count: count(given)?, hour: given.flag("hour") })
}
