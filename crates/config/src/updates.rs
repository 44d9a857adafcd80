//! `[updates]`, and keys of `[[zone]]` and `[template.X]` about changes: who may change a zone by dynamic
//! updates, and which changes are stored.

use toml::Spanned;
use toml::de::DeValue;
use update::{GrantOrDeny, NameRelation, PolicyRule, RuleClient, RuleTypes, SerialPolicy};
use wire::LowerNameBuf;

use super::report::Diagnostic;
use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Int, Size, Time, Value, Word, quote};
use super::transfers::TransferGrant;

keys! {
    /// Limits of dynamic updates (RFC 2136), for all zones together.
    pub struct UpdatesSection in "[updates]" {
        /// Most requests that wait for the disk at a time; further ones are answered with SERVFAIL.
        live "queue" queue: Int<usize, 1, 1_000_000> = Int(10_000), example 1000;
        /// Most prerequisites and changes of one request together; a request with more is refused.
        live "max-records" records: Int<usize, 1, 65_535> = Int(1000), example 100;
        /// Most signed requests that are remembered, each as long as its signature is accepted, so that a
        /// captured request has no effect when it is sent again. Beyond it the ones signed first are
        /// forgotten, and requests signed before them are refused from then on (BADTIME).
        live "remembered-requests" remembered: Int<usize, 1, 100_000_000> = Int(200_000), example 1_000_000;
        /// Most updates at a time that are forwarded to primaries (`forward-updates`) and wait for their
        /// answers; further ones are answered with SERVFAIL.
        live "forward-in-flight" forward_in_flight: Int<u64, 1, 10_000> = Int(64), example 200;
        /// Most checks of delegations (`delegation-updates`) that begin in a second; further ones wait. Each
        /// asks all name servers of a child zone.
        live "delegation-checks-per-second" delegation_checks: Int<u32, 1, 1000> = Int(20), example 100;
        /// Most transactions (`nomen ctl zone begin`) that are open at a time.
        live "transactions" transactions: Int<usize, 1, 10_000> = Int(16), example 4;
        /// Most bytes of records set and unset in one transaction, or in one edit of a program.
        live "transaction-size" transaction_size: Size<1_024, 1_073_741_824> = Size(4 << 20), example "64MiB";
        /// Time without a command after which a transaction is dropped.
        live "transaction-timeout" transaction_timeout: Time<1_000, 86_400_000> = Time::secs(600),
            example "1h";
    }
}

keys! {
    /// Keys of zones and templates about changes. The zone's keys take precedence.
    pub struct UpdateKeys {
        /// Clients that may update the zone (RFC 2136), written as in `allow-transfer`: all its names, and
        /// all types but NS, SOA and those that signers generate. Needs `state-dir` of `[server]`; a zone
        /// with `primaries` takes no updates.
        live "allow-update" allow_update: Option<Vec<At<TransferGrant>>> = None,
            example ["127.0.0.1", "key:dhcp.example.com"];
        /// Rules of which client may update what, in this order: `grant` or `deny`; `key:NAME`, a network,
        /// `cert:NAME`, several of these, or `any`; `name NAME`, `subdomain NAME`, `wildcard *.NAME`,
        /// `pattern FORM` (`*` is any label, and at the end any labels: `_acme-challenge.*`), `self`,
        /// `selfsub` or `zone`; types, of which `ANY` is all. The first rule that matches decides;
        /// `allow-update` is tried last.
        live "update-policy" update_policy: Option<Vec<At<PolicyRule>>> = None,
            example ["grant key:dhcp.example.com subdomain dyn.example.com. A AAAA"];
        /// Programs may change the zone through the HTTP API, and operators in transactions (`nomen ctl zone
        /// begin`). Needs `state-dir` of `[server]`; a zone with `primaries` is not changed here. Unset: no.
        live "api" api: Option<bool> = None, example true;
        /// Serial number after a change: "increment" adds one, "unixtime" is the seconds since 1970, "date"
        /// is the day and two digits; where these are not greater, one is added. Unset: `increment`.
        live "serial-policy" serial_policy: Option<SerialPolicy> = None, example "unixtime";
        /// Store the differences between versions of the zone's file, to answer IXFR (RFC 1995) with them.
        /// Needs `state-dir` of `[server]`. Unset: yes for zones with `allow-transfer` and at least 1000
        /// records; smaller ones transfer whole about as fast.
        live "ixfr-from-differences" ixfr_from_differences: Option<bool> = None, example true;
        /// Split a string of more than 255 bytes in a TXT record of the zone's file into several, which
        /// readers join (RFC 7208 §3.3), with a warning. Unset: no; such a string is an error.
        live "split-strings" split_strings: Option<bool> = None, example true;
        /// Most bytes of the zone's file and its included files together. A larger zone is not loaded, and
        /// the previous version stays in service. Unset: `32GiB`.
        live "file-max-size" file_max_size: Option<Size<1_024, 1_099_511_627_776>> = None, example "1GiB";
        /// Most bytes of older changes stored for IXFR (RFC 1995), besides those since the zone was last
        /// written as a whole; of a zone that changes by its file, at most twice as many bytes of changes in
        /// all. Unset: `16MiB`.
        live "journal-size" journal_size: Option<Size<0, 1_099_511_627_776>> = None, example "64MiB";
        /// Longest time after a change until the served zone is written to its file. Comments of the old file
        /// are lost. A file edited since nomen read or wrote it is not written, and an error is logged each
        /// time; the file of a frozen zone is not written. Unset: only `nomen ctl zone write` writes the
        /// file.
        live "write-file-every" write_file_every: Option<Time<1_000, 2_592_000_000>> = None, example "1h";
        /// What child zones may change of their delegations in this zone; nomen asks all their name servers
        /// for it, and accepts what is signed: `cds`, the DS records, also their deletion (CDS and CDNSKEY,
        /// RFC 7344 and 8078); `bootstrap`, the first DS records of an unsigned delegation, if signed zones
        /// of the name servers have them, too (RFC 9615; needs `[resolver]` that validates); `csync`, NS
        /// records and glue of a signed delegation (RFC 7477); `none`, nothing although the template has
        /// something. Needs `state-dir` of `[server]`; a zone with `primaries` is not changed here. Unset:
        /// nothing.
        live "delegation-updates" delegation_updates: Option<Vec<At<DelegationUpdate>>> = None,
            example ["cds"];
        /// How often the name servers of each delegation are asked, a tenth more or less often; the
        /// delegations of a zone are spread over this time. `0s`: only after a NOTIFY, or by command. Unset:
        /// `1d`.
        live "delegation-scan" delegation_scan: Option<Time<0, 7_776_000_000>> = None, example "12h";
        /// Whether a NOTIFY(CDS) or NOTIFY(CSYNC) for a delegation (RFC 9859) has its name servers asked
        /// soon. Anyone may send it: it is only a hint. Unset: yes, with `delegation-updates`.
        live "delegation-notify" delegation_notify: Option<bool> = None, example false;
        /// Only report what child zones ask for: in the log, in metrics and by `nomen ctl delegation list`.
        /// The zone is not changed. Unset: no.
        live "delegation-dry-run" delegation_dry_run: Option<bool> = None, example true;
    }
}

/// What a child zone may change of its delegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DelegationUpdate {
    /// The DS RRset, by CDS and CDNSKEY.
    Cds,
    /// The first DS RRset, by CDS and CDNSKEY that name servers confirm.
    Bootstrap,
    /// NS records and glue, by CSYNC.
    Csync,
    /// Nothing, although the template of the zone has something.
    Nothing,
}

impl Word for DelegationUpdate {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("cds", Self::Cds),
        ("bootstrap", Self::Bootstrap),
        ("csync", Self::Csync),
        ("none", Self::Nothing),
    ];
}

/// Reports first DS records that nothing here can confirm.
pub(super) fn check_bootstrap<'k>(
    all: impl Iterator<Item = &'k UpdateKeys>,
    validates: bool,
    faults: &mut Vec<Diagnostic>,
) {
    let updates = all.flat_map(|keys| keys.delegation_updates.value.iter().flatten());
    for update in updates.filter(|update| update.value == DelegationUpdate::Bootstrap && !validates) {
        let message = "`bootstrap` needs the resolver of this server, and that it validates";
        faults.push(Diagnostic::at(update.place.as_ref(), message).hint("add [resolver]"));
    }
}

impl Word for SerialPolicy {
    const WORDS: &'static [(&'static str, Self)] =
        &[("increment", Self::Increment), ("unixtime", Self::UnixTime), ("date", Self::Date)];
}

impl Value for PolicyRule {
    fn kind() -> String {
        "rule `grant|deny client names types`".into()
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        reader.text(node, "a rule such as \"grant key:NAME zone\"", str::parse)
    }
    fn render(&self) -> Option<String> {
        let action = match self.action {
            GrantOrDeny::Grant => "grant",
            GrantOrDeny::Deny => "deny",
        };
        let mut words = vec![action.to_owned()];
        words.extend(self.client.key.as_ref().map(|key| format!("key:{key}")));
        words.extend(self.client.network.map(|network| network.to_string()));
        words.extend(self.client.certificate.as_ref().map(|rule| format!("cert:{rule}")));
        if words.len() == 1 {
            words.push("any".into());
        }
        words.push(match &self.names {
            NameRelation::Name(name) => format!("name {name}"),
            NameRelation::Subdomain(name) => format!("subdomain {name}"),
            NameRelation::Wildcard(name) => format!("wildcard {name}"),
            NameRelation::Pattern(form) => format!("pattern {form}"),
            NameRelation::SelfName => "self".into(),
            NameRelation::SelfSub => "selfsub".into(),
            NameRelation::Zone => "zone".into(),
        });
        match &self.types {
            RuleTypes::Usual => {}
            RuleTypes::All => words.push("ANY".into()),
            RuleTypes::Only(types) => words.extend(types.iter().map(ToString::to_string)),
        }
        Some(quote(&words.join(" ")))
    }
}

/// Returns the rule for a client of `allow-update`: it may change the usual types anywhere in the zone.
pub fn rule_of(grant: &TransferGrant) -> PolicyRule {
    PolicyRule {
        action: GrantOrDeny::Grant,
        client: RuleClient {
            key: grant.key().map(|key| key.as_name().to_buf()),
            network: grant.from(),
            certificate: grant.certificate().cloned(),
        },
        names: NameRelation::Zone,
        types: RuleTypes::Usual,
    }
}

impl UpdateKeys {
    /// Returns whether any client or program may change the zone.
    pub fn takes_any(&self) -> bool {
        self.has_rules() || self.api.value == Some(true)
    }

    /// Returns whether there are rules of which client may change what.
    pub fn has_rules(&self) -> bool {
        self.allow_update.is_some() || self.update_policy.is_some()
    }

    /// Returns whether child zones may change anything of their delegations.
    pub fn takes_delegation_updates(&self) -> bool {
        let is_any = |update: &At<DelegationUpdate>| update.value != DelegationUpdate::Nothing;
        self.delegation_updates.value.iter().flatten().any(is_any)
    }

    /// Returns the clients of `allow-update`.
    pub fn grants(&self) -> impl Iterator<Item = &At<TransferGrant>> {
        self.allow_update.value.iter().flatten()
    }

    /// Returns every TSIG key that is named, with its place.
    pub fn keys(&self) -> impl Iterator<Item = At<LowerNameBuf>> {
        let grants = self.allow_update.value.iter().flatten();
        let of_grants = grants.map(|grant| (grant.value.key().copied(), grant.place.clone()));
        let rules = self.update_policy.value.iter().flatten();
        let key = |rule: &PolicyRule| rule.client.key.map(|key| key.as_name().to_lower());
        let of_rules = rules.map(move |rule| (key(&rule.value), rule.place.clone()));
        of_grants.chain(of_rules).filter_map(|(key, place)| key.map(|value| At { value, place }))
    }

    /// Reports updates that cannot be stored, and updates of zones with primaries.
    pub(super) fn check(&self, has_state: bool, has_primaries: bool, faults: &mut Vec<Diagnostic>) {
        let (allow, policy) = (&self.allow_update, &self.update_policy);
        let of_allow = allow.value.as_ref().map(|_| ("allow-update", allow.place.as_ref()));
        let of_policy = policy.value.as_ref().map(|_| ("update-policy", policy.place.as_ref()));
        let (kept, api) = (&self.ixfr_from_differences, &self.api);
        let of_kept = (kept.value == Some(true)).then_some(("ixfr-from-differences", kept.place.as_ref()));
        let of_api = (api.value == Some(true)).then_some(("api", api.place.as_ref()));
        let delegations = &self.delegation_updates;
        let of_children =
            self.takes_delegation_updates().then_some(("delegation-updates", delegations.place.as_ref()));
        let all = of_allow.into_iter().chain(of_policy).chain(of_api).chain(of_kept).chain(of_children);
        for (name, place) in all {
            if has_primaries {
                let message = match name {
                    "ixfr-from-differences" => {
                        format!("a zone with `primaries` has no file: `{name}` has no effect")
                    }
                    "api" | "delegation-updates" => {
                        format!("a zone with `primaries` is not changed here: `{name}` has no effect")
                    }
                    _ => format!("a zone with `primaries` takes no updates: `{name}` has no effect"),
                };
                faults.push(Diagnostic::at(place, message));
            } else if !has_state {
                let message = format!("`{name}` needs a state folder");
                faults.push(Diagnostic::at(place, message).hint("set `state-dir` in [server]"));
            }
        }
    }
}
